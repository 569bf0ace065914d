"""Decision models as scorers and judges; with langchain-core 1.8 the real classes."""

import asyncio
import sys

import decision_models
import pytest
from decision_models import Words
from langchain_core.documents import Document
from langchain_core.language_models.fake_chat_models import FakeListChatModel
from recorded_runs import RunRecorder

from denoise_core import InputError, MissingExtra
from langchain_denoise import DenoiseCompressor, DenoisingRetriever, Verifier, verified
from langchain_denoise.models.decisions import Decide
from langchain_denoise.models.scoring import as_scorer


@pytest.fixture(autouse=True)
def there(monkeypatch):
    decision_models.in_place(monkeypatch)


def helpful(state):
    return 0.9 if "Paris" in state["passage"] else 0.2


DOCUMENTS = [Document(page_content=t) for t in ("Paris is a capital.", "Bananas.", "Paris lies on the Seine.")]


@pytest.mark.parametrize("sync", [True, False])
async def test_what_it_finds_helpful_is_kept(sync):
    compressor = DenoiseCompressor.from_decision_model(Words(yes=helpful))
    if sync:
        found = await asyncio.to_thread(compressor.compress_documents, DOCUMENTS, "q")
    else:
        found = await compressor.acompress_documents(DOCUMENTS, "q")
    assert [d.page_content for d in found] == ["Paris is a capital.", "Paris lies on the Seine."]
    assert found[0].metadata["relevance_score"] == pytest.approx(0.9)


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


def test_probabilities_as_they_are():
    model = Words(yes=lambda state: float(state["passage"]))
    assert list(as_scorer(model).score("q", ["0", "1", "0.5"])) == [0, 1, 0.5]
    assert len(as_scorer(model).score("q", [])) == 0


@pytest.mark.parametrize(("yes", "outcome"), [(0.9, "supported"), (0.4, "unsupported")])
async def test_a_judge(kit, yes, outcome):
    states, seen = [], RunRecorder()
    model = Words(yes=lambda state: states.append(state) or yes)
    context = {"context": [Document(page_content="In Paris.", metadata={"title": "Eiffel Tower"})]}
    said = verified(lambda given: {"answer": "Paris, since 1889.", **context}, Verifier(judge=model))
    out = await asyncio.to_thread(said.invoke, {"question": "Where?"}, {"callbacks": [seen]})
    again = await said.ainvoke({"question": "Where?"})
    assert out["denoise"]["outcome"] == again["denoise"]["outcome"] == outcome
    assert "Eiffel Tower\nIn Paris." in states[0]
    assert out["denoise"]["judge"] == "Words"
    calls = seen.paths("chain") + seen.paths("llm")
    assert any(path.endswith("/Words") for path in calls)


def test_wrong_models_are_refused(monkeypatch):
    with pytest.raises(InputError, match="got FakeListChatModel"):
        Decide(FakeListChatModel(responses=["yes"]))
    monkeypatch.setitem(sys.modules, "langchain_core.decisions", None)
    monkeypatch.delitem(sys.modules, "langchain_core.decisions.base")
    with pytest.raises(MissingExtra, match=r"langchain-core 1\.8"):
        Decide(FakeListChatModel(responses=["yes"]))
