"""A retriever that denoises: LangChain's own suite for retrievers, and what it does beyond."""

import math

import pytest
from chain_parts import Answers, fail, s2a
from langchain_agents import both, both_ways, run
from langchain_classic.retrievers.multi_query import MultiQueryRetriever
from langchain_core.documents import Document
from langchain_core.embeddings import DeterministicFakeEmbedding
from langchain_core.retrievers import BaseRetriever
from langchain_core.runnables import RunnableLambda
from langchain_core.vectorstores import InMemoryVectorStore
from langchain_tests.integration_tests import RetrieversIntegrationTests
from recorded_runs import RunRecorder
from rerank_server import words

from denoise_core import InputError
from denoise_core.end import ENDDenoiser
from denoise_core.testing import FunctionScorer
from langchain_denoise import DenoisingRetriever

TEXTS = ["red fish", "blue fish", "one fish", "two birds", "a red bird"]


def store():
    documents = [
        Document(page_content=text, id=text, metadata={"n": number})
        for number, text in enumerate(TEXTS)
    ]
    found_documents = InMemoryVectorStore(DeterministicFakeEmbedding(size=8))
    found_documents.add_documents(documents)
    return found_documents.as_retriever(search_kwargs={"k": 5})


def keep_all():
    return ENDDenoiser(FunctionScorer(words), threshold=-math.inf)


class TestLangChainsOwnSuite(RetrieversIntegrationTests):
    @property
    def retriever_constructor(self):
        return DenoisingRetriever

    @property
    def retriever_constructor_params(self):
        return {"retriever": store(), "denoiser": keep_all()}

    @property
    def retriever_query_example(self):
        return "red fish"


class Fixed(BaseRetriever):
    """Takes no k with a call."""

    def _get_relevant_documents(self, query, *, run_manager):
        return [Document(page_content=text, id=text) for text in TEXTS]


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


def test_a_failure_keeps_the_context_but_never_more_than_k():
    broken = Answers(fail)
    found_documents = both(
        DenoisingRetriever(retriever=Fixed(), denoiser=broken, k=3), "q"
    )
    assert [document.id for document in found_documents] == TEXTS[:3]
    assert "no route" in found_documents[0].metadata["denoise_fallback"]
    with pytest.raises(ConnectionError):
        DenoisingRetriever(
            retriever=Fixed(), denoiser=broken, k=3, on_error="raise"
        ).invoke("q")


@both_ways
async def test_the_config_of_a_call_reaches_both_parts(is_sync):
    recorder = RunRecorder()
    retriever = DenoisingRetriever(retriever=Fixed(), denoiser=s2a(), k=2)
    config = {"callbacks": [recorder], "tags": ["t"], "run_name": "mine"}
    await run(retriever, is_sync, "q", config)
    assert recorder.paths("retriever") == ["mine", "mine/Fixed"]
    path = "mine/DenoiseCompressor/FunctionChatModel"
    assert recorder.paths("llm") == [path] * len(TEXTS)
    assert all("t" in traced.tags for traced in recorder.of_kind("llm"))


def test_settings_of_a_call_reach_the_denoiser_and_not_the_vector_store():
    end = ENDDenoiser(FunctionScorer(words), keep=5)
    retriever = DenoisingRetriever(retriever=store(), denoiser=end)
    for settings in ({"keep": 1}, {"threshold": 2.0}, {"top_n": 1}, {"k": 1}):
        [document] = both(retriever, "red fish", **settings)
        assert document.page_content == "red fish"
    filtered = both(retriever, "q", filter=lambda item: item.metadata["n"] < 2)
    assert len(filtered) == 2
    with pytest.raises(InputError, match="keep and threshold: give one of them"):
        retriever.invoke("q", keep=1, threshold=2.0)
    with pytest.raises(InputError, match="on_error: set it on the DenoisingRetriever"):
        retriever.invoke("q", on_error="raise")


TOWNS = ["Arden", "Bryn", "Cole"]


class Turning(BaseRetriever):
    """Finds the same documents in an order that the query decides."""

    has_ids: bool

    def _get_relevant_documents(self, query, *, run_manager):
        documents = []
        for town in TOWNS:
            text = f"{town} is a town on the river. It has a mill."
            documents.append(Document(text, id=town if self.has_ids else None))
        return documents[::-1] if "river" in query else documents


@both_ways
@pytest.mark.parametrize("has_ids", [True, False])
@pytest.mark.parametrize("method", ["end", "s2a"])
async def test_several_queries_give_no_duplicates(method, is_sync, has_ids):
    by_query = FunctionScorer(lambda query, text: float(len(query) + len(text)))
    denoiser = ENDDenoiser(by_query, keep=3) if method == "end" else s2a()
    better = DenoisingRetriever(retriever=Turning(has_ids=has_ids), denoiser=denoiser)
    wordings = RunnableLambda(lambda question: ["a mill?", "which river towns?"])
    many = MultiQueryRetriever(retriever=better, llm_chain=wordings)
    found = await run(many, is_sync, "towns?")
    assert [document.page_content.split()[0] for document in found] == TOWNS
