"""Decision models as scorers and judges, and a probe as one of them; with langchain-core 1.8 the real classes."""

import asyncio
import importlib
import sys

import decision_models
import pytest
from decision_models import Words, decisions
from langchain_core.documents import Document
from langchain_core.language_models.fake_chat_models import FakeListChatModel

from denoise_core import InputError, MissingExtra, Passage, arun, run
from denoise_core.augmenter import WorkingMemory
from denoise_core.testing import FunctionScorer
from langchain_denoise import DecisionJudge, DecisionScorer, DenoiseCompressor, DenoisingRetriever
from langchain_denoise.testing import RunRecorder


@pytest.fixture(autouse=True)
def there(monkeypatch):
    decision_models.in_place(monkeypatch)


def helpful(state):
    return 0.9 if "Paris" in state["text"] else 0.2


DOCUMENTS = [Document(page_content=t) for t in ("Paris is a capital.", "Bananas.", "Paris lies on the Seine.")]


@pytest.mark.parametrize("sync", [True, False])
async def test_what_it_finds_helpful_is_kept(sync):
    compressor = DenoiseCompressor.from_decision_model(Words(yes=helpful))
    if sync:
        found = await asyncio.to_thread(compressor.compress_documents, DOCUMENTS, "q")
    else:
        found = await compressor.acompress_documents(DOCUMENTS, "q")
    assert [d.page_content for d in found] == ["Paris is a capital.", "Paris lies on the Seine."]
    assert found[0].metadata["relevance_score"] == pytest.approx(2.197, abs=0.001)


def test_a_scorer_wherever_a_scorer_is_wanted(kit):
    retriever = DenoisingRetriever(retriever=kit.ListRetriever(found=DOCUMENTS), scorer=Words(yes=helpful), k=1)
    assert [d.page_content for d in retriever.invoke("q")] == ["Paris is a capital."]


def test_calls_are_traced_under_the_compressor():
    seen = RunRecorder()
    given = {"documents": DOCUMENTS, "query": "q"}
    DenoiseCompressor.from_decision_model(Words(yes=helpful)).invoke(given, {"callbacks": [seen]})
    assert (
        seen.paths("chain").count("DenoiseCompressor/Words") + seen.paths("llm").count("DenoiseCompressor/Words")
        == 3
    )


def test_the_order_of_certain_answers_is_kept_and_finite():
    scores = DecisionScorer(Words(yes=lambda state: float(state["text"]))).score("q", ["0", "1", "0.5"])
    assert scores[0] < scores[2] < scores[1]
    assert abs(scores).max() < 20
    assert scores[2] == 0
    assert len(DecisionScorer(Words(yes=helpful)).score("q", [])) == 0


MEMORY = WorkingMemory("Where?", (Passage("In Paris.", "a", header="Eiffel Tower"), Passage("x" * 30_000, "b")))


@pytest.mark.parametrize(
    ("yes", "threshold", "outcome"),
    [(0.9, 0.5, "pass"), (0.4, 0.5, "fail"), (0.6, 0.8, "unknown"), (0.1, 0.8, "fail"), (0.8, 0.8, "pass")],
)
def test_a_judge(yes, threshold, outcome):
    states = []
    model = Words(yes=lambda state: states.append(state) or yes)
    verdict, trace = run(DecisionJudge(model, threshold=threshold).assess(MEMORY, "Paris."))
    assert (verdict.outcome, verdict.score) == (outcome, yes)
    assert asyncio.run(arun(DecisionJudge(model, threshold=threshold).assess(MEMORY, "Paris.")))[0] == verdict
    assert states[0]["evidence"] == ["Eiffel Tower\nIn Paris."]
    assert (trace.usage.input_tokens, trace.usage.output_tokens) == (10, 1)


def test_without_evidence_or_answer_nothing_is_asked():
    model = Words(yes=lambda state: 1 / 0)
    for memory, answer in ((WorkingMemory("q"), "Paris."), (MEMORY, " ")):
        assert run(DecisionJudge(model).assess(memory, answer))[0].outcome == "unknown"


def asked(state):
    return {"state": state, "questions": {"helps": decisions.Noul(instructions="Is it about Paris?")}}


def test_a_probe_as_a_decision_model():
    module = importlib.reload(importlib.import_module("langchain_denoise.models.probe_decision"))
    pairs = []
    scorer = FunctionScorer(lambda query, text: pairs.append((query, text)) or (2.0 if "Paris" in text else -2.0))
    model = module.ProbeDecisionModel(scorer=scorer)
    assert model.invoke(asked("In Paris.")).nouls["helps"].noul == pytest.approx(0.8808, abs=1e-4)
    state = {"question": "Where?", "text": "Lyon", "tags": ["a", 2]}
    assert asyncio.run(model.ainvoke(asked(state))).nouls["helps"].noul == pytest.approx(0.1192, abs=1e-4)
    assert pairs == [("Is it about Paris?", "In Paris."), ("Where?", "Lyon\na\n2")]
    with pytest.raises(ValueError, match="scorer: expected a denoise_core scorer"):
        module.ProbeDecisionModel(scorer="probe")


@pytest.mark.skipif(not decision_models.REAL, reason="langchain-core before 1.8 has no other questions")
def test_a_probe_answers_no_other_questions():
    module = importlib.import_module("langchain_denoise.models.probe_decision")
    choice = decisions.Choice(instructions="Which?", criteria={"a": None})
    with pytest.raises(InputError, match="yes-or-no"):
        module.ProbeDecisionModel(scorer=FunctionScorer(lambda q, t: 0.0)).invoke(
            {"state": "x", "questions": {"which": choice}}
        )


def test_wrong_models_are_refused(monkeypatch):
    for kind in (DecisionScorer, DecisionJudge):
        with pytest.raises(InputError, match="got FakeListChatModel"):
            kind(FakeListChatModel(responses=["yes"]))
    monkeypatch.setitem(sys.modules, "langchain_core.decisions", None)
    monkeypatch.delitem(sys.modules, "langchain_core.decisions.base")
    with pytest.raises(MissingExtra, match=r"langchain-core 1\.8"):
        DecisionScorer(FakeListChatModel(responses=["yes"]))
    module = importlib.reload(importlib.import_module("langchain_denoise.models.probe_decision"))
    with pytest.raises(MissingExtra, match=r"langchain-core 1\.8"):
        module.ProbeDecisionModel(scorer=FunctionScorer(lambda q, t: 0.0))
