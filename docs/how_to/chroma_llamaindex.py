"""Denoising in a LlamaIndex query engine over Chroma: one line, and a record on each node that stays."""

from pathlib import Path

import chromadb
from llama_index.core import StorageContext, VectorStoreIndex
from llama_index.core.schema import TextNode
from llama_index.vector_stores.chroma import ChromaVectorStore

from llamaindex_denoise import DenoisePostprocessor, EmbeddedEmbedding, record

texts = Path(__file__).with_name("handbook.txt").read_text("utf-8").split("\n\n")
nodes = [TextNode(text=text.strip(), id_=f"p{n}") for n, text in enumerate(texts)]
collection = chromadb.EphemeralClient().create_collection("handbook-nodes")
storage = StorageContext.from_defaults(vector_store=ChromaVectorStore(chroma_collection=collection))
index = VectorStoreIndex(nodes, storage_context=storage, embed_model=EmbeddedEmbedding())

question = "How much does a night in the garage cost?"
before = index.as_retriever(similarity_top_k=8).retrieve(question)
after = DenoisePostprocessor().postprocess_nodes(before, query_str=question)  # new
# In an engine: index.as_query_engine(similarity_top_k=8, node_postprocessors=[DenoisePostprocessor()])

print(f"{len(before)} nodes before, {len(after)} after")
for found in after:
    print(found.node.node_id, found.node.get_content()[:60], record(found.node)["origin_spans"])
