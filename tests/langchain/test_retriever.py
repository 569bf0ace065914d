"""A retriever that denoises: LangChain's own suite for retrievers, and what it does beyond."""

import asyncio
import math

import pytest
from langchain_agents import both_ways, run
from langchain_core.documents import Document
from langchain_core.embeddings import DeterministicFakeEmbedding
from langchain_core.retrievers import BaseRetriever
from langchain_core.runnables import RunnableLambda
from langchain_core.vectorstores import InMemoryVectorStore
from langchain_tests.integration_tests import RetrieversIntegrationTests
from recorded_runs import RunRecorder

from denoise_core import Denoiser, InputError
from denoise_core.end import ENDDenoiser
from denoise_core.testing import FunctionScorer
from langchain_denoise import DenoisingRetriever

TEXTS = ["red fish", "blue fish", "one fish", "two birds", "a red bird"]


def shared_words(query, text):
    return float(len(set(query.split()) & set(text.split())))


def store(**search):
    found_documents = InMemoryVectorStore(DeterministicFakeEmbedding(size=8))
    found_documents.add_texts(
        TEXTS,
        metadatas=[{"n": i} for i in range(len(TEXTS))],
        ids=[f"t{i}" for i in range(len(TEXTS))],
    )
    return found_documents.as_retriever(search_kwargs=search)


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
        return [Document(page_content=text, id=text) for text in TEXTS]


def both(retriever, query, **input_value):
    found_documents = retriever.invoke(query, **input_value)
    assert asyncio.run(retriever.ainvoke(query, **input_value)) == found_documents
    return found_documents


def test_it_fetches_more_and_keeps_the_best_in_order():
    found_documents = both(
        DenoisingRetriever(retriever=Fixed(), denoiser=keep_all(), k=2), "red bird"
    )
    assert [document.id for document in found_documents] == ["red fish", "a red bird"]
    assert all(
        "relevance_score" not in document.metadata for document in found_documents
    )
    best = both(
        DenoisingRetriever(retriever=Fixed(), denoiser=keep_all(), k=2, order="score"),
        "red bird",
    )
    assert [
        (document.id, document.metadata["relevance_score"]) for document in best
    ] == [
        ("a red bird", 2.0),
        ("red fish", 1.0),
    ]


def test_what_k_left_out_is_in_the_record():
    recorder = RunRecorder()
    DenoisingRetriever(retriever=Fixed(), denoiser=keep_all(), k=2).invoke(
        "red bird", {"callbacks": [recorder]}
    )
    [(_, summary, _)] = recorder.events
    assert [
        (document["id"], document["reason"]) for document in summary["dropped"]
    ] == [
        (text, "not among the best 2")
        for text in ("blue fish", "one fish", "two birds")
    ]


def test_a_failure_keeps_the_context_but_never_more_than_k(test_kit):
    broken = test_kit.Answers(test_kit.fail)
    found_documents = both(
        DenoisingRetriever(retriever=Fixed(), denoiser=broken, k=3), "q"
    )
    assert [document.id for document in found_documents] == TEXTS[:3]
    assert "no route" in found_documents[0].metadata["denoise_fallback"]
    with pytest.raises(ConnectionError):
        DenoisingRetriever(
            retriever=Fixed(), denoiser=broken, k=3, on_error="raise"
        ).invoke("q")


def test_any_runnable_from_text_to_documents_will_do():
    found_documents = RunnableLambda(lambda query: [Document(page_content=query)])
    assert [
        document.page_content
        for document in both(
            DenoisingRetriever(retriever=found_documents, denoiser=keep_all()), "hi"
        )
    ] == ["hi"]


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"k": 0}, "k"),
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


@both_ways
async def test_the_config_of_a_call_reaches_both_parts(test_kit, is_sync):
    recorder = RunRecorder()
    retriever = DenoisingRetriever(retriever=Fixed(), denoiser=test_kit.s2a(), k=2)
    config = {"callbacks": [recorder], "tags": ["t"], "run_name": "mine"}
    await run(retriever, is_sync, "q", config)
    assert recorder.paths("retriever") == ["mine", "mine/Fixed"]
    path = "mine/DenoiseCompressor/FunctionChatModel"
    assert recorder.paths("llm") == [path] * len(TEXTS)
    assert all("t" in traced.tags for traced in recorder.of_kind("llm"))


def test_settings_of_a_call_reach_the_denoiser_and_not_the_vector_store():
    end = ENDDenoiser(FunctionScorer(shared_words), keep=5)
    retriever = DenoisingRetriever(retriever=store(k=5), denoiser=end)
    for settings in ({"keep": 1}, {"threshold": 2.0}, {"top_n": 1}, {"k": 1}):
        [document] = both(retriever, "red fish", **settings)
        assert document.page_content == "red fish"
    filtered = both(retriever, "q", filter=lambda item: item.metadata["n"] < 2)
    assert len(filtered) == 2
    with pytest.raises(InputError, match="keep and threshold: give one of them"):
        retriever.invoke("q", keep=1, threshold=2.0)
    with pytest.raises(InputError, match="on_error: set it on the DenoisingRetriever"):
        retriever.invoke("q", on_error="raise")


def test_a_call_without_a_number_keeps_the_retrievers_own():
    retriever = DenoisingRetriever(retriever=Fixed(), denoiser=keep_all(), top_n=1)
    assert len(retriever.invoke("red bird", k=None)) == 1
