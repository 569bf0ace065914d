"""What only a real model can show: END finds what a question asks for, text is generated, and a reply that cannot
be read costs no passage. The model is SmolLM2 with 135 million weights (`small_model`)."""

import pytest
from readings import short_questions
from small_model import model_folder

from denoise_core import Message, Passage
from denoise_core.end import HeadReader, HiddenReader, LocalLLM, ReadingSettings
from denoise_core.end.fit import fit_heads, fit_probe
from denoise_core.runtime import fallbacks
from denoise_core.s2a import S2ADenoiser
from denoise_core.testing import FunctionLLM
from denoise_lab.controls import with_random_blocks

QUESTIONS = short_questions(20, 3, 300)
# Of 30. Deeper ones find more and take longer.
PROBE_LAYER = 6
HEAD_LAYERS = range(8, 11)


@pytest.fixture(scope="module")
def llm():
    loaded = LocalLLM(str(model_folder()), max_new_tokens=24)
    loaded.load()
    return loaded


@pytest.fixture(scope="module")
def reader(llm):
    settings = ReadingSettings(pooling="mean_question")
    return HiddenReader(llm.model, tokenizer=llm.tokenizer, settings=settings)


@pytest.fixture(scope="module")
def random_model(reader):
    """The same model with blocks that know nothing."""
    return with_random_blocks(reader.backbone)


def probe_area(reader):
    """Chance that a needed passage outranks another, by probes that did not see its question."""
    fitted = fit_probe(reader, QUESTIONS, layers=[PROBE_LAYER])
    return fitted.chosen.summary()["AUC"]


def head_area(model, tokenizer):
    """The same, by heads and weights from folds without the question."""
    reader = HeadReader(model, tokenizer=tokenizer)
    return fit_heads(reader, QUESTIONS, layers=HEAD_LAYERS, max_heads=8).auc


def test_a_probe_on_the_questions_tokens_finds_what_is_asked_for(reader):
    assert probe_area(reader) > 0.77


def test_the_same_probe_on_random_blocks_does_not(reader, random_model):
    fresh = HiddenReader(
        random_model, tokenizer=reader.backbone.tokenizer, settings=reader.settings
    )
    assert probe_area(fresh) < 0.75


def test_a_few_heads_turn_to_what_is_asked_for(llm):
    assert head_area(llm.model, llm.tokenizer) > 0.69


def test_heads_of_random_blocks_do_not(llm, random_model):
    assert head_area(random_model, llm.tokenizer) < 0.65


def test_it_answers_and_streams_what_it_answers(llm):
    asked = [Message("user", "What is the capital of France?")]
    reply = llm.complete(asked)
    assert "Paris" in reply.text
    assert "".join(llm.stream(asked)) == reply.text


def test_a_selection_that_cannot_be_read_keeps_everything_and_ends(
    llm, caplog, monkeypatch
):
    monkeypatch.setattr(fallbacks, "_counts", {})  # each first one is a warning
    passages = [
        Passage("The tower was built in 1889. It is red.", "a"),
        Passage("Bread is cheap.", "b"),
    ]
    asked = FunctionLLM(lambda messages: llm.complete(messages).text)
    denoiser = S2ADenoiser(asked)
    for _ in range(3):
        result = denoiser.denoise("When was the tower built?", passages)
        kept = [(p.id, p.text) for p in result.passages]
        assert kept == [(p.id, p.text) for p in passages]
        assert result.fallback
    assert len(asked.received_messages) <= 3
    assert caplog.text.count("larger model") == 1
