"""The field's judges by name and by function: tiny random models of each shape, and what other packages return."""

import asyncio
import json
import math
from types import SimpleNamespace

import pytest
from field_judges import SHAPES, RagasMetric
from tiny_augmenter import VOCABULARY, save_tokenizer

from denoise_core import InputError, Passage
from denoise_core.augmenter import Augmenter, Outcome
from denoise_core.augmenter.drafting import Written
from denoise_core.support import judges
from denoise_core.support.functions import FunctionJudge
from denoise_core.support.judging import Claim, Claims
from denoise_core.support.models import windows

ANSWER = "the tower has floors. it was completed."
CLAIMS = Claims(ANSWER, (Claim("the tower has floors.", 0, 21), Claim("it was completed.", 22, 39)))
PASSAGES = (
    Passage("the tower was completed.", "a", header="tower"),
    Passage("it has three floors. " * 40 + "the tower was completed.", "b"),
)
QUESTION = "it has three?"
GRANITE = (
    "{% if guardian_config %}{{ guardian_config['risk_name'] }} {% endif %}"
    "{% for m in messages %}{{ m['role'] }} {{ m['content'] }} {% endfor %}"
)


def llama(folder, template):
    import torch
    from transformers import LlamaConfig, LlamaForCausalLM

    save_tokenizer(folder, template)
    torch.manual_seed(0)
    size = {"hidden_size": 16, "intermediate_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2}
    LlamaForCausalLM(LlamaConfig(vocab_size=len(VOCABULARY), **size)).save_pretrained(folder)
    return str(folder)


@pytest.fixture(scope="session")
def tiny_granite(tmp_path_factory):
    return llama(tmp_path_factory.mktemp("granite"), GRANITE)


@pytest.fixture(scope="session")
def tiny_minicheck_t5(tmp_path_factory):
    import torch
    from transformers import T5Config, T5ForConditionalGeneration

    folder = tmp_path_factory.mktemp("minicheck")
    save_tokenizer(folder)
    torch.manual_seed(0)
    size = {"d_model": 16, "d_kv": 8, "d_ff": 16, "num_layers": 1, "num_heads": 2}
    T5ForConditionalGeneration(T5Config(vocab_size=len(VOCABULARY), **size)).save_pretrained(folder)
    return str(folder)


@pytest.fixture(scope="session")
def tiny_hhem(tmp_path_factory):
    """As the published folder lies: a type that transformers does not know, weights behind a prefix."""
    import torch
    from safetensors.torch import save_file
    from transformers import T5Config, T5ForTokenClassification

    folder = tmp_path_factory.mktemp("hhem")
    (folder / "base").mkdir()
    save_tokenizer(folder / "base")
    torch.manual_seed(0)
    size = {"d_model": 16, "d_kv": 8, "d_ff": 16, "num_layers": 1, "num_heads": 2}
    config = T5Config(vocab_size=len(VOCABULARY), num_labels=2, **size)
    config.save_pretrained(folder / "base")
    state = {f"t5.{k}": v.clone() for k, v in T5ForTokenClassification(config).state_dict().items()}
    save_file(state, folder / "model.safetensors")
    told = {
        "model_type": "HHEMv2",
        "foundation": "base",
        "auto_map": {"AutoConfig": "configuration_hhem_v2.HHEMv2Config"},
    }
    (folder / "config.json").write_text(json.dumps(told))
    return str(folder)


@pytest.fixture
def no_input(monkeypatch):
    """A prompt on standard input would hang a server: reading from it fails."""

    def refuse(*args):
        raise AssertionError("a judge asked on standard input")

    monkeypatch.setattr("builtins.input", refuse)


NAMED = [
    ("tiny_tokens", {}),  # LettuceDetect
    ("tiny_unnamed", {"family": "minicheck"}),  # MiniCheck, RoBERTa
    ("tiny_minicheck_t5", {}),
    ("tiny_hhem", {}),
    ("tiny_granite", {}),
    ("tiny_chat", {}),  # Bespoke-MiniCheck and other generative guardians
    ("tiny_nli", {}),
    ("tiny_scorer", {}),  # cross-encoders
]


@pytest.mark.parametrize(("fixture", "given"), NAMED)
def test_a_model_by_name_judges_each_claim_with_places(fixture, given, request, no_input):
    judge = judges.model(request.getfixturevalue(fixture), **given)
    if fixture in ("tiny_tokens", "tiny_chat", "tiny_granite", "tiny_hhem"):
        widen(judge)
    found = judge.judge(QUESTION, CLAIMS, PASSAGES)
    assert [(j.start, j.end) for j in found] == [(0, 21), (22, 39)]
    assert all(j.supported is not None and 0 <= j.probability <= 1 for j in found)
    texts = {p.id: p.text for p in PASSAGES}
    for j in found:
        assert all(texts[q.span.passage_id][q.span.start : q.span.end] == q.text != "" for q in j.quotes)
        assert all(ANSWER[d.start : d.end] == d.said != "" for d in j.differs)
        assert bool(j.quotes) or fixture == "tiny_tokens" or j.supported is False
        assert (j.supported is False) == bool(j.why)
    again = asyncio.run(judge.ajudge(QUESTION, CLAIMS, PASSAGES))
    assert [j.supported for j in again] == [j.supported for j in found]
    assert [j.probability for j in again] == pytest.approx([j.probability for j in found], abs=1e-5)


def widen(judge):
    """A room of 512 pieces: a template takes more than the 60 of the tiny tokenizer."""
    judge.judge(QUESTION, CLAIMS, PASSAGES)
    judge._loaded.room = 512


def test_token_classifiers_mark_the_words_of_the_claim_that_holds_them(tiny_tokens):
    import torch

    judge = judges.model(tiny_tokens)
    widen(judge)

    class Marks(torch.nn.Module):
        def forward(self, input_ids, **kwargs):
            logits = torch.zeros((*input_ids.shape, 2))
            logits[..., 1] = torch.where(input_ids == VOCABULARY.index("completed"), 5.0, -5.0)
            return SimpleNamespace(logits=logits)

    judge._loaded.network = Marks()
    first, second = judge.judge(QUESTION, CLAIMS, PASSAGES)
    assert (first.supported, second.supported) == (True, False)
    assert [(d.said, d.start) for d in second.differs] == [("completed", 29)]
    assert second.probability < 0.5 < first.probability


def test_the_best_window_counts_and_is_the_quote(tiny_nli):
    judge = judges.model(tiny_nli, threshold=0.0)
    alone = [judge.judge("", CLAIMS, [p])[0].probability for p in PASSAGES]
    both = judge.judge("", CLAIMS, PASSAGES)[0]
    assert both.probability == pytest.approx(max(alone), abs=1e-5)
    assert both.quotes[0].span.passage_id == PASSAGES[alone.index(max(alone))].id


def test_nothing_is_cut_silently(tiny_scorer):
    judge = judges.model(tiny_scorer)
    long = Claim("the tower " * 40, 0, 400)
    (found,) = judge.judge("", [long], PASSAGES)
    assert (found.supported, found.kind) == (None, "length")
    assert judge.judge("", CLAIMS, [])[0].kind == "empty_evidence"
    text = "it has three floors. " * 60 + "x" * 500 + " the tower."
    covered = set()
    for span in windows(Passage(text, "p"), 60, lambda t: len(t) // 4 + 1):
        covered |= set(range(span.start, span.end))
    assert all(i in covered for i, c in enumerate(text) if not c.isspace())


def test_a_config_that_names_no_label_asks_for_it(tiny_unnamed):
    with pytest.raises(InputError, match="LABEL_0, LABEL_1"):
        judges.model(tiny_unnamed).judge("", CLAIMS, PASSAGES)
    assert judges.model(tiny_unnamed, label="LABEL_1").judge("", CLAIMS, PASSAGES)[0].supported is not None
    with pytest.raises(InputError, match="family="):
        judges.model(tiny_unnamed, family="lettuce")


def test_code_of_a_repository_is_refused_without_a_question(tmp_path, no_input):
    told = {"model_type": "own", "auto_map": {"AutoConfig": "own.Own"}}
    (tmp_path / "config.json").write_text(json.dumps(told))
    (tmp_path / "own.py").write_text("raise SystemExit('it ran')")
    with pytest.raises(ValueError, match=r"custom code|trust_remote_code"):
        judges.model(str(tmp_path)).judge("", CLAIMS, PASSAGES)


def test_a_decision_model_judges_each_claim():
    seen = []

    def decide(asked):
        seen.append(asked["state"])
        return {"grounded": {"noul": 0.9 if "floors" in asked["state"].rpartition("BEGIN draft")[2] else 0.2}}

    found = judges.decision(decide).judge(QUESTION, CLAIMS, PASSAGES[:1])
    assert [j.supported for j in found] == [True, False]
    assert len(seen) == 2


@pytest.mark.parametrize("shape", SHAPES)
def test_a_function_is_asked_claim_by_claim_both_ways(shape):
    judge = judges.function(SHAPES[shape], name=shape)
    found = judge.judge(QUESTION, CLAIMS, PASSAGES)
    assert [j.supported for j in found] == [True, False]
    assert [(j.start, j.end) for j in found] == [(0, 21), (22, 39)]
    assert found[1].why
    assert asyncio.run(judge.ajudge(QUESTION, CLAIMS, PASSAGES)) == found

    async def inside_a_loop():
        return judge.judge(QUESTION, CLAIMS, PASSAGES)

    assert asyncio.run(inside_a_loop()) == found


def test_what_cannot_say_is_unknown_and_what_is_no_verdict_is_refused():
    for nothing in (None, math.nan, {"score": None}, SimpleNamespace(score=None, invalid_result=True)):
        (found,) = judges.function(lambda q, e, c, n=nothing: n).judge("", CLAIMS[:1], PASSAGES)
        assert found.supported is None
    for wrong in ("yes", 5, -0.1, object()):
        with pytest.raises(InputError):
            judges.function(lambda q, e, c, w=wrong: w).judge("", CLAIMS[:1], PASSAGES)
    (found,) = judges.function(lambda q, e, c: 4, best=5).judge("", CLAIMS[:1], PASSAGES)
    assert found.probability == 0.8


def test_once_a_claim_failed_no_other_is_begun_both_ways():
    asked = []

    def gone(question, evidence, claim):
        asked.append(claim)
        raise OSError("gone")

    judge = FunctionJudge(gone, limit=1)
    claims = [Claim("In 1889.", 0, 8), Claim("In 1890.", 9, 17)]
    with pytest.raises(OSError, match="gone"):
        judge.judge("When?", claims, [])
    with pytest.raises(OSError, match="gone"):
        asyncio.run(judge.ajudge("When?", claims, []))
    assert asked == ["In 1889."] * 2


def test_slips_are_refused_with_what_to_write():
    for wrong in ("vectara/model", RagasMetric, None, 3):
        with pytest.raises(InputError, match=r"judges\.model"):
            judges.function(wrong)
    own = judges.function(lambda q, e, c: 1.0)
    assert judges.as_judge(own) is own


def test_the_tiny_models_are_of_the_families_their_configs_say(tiny_tokens):
    with pytest.raises(InputError, match="'tokens', not 'entailment'"):
        judges.model(tiny_tokens, family="entailment").judge("", CLAIMS, PASSAGES)


DRAFT = "It has three floors. It was completed by Ada."
EVIDENCE = [Passage("The tower has lifts. It has three floors.", "a")]


@pytest.mark.parametrize("shape", SHAPES)
def test_the_loop_repairs_with_a_function(shape):
    repairs(judges.function(SHAPES[shape]))


@pytest.mark.parametrize(("fixture", "given"), NAMED)
def test_the_loop_repairs_with_a_model_by_name(fixture, given, request):
    """The model is loaded and asked as it is; what it says of a pair is fixed, for its weights are random."""
    judge = judges.model(request.getfixturevalue(fixture), **given)
    judge.judge(QUESTION, CLAIMS, PASSAGES)
    loaded = judge._loaded
    loaded.room = 512
    if fixture == "tiny_tokens":
        loaded._read = lambda prompt, answer: [
            (i, i + 1, 0.9 if "It was" in answer[: i + 6] else 0.1) for i in range(len(answer))
        ]
    else:
        loaded._read = lambda pairs: [(0.9 if "floors" in c and "floors" in w else 0.1, 0.0) for w, c in pairs]
    answer = repairs(judge)
    if fixture != "tiny_tokens":
        assert answer.proof.replay(EVIDENCE) == ()


def repairs(judge):
    loop = Augmenter(judge=judge)
    answer = loop.answer("What has it?", drafter=Written(DRAFT, EVIDENCE))
    assert (answer.text, answer.outcome) == ("It has three floors.", Outcome.SUPPORTED)
    assert answer.best.repaired
    assert asyncio.run(loop.aanswer("What has it?", drafter=Written(DRAFT, EVIDENCE))).text == answer.text
    return answer
