"""Ten mistakes that a type checker should find, each on a line that says ``mistake``; read by `test_types.py`."""

from langchain_core.documents import Document
from langchain_core.language_models import BaseChatModel
from langchain_core.retrievers import BaseRetriever
from langchain_core.vectorstores import VectorStore

from langchain_denoise import (
    DenoiseCompressor,
    DenoisingRetriever,
    EmbeddedEmbeddings,
    S2AMessages,
    Verifier,
    verified,
)


def right(model: BaseChatModel, retriever: BaseRetriever) -> list[Document]:
    compressor = DenoiseCompressor.from_llm(
        model, variant="select", top_n=3, threshold=None
    )
    around = DenoisingRetriever.from_llm(model, retriever=retriever, k=4, order="score")
    DenoiseCompressor.from_embeddings(EmbeddedEmbeddings(), keep=0.5)
    DenoiseCompressor(keep=3)
    DenoiseCompressor(scorer=EmbeddedEmbeddings(), threshold=0.2)
    DenoisingRetriever(retriever=retriever, k=3, order="score")
    S2AMessages(model=model)
    checked = verified(model, Verifier(), claims=["answer"])
    checked.invoke("question")
    return compressor.compress_documents([], "question") + around.invoke("question")


def wrong(model: BaseChatModel, retriever: BaseRetriever, store: VectorStore) -> None:
    DenoiseCompressor(denoiser=model)  # mistake: a model is no denoiser
    DenoiseCompressor(keep="half")  # mistake: neither a share nor a number
    DenoiseCompressor.from_llm(retriever)  # mistake: a retriever is no model
    DenoiseCompressor.from_llm(model, variant="selct")  # mistake: no such variant
    DenoiseCompressor.from_llm(model, kep=3)  # mistake: no such setting
    DenoiseCompressor.from_embeddings(model)  # mistake: a model is no embeddings
    DenoisingRetriever(retriever=store)  # mistake: a store is no retriever
    DenoisingRetriever.from_llm(retriever, retriever=model)  # mistake: swapped
    DenoisingRetriever.from_llm(model, retriever=retriever, order="best")  # mistake
    S2AMessages(model=5)  # mistake: a number is no model
