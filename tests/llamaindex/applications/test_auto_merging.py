"""Auto-merging: leaves are found, their parent is read; a parent stands for what was found of it."""

from llama_index.core import StorageContext, VectorStoreIndex
from llama_index.core.node_parser import HierarchicalNodeParser, get_leaf_nodes
from llama_index.core.query_engine import RetrieverQueryEngine
from llama_index.core.retrievers import AutoMergingRetriever
from llama_index.core.schema import Document
from llama_index.core.storage.docstore import SimpleDocumentStore
from llamaindex_inns import Words, assert_told_apart, nodes


def test_auto_merging(scripted):
    documents = [Document(text=n.text, id_=n.node_id, metadata=n.metadata) for n in nodes()]
    parsed = HierarchicalNodeParser.from_defaults([128, 48], chunk_overlap=0)(documents)
    store = SimpleDocumentStore()
    store.add_documents(parsed)
    storage = StorageContext.from_defaults(docstore=store)
    leaves = VectorStoreIndex(get_leaf_nodes(parsed), embed_model=Words(), storage_context=storage)

    def make(llm):
        return RetrieverQueryEngine.from_args(
            AutoMergingRetriever(leaves.as_retriever(similarity_top_k=6), storage), llm=llm
        )

    assert_told_apart(make, scripted)
