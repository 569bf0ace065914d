"""A retriever that denoises: LangChain's own suite for retrievers, and what it does beyond."""

import asyncio
import math

import pytest
from langchain_core.documents import Document
from langchain_core.embeddings import DeterministicFakeEmbedding
from langchain_core.retrievers import BaseRetriever
from langchain_core.runnables import RunnableLambda
from langchain_core.vectorstores import InMemoryVectorStore
from langchain_tests.integration_tests import RetrieversIntegrationTests
from recorded_runs import RunRecorder

from denoise_core import Denoiser
from denoise_core.end import ENDDenoiser
from denoise_core.testing import FunctionScorer
from langchain_denoise import DenoisingRetriever

TEXTS = ["red fish", "blue fish", "one fish", "two birds", "a red bird"]


def shared_words(query, text):
    return float(len(set(query.split()) & set(text.split())))


def store(**search):
    found = InMemoryVectorStore(DeterministicFakeEmbedding(size=8))
    found.add_texts(
        TEXTS,
        metadatas=[{"n": i} for i in range(len(TEXTS))],
        ids=[f"t{i}" for i in range(len(TEXTS))],
    )
    return found.as_retriever(search_kwargs=search)


def keep_all() -> Denoiser:
    return ENDDenoiser(FunctionScorer(shared_words), threshold=-math.inf)


class TestLangChainsOwnSuite(RetrieversIntegrationTests):
    @property
    def retriever_constructor(self):
        return DenoisingRetriever

    @property
    def retriever_constructor_params(self):
        return {"retriever": store(k=5), "denoiser": keep_all()}

    @property
    def retriever_query_example(self):
        return "red fish"


class Fixed(BaseRetriever):
    """Takes no k with a call."""

    def _get_relevant_documents(self, query, *, run_manager):
        return [Document(page_content=t, id=t) for t in TEXTS]


def both(retriever, query, **given):
    found = retriever.invoke(query, **given)
    assert asyncio.run(retriever.ainvoke(query, **given)) == found
    return found


def test_it_fetches_more_and_keeps_the_best_in_order():
    found = both(
        DenoisingRetriever(retriever=Fixed(), denoiser=keep_all(), k=2), "red bird"
    )
    assert [d.id for d in found] == ["red fish", "a red bird"]
    assert all("relevance_score" not in d.metadata for d in found)
    best = both(
        DenoisingRetriever(retriever=Fixed(), denoiser=keep_all(), k=2, order="score"),
        "red bird",
    )
    assert [(d.id, d.metadata["relevance_score"]) for d in best] == [
        ("a red bird", 2.0),
        ("red fish", 1.0),
    ]


def test_fetch_k_reaches_the_vector_store():
    assert (
        len(both(DenoisingRetriever(retriever=store(k=1), denoiser=keep_all()), "fish"))
        == 1
    )
    assert (
        len(
            both(
                DenoisingRetriever(
                    retriever=store(k=1), denoiser=keep_all(), fetch_k=4
                ),
                "fish",
            )
        )
        == 4
    )
    assert (
        len(
            both(
                DenoisingRetriever(retriever=store(), denoiser=keep_all(), fetch_k=4),
                "fish",
                k=2,
            )
        )
        == 2
    )


def test_what_k_left_out_is_in_the_record():
    seen = RunRecorder()
    DenoisingRetriever(retriever=Fixed(), denoiser=keep_all(), k=2).invoke(
        "red bird", {"callbacks": [seen]}
    )
    [(_, summary, _)] = seen.events
    assert [(d["id"], d["reason"]) for d in summary["dropped"]] == [
        (t, "not among the best 2") for t in ("blue fish", "one fish", "two birds")
    ]


def test_a_failure_keeps_the_context_but_never_more_than_k(kit):
    broken = kit.Answers(kit.fail)
    found = both(DenoisingRetriever(retriever=Fixed(), denoiser=broken, k=3), "q")
    assert [d.id for d in found] == TEXTS[:3]
    assert "no route" in found[0].metadata["denoise_fallback"]
    with pytest.raises(ConnectionError):
        DenoisingRetriever(
            retriever=Fixed(), denoiser=broken, k=3, on_error="raise"
        ).invoke("q")


@pytest.mark.parametrize("sync", [True, False])
@pytest.mark.parametrize("k", [None, 2])
async def test_spans(kit, sync, k):
    seen = RunRecorder()
    retriever = DenoisingRetriever(retriever=Fixed(), denoiser=kit.s2a(), k=k)
    config = {"callbacks": [seen]}
    if sync:
        await asyncio.to_thread(retriever.invoke, "q", config)
    else:
        await retriever.ainvoke("q", config)
    assert seen.paths("retriever") == ["DenoisingRetriever", "DenoisingRetriever/Fixed"]
    assert seen.paths("llm") == [
        "DenoisingRetriever/DenoiseCompressor/FunctionChatModel"
    ] * len(TEXTS)


def test_any_runnable_from_text_to_documents_will_do():
    found = RunnableLambda(lambda q: [Document(page_content=q)])
    assert [
        d.page_content
        for d in both(DenoisingRetriever(retriever=found, denoiser=keep_all()), "hi")
    ] == ["hi"]


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"k": 0}, "k"),
        ({"k": 3, "fetch_k": 2}, "at least k=3"),
        ({"fetch_k": 9}, "Fixed takes no k"),
        ({"k": 3, "top_n": 2}, "give k"),
        ({"top_k": 3}, "top_k"),
    ],
)
def test_wrong_settings(settings, message):
    with pytest.raises(ValueError, match=message):
        DenoisingRetriever(retriever=Fixed(), denoiser=keep_all(), **settings)


def test_a_wrong_k_with_a_call():
    with pytest.raises(ValueError, match="top_n=0"):
        DenoisingRetriever(retriever=Fixed(), denoiser=keep_all()).invoke("q", k=0)
