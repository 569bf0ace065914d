"""Twenty mistakes that a type checker should find, each on a line that says ``mistake``; see `test_types.py`."""

from langchain_core.documents import Document
from langchain_core.language_models import BaseChatModel
from langchain_core.retrievers import BaseRetriever
from langchain_core.vectorstores import VectorStore

from langchain_denoise import (
    ChatModelLLM,
    DenoiseCompressor,
    DenoisingRetriever,
    EmbeddedEmbeddings,
    RetrieverAdapter,
    S2AMessages,
    ShadowReport,
    Verifier,
    verified,
)
from langchain_denoise.middleware import (
    DenoiseToolResults,
    S2AMiddleware,
    VerificationMiddleware,
)


def right(model: BaseChatModel, retriever: BaseRetriever) -> list[Document]:
    compressor = DenoiseCompressor(model=model, max_tokens=300, top_n=3)
    around = DenoisingRetriever(model=model, retriever=retriever, k=4, order="score")
    DenoiseCompressor(scorer=EmbeddedEmbeddings(), keep=0.5)
    DenoiseCompressor(keep=3, header_keys=("title",))
    DenoiseCompressor(scorer=EmbeddedEmbeddings(), threshold=0.2)
    DenoisingRetriever(retriever=retriever, k=3, shadow=True)
    S2AMessages(model=model)
    DenoiseToolResults(tools=["search"], must_keep="ERROR", where="state", keep=0.5)
    VerificationMiddleware(Verifier(judge=model), evidence="conversation")
    ShadowReport("shadow.jsonl")
    RetrieverAdapter(retriever)
    checked = verified(model, Verifier(), answer="answer")
    checked.invoke("question")
    return compressor.compress_documents([], "question") + around.invoke("question")


def wrong(model: BaseChatModel, retriever: BaseRetriever, store: VectorStore) -> None:
    DenoiseCompressor(denoiser=model)  # mistake: a model is no denoiser
    DenoiseCompressor(keep="half")  # mistake: neither a share nor a number
    DenoiseCompressor(model=retriever)  # mistake: a retriever is no model
    DenoiseCompressor(model=model, on_irrelevant="hide")  # mistake: no such policy
    DenoiseCompressor(model=model, kep=3)  # mistake: no such setting
    DenoiseCompressor(scorer=model)  # mistake: a model is no embeddings
    DenoiseCompressor(on_error="ignore")  # mistake: no such policy
    DenoiseCompressor(top_n="3")  # mistake: a text is no number
    DenoiseCompressor().compress_documents(["a text"], "question")  # mistake
    DenoisingRetriever(retriever=store)  # mistake: a store is no retriever
    DenoisingRetriever(model=retriever, retriever=model)  # mistake: swapped
    DenoisingRetriever(model=model, retriever=retriever, order="best")  # mistake
    S2AMessages(model=5)  # mistake: a number is no model
    S2AMiddleware(model, variant="selct")  # mistake: no such variant
    DenoiseToolResults(where="prompt")  # mistake: no such place
    DenoiseToolResults(tools="search")  # mistake: a name is no list
    VerificationMiddleware(model)  # mistake: a model is no verifier
    Verifier(limits=3)  # mistake: a number is no limits
    ChatModelLLM(retriever)  # mistake: a retriever is no model
    RetrieverAdapter(store)  # mistake: a store is no retriever
