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
from langchain_denoise import DenoisingRetriever

SOURCE_DOCUMENTS = [
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
def denoiser(request, test_kit):
    return (
        ENDDenoiser(FunctionScorer(by_query), keep=3)
        if request.param == "end"
        else test_kit.s2a()
    )


class Turning(BaseRetriever):
    """Finds the same documents, without ids, in an order that the query decides."""

    def _get_relevant_documents(self, query, *, run_manager):
        found_documents = [
            document.model_copy(update={"id": None}) for document in SOURCE_DOCUMENTS
        ]
        return found_documents[::-1] if "river" in query else found_documents


@pytest.mark.parametrize("is_sync", [True, False])
@pytest.mark.parametrize("ids", [True, False])
def test_several_queries_give_no_duplicates(test_kit, denoiser, is_sync, ids):
    better = DenoisingRetriever(
        retriever=test_kit.ListRetriever(found=SOURCE_DOCUMENTS) if ids else Turning(),
        denoiser=denoiser,
    )
    asking = ChatPromptTemplate.from_template("{question}") | test_kit.chat(
        lambda message: "a mill?, which river towns?"
    )
    many = MultiQueryRetriever(
        retriever=better, llm_chain=asking | CommaSeparatedListOutputParser()
    )
    found_documents = (
        many.invoke("towns?") if is_sync else asyncio.run(many.ainvoke("towns?"))
    )
    assert [document.page_content.split()[0] for document in found_documents] == [
        "Arden",
        "Bryn",
        "Cole",
    ]
