"""Eight whole applications as users write them, sync and async, on four vector stores."""

import asyncio
import re

import pytest
from llama_index.core import StorageContext, VectorStoreIndex
from llama_index.core.chat_engine import (
    ContextChatEngine,
)
from llama_index.core.node_parser import SentenceSplitter
from llama_index.core.postprocessor import LLMRerank
from llama_index.core.query_engine import CitationQueryEngine
from llama_index.core.schema import Document, MetadataMode
from llama_index.core.workflow import StartEvent, StopEvent, Workflow, step
from llamaindex_engines import outcome_of

from denoise_core.end import ENDDenoiser
from denoise_core.scorers import BM25Scorer
from denoise_core.text.chunk import sentence_spans
from llamaindex_denoise import (
    Checked,
    DenoisePostprocessor,
    DenoiseTransform,
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
    Document(
        text=t,
        id_=f"d{i}",
        metadata={"title": k},
    )
    for i, (k, t) in enumerate(PAGES.items())
]


def simple():
    return None


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


STORES = {"simple": simple, "faiss": faiss, "qdrant": qdrant, "chroma": chroma}


def index_of(store, transformations=()):
    """The index; Qdrant's two clients in memory do not share what they hold, so both are filled."""
    steps = [SentenceSplitter(chunk_size=200, chunk_overlap=0), *transformations]
    storage = (
        StorageContext.from_defaults(vector_store=store) if store is not None else None
    )
    index = VectorStoreIndex.from_documents(
        DOCUMENTS,
        embed_model=EMBEDDING,
        storage_context=storage,
        transformations=steps,
    )
    if getattr(store, "_aclient", None) is not None:
        nodes = steps[0](DOCUMENTS)
        for step in steps[1:]:
            nodes = step(nodes)
        for n in nodes:
            n.embedding = EMBEDDING.get_text_embedding(
                n.get_content(MetadataMode.EMBED)
            )
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


def end(keep=2):
    return ENDDenoiser(BM25Scorer(), keep=keep, chunker=sentence_spans)


def asks(engine):
    """A query engine both ways."""
    return lambda: engine.query(QUESTION), lambda: engine.aquery(QUESTION)


def talks(engine):
    """A chat engine both ways; the database that LlamaIndex's default memory opens is closed behind it."""

    async def close():
        store = getattr(getattr(engine, "_memory", None), "sql_store", None)
        database = getattr(store, "_async_engine", None)
        if database is not None:
            await database.dispose()

    def now():
        try:
            return engine.chat(QUESTION)
        finally:
            asyncio.run(close())

    async def later():
        try:
            return await engine.achat(QUESTION)
        finally:
            await close()

    return now, later


def denoised(response):
    assert str(response) == ANSWER
    assert all(record(hit.node) for hit in response.source_nodes)
    assert any("red tower" in hit.node.get_content() for hit in response.source_nodes)


def supported(response):
    assert str(response) == ANSWER
    assert outcome_of(response) == "supported"
    assert response.source_nodes


def reading(index, llm, *posts, **settings):
    """A query engine whose nodes go through these postprocessors."""
    engine = index.as_query_engine(llm=llm, node_postprocessors=posts, **settings)
    return asks(engine), denoised


def qa(index, llm):
    return reading(index, llm, DenoisePostprocessor(denoiser=end()))


def qa_by_an_llm(index, llm):
    return reading(index, llm, DenoisePostprocessor.from_llm(llm, top_n=2))


def qa_by_a_reranker(index, llm):
    posts = [LLMRerank(llm=llm, top_n=1), DenoisePostprocessor(denoiser=end())]
    return reading(index, llm, *posts, similarity_top_k=2)


def denoised_and_checked(index, llm):
    post = DenoisePostprocessor(denoiser=end())
    engine = Checked(index.as_query_engine(llm=llm, node_postprocessors=[post]))
    return asks(engine), lambda r: (supported(r), denoised(r))


def citations(index, llm):
    post = DenoisePostprocessor(denoiser=end())
    engine = CitationQueryEngine.from_args(index, llm=llm, node_postprocessors=[post])

    def right(response):
        note = record(response.source_nodes[0].node)
        assert note["origin_spans"]
        assert note["origin_id"]

    return asks(engine), right


def context_chat(index, llm):
    post = DenoisePostprocessor(denoiser=end())
    engine = ContextChatEngine.from_defaults(
        index.as_retriever(), llm=llm, node_postprocessors=[post]
    )
    return talks(engine), denoised


def checked_chat(index, llm):
    engine = Checked(index.as_chat_engine(chat_mode="context", llm=llm))

    def right(response):
        supported(response)
        assert [message.role.value for message in engine.chat_history[-2:]] == [
            "user",
            "assistant",
        ]

    return talks(engine), right


def workflow(index, llm):
    class Asks(Workflow):
        @step
        async def ask(self, ev: StartEvent) -> StopEvent:
            return StopEvent(
                result=await Checked(index.as_query_engine(llm=llm)).aquery(ev.question)
            )

    async def run():
        return await Asks().run(question=QUESTION)

    return (lambda: asyncio.run(run()), run), supported


APPLICATIONS = [
    qa, qa_by_an_llm, qa_by_a_reranker, denoised_and_checked, citations, context_chat,
    checked_chat, workflow,
]  # fmt: skip


@pytest.mark.parametrize("application", APPLICATIONS, ids=lambda a: a.__name__)
@pytest.mark.parametrize("store", STORES)
def test_an_application(scripted_llm, application, store):
    index = index_of(STORES[store]())
    for turn in (0, 1):
        (sync, later), right = application(index, scripted_llm(model))
        right(sync() if turn == 0 else asyncio.run(later()))


@pytest.mark.parametrize("store", STORES)
def test_what_was_denoised_when_it_was_indexed_is_still_known_when_it_is_found(store):
    step = DenoiseTransform(
        postprocessor=DenoisePostprocessor(denoiser=end(keep=1)), query="the red tower"
    )
    index = index_of(STORES[store](), [step])
    (results, *_) = index.as_retriever(similarity_top_k=1).retrieve("red tower title")
    assert results.node.text.strip() == "The red tower is in Porto."
    assert record(results.node)["origin_spans"] == [[0, 27]]
