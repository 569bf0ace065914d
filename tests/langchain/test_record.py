"""The record in a document's metadata: flat, small and without the query, so that stores take it."""

import asyncio

import pytest
from langchain_classic.retrievers.multi_query import MultiQueryRetriever
from langchain_core.documents import Document
from langchain_core.output_parsers import CommaSeparatedListOutputParser
from langchain_core.prompts import ChatPromptTemplate
from langchain_core.retrievers import BaseRetriever

from denoise_core.end import ENDDenoiser
from denoise_core.testing import FunctionScorer
from langchain_denoise import DenoiseCompressor, DenoisingRetriever
from langchain_denoise.convert.documents import RECORD_KEYS

FOUND = [
    Document(
        page_content=f"{place} is a town on the river. It has a mill.",
        id=place,
        metadata={"source": "atlas"},
    )
    for place in ("Arden", "Bryn", "Cole")
]


def by_query(query, text):
    return float(len(query) + len(text))


@pytest.fixture(params=["end", "s2a"])
def denoiser(request, kit):
    return (
        ENDDenoiser(FunctionScorer(by_query), keep=3)
        if request.param == "end"
        else kit.s2a()
    )


@pytest.mark.parametrize("detail", ["spans", "full"])
def test_every_value_is_one_that_a_store_takes(kit, denoiser, detail):
    kept = DenoiseCompressor(denoiser=denoiser, record=detail).compress_documents(
        FOUND, "mill?"
    )
    assert kept
    for document in kept:
        ours = {k: v for k, v in document.metadata.items() if k.startswith("denoise")}
        assert set(ours) <= set(RECORD_KEYS)
        assert {type(v) for v in document.metadata.values()} <= {str, int, float, bool}
        assert "mill?" not in str(ours)


def test_a_store_that_takes_no_nested_metadata_takes_it(kit, denoiser):
    chroma = pytest.importorskip("chromadb")
    kept = DenoiseCompressor(denoiser=denoiser).compress_documents(FOUND, "mill?")
    shelf = chroma.EphemeralClient(
        chroma.Settings(anonymized_telemetry=False)
    ).get_or_create_collection("kept", embedding_function=None)
    shelf.delete(shelf.get()["ids"] or ["none"])  # the client is one for the process
    shelf.upsert(
        ids=[d.id for d in kept],
        documents=[d.page_content for d in kept],
        metadatas=[d.metadata for d in kept],
        embeddings=[[1.0, 0.0]] * len(kept),
    )
    assert shelf.get()["metadatas"] == [d.metadata for d in kept]


class Turning(BaseRetriever):
    """Finds the same documents, without ids, in an order that the query decides."""

    def _get_relevant_documents(self, query, *, run_manager):
        found = [d.model_copy(update={"id": None}) for d in FOUND]
        return found[::-1] if "river" in query else found


@pytest.mark.parametrize("sync", [True, False])
@pytest.mark.parametrize("ids", [True, False])
def test_several_queries_give_no_duplicates(kit, denoiser, sync, ids):
    better = DenoisingRetriever(
        retriever=kit.ListRetriever(found=FOUND) if ids else Turning(),
        denoiser=denoiser,
    )
    asking = ChatPromptTemplate.from_template("{question}") | kit.chat(
        lambda m: "a mill?, which river towns?"
    )
    many = MultiQueryRetriever(
        retriever=better, llm_chain=asking | CommaSeparatedListOutputParser()
    )
    found = many.invoke("towns?") if sync else asyncio.run(many.ainvoke("towns?"))
    assert [d.page_content.split()[0] for d in found] == ["Arden", "Bryn", "Cole"]


def test_scores_stand_where_the_order_is_theirs(kit):
    scorer = ENDDenoiser(FunctionScorer(by_query), keep=3)
    [plain, scored] = (
        DenoisingRetriever(
            retriever=kit.ListRetriever(found=FOUND), denoiser=scorer, order=order
        ).invoke("mill?")[0]
        for order in ("input", "score")
    )
    assert not {"relevance_score", "denoise_score"} & set(plain.metadata)
    assert scored.metadata["relevance_score"] == scored.metadata["denoise_score"] > 0
