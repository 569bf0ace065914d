"""What only a real model can show: END finds what a question asks for, text is generated, and a reply that cannot
be read costs no passage. The model is SmolLM2 with 135 million weights (`small_model`)."""

from dataclasses import replace

import numpy as np
import pytest
from readings import states_of
from small_model import model_folder

from denoise_core import Message, Passage
from denoise_core.embedded.sample import sample_questions
from denoise_core.end import HiddenReader, LocalLLM, ProbeScorer
from denoise_core.end.fit import fit_probe
from denoise_core.local.kv_cache.prefix_cache import PrefixCache
from denoise_core.s2a import S2ADenoiser
from denoise_core.scorers import QueryLikelihood
from denoise_core.testing import FunctionLLM
from denoise_lab.controls import with_fresh_blocks

LAYER = 14  # of 30
FITTED = HELD_OUT = 12  # questions


@pytest.fixture(scope="module")
def llm():
    return LocalLLM(str(model_folder()), max_new_tokens=24)


@pytest.fixture(scope="module")
def reader(llm):
    llm.complete([Message("user", "Hello")])  # loads it
    return HiddenReader(llm.model, tokenizer=llm.tokenizer)


def questions(begin, count):
    """Each with the passage that is needed between two that are not on either side."""
    for q in sample_questions()[begin : begin + count]:
        needed = [p for p in q.passages if p.id in q.gold]
        others = [p for p in q.passages if p.id not in q.gold]
        yield replace(q, passages=(others[0], *needed, *others[1:3]))


def above_others(reader):
    """For each question that the probe was not fitted on: the share of passages that the needed one is above."""
    probe = fit_probe(reader, list(questions(0, FITTED)), layers=[LAYER]).probe
    scorer = ProbeScorer(reader, probe)
    shares = []
    for q in questions(FITTED, HELD_OUT):
        scores, labels = (
            np.array(scorer.score(q.text, [p.text for p in q.passages])),
            np.array(q.labels),
        )
        shares.append((scores[labels].min() > scores[~labels]).mean())
    return float(np.mean(shares))


def test_a_probe_on_the_last_token_finds_what_is_asked_for(reader):
    assert above_others(reader) > 0.8


def test_the_same_probe_on_random_blocks_does_not(reader):
    fresh = HiddenReader(
        with_fresh_blocks(reader.backbone), tokenizer=reader.backbone.tokenizer
    )
    assert above_others(fresh) < 0.7


def test_it_answers_and_streams_what_it_answers(llm):
    asked = [Message("user", "What is the capital of France?")]
    reply = llm.complete(asked)
    assert "Paris" in reply.text
    assert "".join(llm.stream(asked)) == reply.text


def test_the_questions_tokens_pooled_do_not_depend_on_neighbours(reader):
    """Cold, with kept prefixes, and alone."""
    pooled = reader.with_pooling("last_mean_question")
    (question,) = questions(0, 1)
    texts = [p.text for p in question.passages] + ["Bread is cheap."]
    together = [states_of(pooled, question.text, texts, [8])[8] for _ in range(2)]
    for i, text in enumerate(texts):
        alone = HiddenReader(
            reader.backbone.model,
            tokenizer=reader.backbone.tokenizer,
            settings=pooled.settings,
            prefix=PrefixCache(0),
        )
        wanted = states_of(alone, question.text, [text], [8])[8][0]
        for states in together:
            assert np.abs(states[i] - wanted).max() < 1e-5 * np.abs(wanted).max()


def test_query_likelihood_finds_what_is_asked_for_without_a_label(llm):
    scorer = QueryLikelihood(llm.model, llm.tokenizer)
    is_best = []
    for question in questions(0, FITTED):
        scores = scorer.score(question.text, [p.text for p in question.passages])
        is_best.append(question.labels[int(scores.argmax())])
    assert np.mean(is_best) > 0.6


def test_a_selection_that_cannot_be_read_keeps_everything_and_ends(llm, caplog):
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
