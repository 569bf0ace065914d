"""Several queries fused: evidence is what all of them found."""

from llama_index.core.query_engine import RetrieverQueryEngine
from llama_index.core.retrievers import QueryFusionRetriever
from llamaindex_inns import assert_told_apart, index


def test_fusion(scripted):
    asks = scripted(lambda m: "check-out Tessel\nrooms vacated Larkmoor")

    def make(llm):
        found = QueryFusionRetriever([index().as_retriever()], llm=asks, use_async=False, similarity_top_k=3)
        return RetrieverQueryEngine.from_args(found, llm=llm)

    assert_told_apart(make, scripted)
