"""Documents that several queries find stay equal: their record holds nothing of the query."""

import pytest
from langchain_agents import both_ways, run
from langchain_classic.retrievers.multi_query import MultiQueryRetriever
from langchain_core.documents import Document
from langchain_core.retrievers import BaseRetriever
from langchain_core.runnables import RunnableLambda

from denoise_core.end import ENDDenoiser
from denoise_core.testing import FunctionScorer
from langchain_denoise import DenoisingRetriever

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
async def test_several_queries_give_no_duplicates(test_kit, method, is_sync, has_ids):
    by_query = FunctionScorer(lambda query, text: float(len(query) + len(text)))
    denoiser = ENDDenoiser(by_query, keep=3) if method == "end" else test_kit.s2a()
    better = DenoisingRetriever(retriever=Turning(has_ids=has_ids), denoiser=denoiser)
    wordings = RunnableLambda(lambda question: ["a mill?", "which river towns?"])
    many = MultiQueryRetriever(retriever=better, llm_chain=wordings)
    found = await run(many, is_sync, "towns?")
    assert [document.page_content.split()[0] for document in found] == TOWNS
