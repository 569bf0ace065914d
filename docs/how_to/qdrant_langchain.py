"""Denoising in a LangChain application over Qdrant, as a compressor around the retriever you have."""

from pathlib import Path

from langchain_classic.retrievers import ContextualCompressionRetriever
from langchain_core.documents import Document
from langchain_qdrant import QdrantVectorStore

from langchain_denoise import DenoiseCompressor, EmbeddedEmbeddings  # new

texts = Path(__file__).with_name("handbook.txt").read_text("utf-8").split("\n\n")
documents = [Document(page_content=t.strip(), metadata={"paragraph": n}) for n, t in enumerate(texts)]
store = QdrantVectorStore.from_documents(
    documents, EmbeddedEmbeddings(), location=":memory:", collection_name="handbook"
)
retriever = store.as_retriever(search_kwargs={"k": 8})
better = ContextualCompressionRetriever(  # new
    base_compressor=DenoiseCompressor(keep="auto", order="score"), base_retriever=retriever
)

question = "May my dog have breakfast with me?"
print("before:", [d.metadata["paragraph"] for d in retriever.invoke(question)])
for document in better.invoke(question):
    print(document.metadata["paragraph"], f"{document.metadata['denoise_score']:.2f}", document.page_content)
