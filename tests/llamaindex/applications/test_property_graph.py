"""A property graph: triples that a retriever brings are evidence."""

from llama_index.core import PropertyGraphIndex
from llama_index.core.graph_stores import SimplePropertyGraphStore
from llama_index.core.graph_stores.types import EntityNode, Relation
from llama_index.core.indices.property_graph import LLMSynonymRetriever
from llama_index.core.query_engine import RetrieverQueryEngine
from llamaindex_inns import INNS, Words, assert_told_apart


def test_property_graph(scripted):
    store = SimplePropertyGraphStore()
    names = scripted(lambda m: "larkmoor inn in Tessel^rooms")
    for town, leaves, _ in INNS:
        inn = EntityNode(name=f"Larkmoor inn in {town}".capitalize())  # as LlamaIndex's retriever looks for it
        time = EntityNode(name=leaves)
        store.upsert_nodes([inn, time])
        store.upsert_relations([Relation(label="rooms must be vacated by", source_id=inn.id, target_id=time.id)])
    graph = PropertyGraphIndex.from_existing(store, llm=names, embed_model=Words(), embed_kg_nodes=False)

    def make(llm):
        by_name = LLMSynonymRetriever(store, llm=names, include_text=False)
        return RetrieverQueryEngine.from_args(graph.as_retriever(sub_retrievers=[by_name]), llm=llm)

    assert_told_apart(make, scripted)
