"""Six whole applications as users write them, sync and async, on four vector stores."""

import asyncio
import re

import pytest
from llama_index.core import StorageContext, VectorStoreIndex
from llama_index.core.chat_engine import ContextChatEngine
from llama_index.core.chat_engine.types import BaseChatEngine
from llama_index.core.memory import ChatMemoryBuffer
from llama_index.core.node_parser import SentenceSplitter
from llama_index.core.postprocessor import LLMRerank
from llama_index.core.query_engine import CitationQueryEngine
from llama_index.core.schema import Document, MetadataMode
from llamaindex_doubles import scripted_llm
from llamaindex_engines import outcome_of

from denoise_core.end import ENDDenoiser
from denoise_core.scorers import BM25Scorer
from denoise_core.text.chunk import sentence_spans
from llamaindex_denoise import (
    Checked,
    DenoisePostprocessor,
    EmbeddedEmbedding,
    record,
)

QUESTION = "In which city is the red tower?"
ANSWER = "The red tower is in Porto."
EMBEDDING = EmbeddedEmbedding()
PAGES = {
    "red tower": "The red tower is in Porto. Bread is cheap there.",
    "blue bridge": "The blue bridge crosses the river. It is old.",
    "ships": "Ships are long. They carry grain to the north.",
    "bread": "Bread is made of flour and water. Salt is added.",
}
DOCUMENTS = [
    Document(text=text, id_=title, metadata={"title": title})
    for title, text in PAGES.items()
]


def faiss():
    library = pytest.importorskip("faiss")
    module = pytest.importorskip("llama_index.vector_stores.faiss")
    return module.FaissVectorStore(faiss_index=library.IndexFlatL2(384))


def qdrant():
    client = pytest.importorskip("qdrant_client")
    module = pytest.importorskip("llama_index.vector_stores.qdrant")
    return module.QdrantVectorStore(
        "towers",
        client=client.QdrantClient(":memory:"),
        aclient=client.AsyncQdrantClient(":memory:"),
    )


def chroma():
    client = pytest.importorskip("chromadb")
    module = pytest.importorskip("llama_index.vector_stores.chroma")
    built = client.EphemeralClient(client.Settings(anonymized_telemetry=False))
    name = "towers"
    if name in [c if isinstance(c, str) else c.name for c in built.list_collections()]:
        built.delete_collection(name)
    return module.ChromaVectorStore(chroma_collection=built.create_collection(name))


STORES = {"simple": lambda: None, "faiss": faiss, "qdrant": qdrant, "chroma": chroma}


def index_of(store):
    """The index; Qdrant's two clients in memory do not share what they hold, so both are filled."""
    storage = StorageContext.from_defaults(vector_store=store)
    settings = {"embed_model": EMBEDDING, "storage_context": storage}
    splitter = SentenceSplitter(chunk_size=200, chunk_overlap=0)
    index = VectorStoreIndex.from_documents(
        DOCUMENTS, **settings, transformations=[splitter]
    )
    if getattr(store, "_aclient", None) is not None:
        nodes = splitter(DOCUMENTS)
        for node in nodes:
            text = node.get_content(MetadataMode.EMBED)
            node.embedding = EMBEDDING.get_text_embedding(text)
        asyncio.run(store.async_add(nodes))
    return index


def model(messages):
    seen_prompts = messages[-1].content or ""
    if "Which pieces" in seen_prompts:
        pieces = re.findall(r"^(\d+) (.*)$", seen_prompts, re.MULTILINE)
        return ", ".join(n for n, text in pieces if "tower" in text) or "NONE"
    if "Doc: " in seen_prompts and "Relevance" in seen_prompts:
        return "Doc: 1, Relevance: 9"
    if "standalone question" in seen_prompts.lower():
        return QUESTION
    return ANSWER


def post():
    """A postprocessor that keeps two sentences."""
    end = ENDDenoiser(BM25Scorer(), keep=2, chunker=sentence_spans)
    return DenoisePostprocessor(denoiser=end)


def denoised(response):
    assert str(response) == ANSWER
    assert all(record(hit.node) for hit in response.source_nodes)
    assert any("red tower" in hit.node.get_content() for hit in response.source_nodes)


def supported(response):
    assert str(response) == ANSWER
    assert outcome_of(response) == "supported"
    assert response.source_nodes


def supported_and_denoised(response):
    supported(response)
    denoised(response)


def exact(response):
    note = record(response.source_nodes[0].node)
    assert note["origin_spans"]
    assert note["origin_id"]


def qa_by_an_llm(index, llm):
    posts = [DenoisePostprocessor(llm=llm, top_n=2)]
    return index.as_query_engine(llm=llm, node_postprocessors=posts), denoised


def qa_by_a_reranker(index, llm):
    posts = [LLMRerank(llm=llm, top_n=1), post()]
    settings = {"node_postprocessors": posts, "similarity_top_k": 2}
    return index.as_query_engine(llm=llm, **settings), denoised


def denoised_and_checked(index, llm):
    engine = index.as_query_engine(llm=llm, node_postprocessors=[post()])
    return Checked(engine), supported_and_denoised


def citations(index, llm):
    settings = {"llm": llm, "node_postprocessors": [post()]}
    return CitationQueryEngine.from_args(index, **settings), exact


def context_chat(index, llm):
    settings = {"memory": ChatMemoryBuffer.from_defaults(), "llm": llm}
    engine = ContextChatEngine.from_defaults(
        index.as_retriever(), **settings, node_postprocessors=[post()]
    )
    return engine, denoised


def checked_chat(index, llm):
    engine = Checked(index.as_chat_engine(chat_mode="context", llm=llm))

    def right(response):
        supported(response)
        question, answer = engine.chat_history[-2:]
        assert (question.role.value, answer.role.value) == ("user", "assistant")

    return engine, right


@pytest.mark.parametrize(
    "application",
    [
        qa_by_an_llm,
        qa_by_a_reranker,
        denoised_and_checked,
        citations,
        context_chat,
        checked_chat,
    ],
)
@pytest.mark.parametrize("store", STORES)
def test_an_application(application, store):
    index = index_of(STORES[store]())
    for is_sync in (True, False):
        engine, check = application(index, scripted_llm(model))
        verb = "chat" if isinstance(engine, BaseChatEngine) else "query"
        if is_sync:
            response = getattr(engine, verb)(QUESTION)
        else:
            response = asyncio.run(getattr(engine, f"a{verb}")(QUESTION))
        check(response)
