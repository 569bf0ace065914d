"""Whole retrieval applications, as users write them: each sync and async, over real text and real vectors."""

import asyncio
import re

import pytest
from langchain_classic.chains import create_history_aware_retriever, create_retrieval_chain
from langchain_classic.chains.combine_documents import create_stuff_documents_chain
from langchain_classic.retrievers import (
    ContextualCompressionRetriever,
    EnsembleRetriever,
    MultiQueryRetriever,
    ParentDocumentRetriever,
)
from langchain_core.caches import InMemoryCache
from langchain_core.documents import Document
from langchain_core.messages import AIMessage, HumanMessage
from langchain_core.output_parsers import StrOutputParser
from langchain_core.prompts import ChatPromptTemplate, MessagesPlaceholder
from langchain_core.retrievers import BaseRetriever
from langchain_core.runnables import ConfigurableField, RunnablePassthrough
from langchain_core.stores import InMemoryStore
from langchain_core.vectorstores import InMemoryVectorStore
from langchain_records import spans_in
from langchain_text_splitters import RecursiveCharacterTextSplitter

from denoise_core.testing import FunctionScorer
from langchain_denoise import DenoiseCompressor, DenoisingRetriever, EmbeddedEmbeddings
from langchain_denoise.testing import FunctionChatModel

ARTICLES = {
    "Eiffel Tower": "The Eiffel Tower is a lattice tower in Paris. It was completed in March 1889 for the World's "
    "Fair. Gustave Eiffel's company built it. It is painted every seven years.",
    "Louvre": "The Louvre is a museum in Paris. It opened in 1793 with 537 paintings. Its glass pyramid was "
    "finished in 1989.",
    "Banana": "Bananas are elongated fruits. They grow in clusters. India grows more of them than any country.",
    "Volcano": "A volcano is a rupture in the crust of a planet. Lava and ash escape from it.",
    "Chess": "Chess is a board game for two players. It came to Europe about the year 1000.",
}
DOCUMENTS = [
    Document(page_content=text, id=title, metadata={"title": title, "tenant": "ab"[i % 2]})
    for i, (title, text) in enumerate(ARTICLES.items())
]
QUESTION = "When was the Eiffel Tower completed?"


def asked(runnable, given, sync, config=None):
    return runnable.invoke(given, config) if sync else asyncio.run(runnable.ainvoke(given, config))


def store(documents=DOCUMENTS):
    made = InMemoryVectorStore(EmbeddedEmbeddings())
    made.add_documents(documents)
    return made


def reader(messages):
    """Answers with the sentence of the prompt that holds a year, as a model does that reads its context."""
    said = "\n".join(str(m.text) for m in messages)
    return next(
        (s.strip() + "." for s in said.replace("\n", " ").split(". ") if "completed in" in s), "I do not know."
    )


PROMPT = ChatPromptTemplate.from_template("{context}\n\nQuestion: {question}")
both_ways = pytest.mark.parametrize("sync", [True, False])


def joined(documents):
    return "\n\n".join(d.page_content for d in documents)


@both_ways
def test_a_vector_store(sync):
    retriever = DenoisingRetriever(retriever=store().as_retriever(search_kwargs={"k": 5}), top_n=2)
    model = FunctionChatModel(reply=reader)
    chain = {"context": retriever | joined, "question": RunnablePassthrough()} | PROMPT | model | StrOutputParser()
    assert "1889" in asked(chain, QUESTION, sync)
    assert "Bananas" not in model.seen[0][0].text


@both_ways
def test_an_ensemble(sync):
    class Words(BaseRetriever):
        def _get_relevant_documents(self, query, *, run_manager):
            return [d for d in DOCUMENTS if any(w in d.page_content for w in query.split())]

    ensemble = EnsembleRetriever(retrievers=[store().as_retriever(), Words()], weights=[0.5, 0.5])
    found = asked(DenoisingRetriever(retriever=ensemble, top_n=1), QUESTION, sync)
    assert [d.id for d in found] == ["Eiffel Tower"]


@both_ways
def test_multi_query(sync):
    model = FunctionChatModel(reply=lambda m: "When was the Eiffel Tower built?\nOpening of the tower in Paris")
    queries = MultiQueryRetriever.from_llm(retriever=store().as_retriever(search_kwargs={"k": 3}), llm=model)
    found = asked(DenoisingRetriever(retriever=queries, top_n=1), QUESTION, sync)
    assert [d.id for d in found] == ["Eiffel Tower"]


@both_ways
def test_parent_documents(sync):
    parents = ParentDocumentRetriever(
        vectorstore=InMemoryVectorStore(EmbeddedEmbeddings()),
        docstore=InMemoryStore(),
        child_splitter=RecursiveCharacterTextSplitter(chunk_size=80, chunk_overlap=0),
        search_kwargs={"k": 6},
    )
    parents.add_documents(DOCUMENTS)
    sentences = DenoisingRetriever(retriever=parents, chunks="sentences", keep=2)
    found = asked(sentences, QUESTION, sync)
    text = joined(found)
    assert "completed in March 1889" in text
    assert len(text) < sum(map(len, ARTICLES.values())) / 2
    start, end = spans_in(found[0].metadata)[found[0].metadata["denoise_origin"]][0]
    assert ARTICLES["Eiffel Tower"][start:end] in found[0].page_content


@both_ways
def test_a_history_aware_chain(sync):
    rewriting = FunctionChatModel(reply=lambda m: QUESTION)
    rephrase = ChatPromptTemplate.from_messages([MessagesPlaceholder("chat_history"), ("human", "{input}")])
    compressed = ContextualCompressionRetriever(
        base_compressor=DenoiseCompressor(keep=1), base_retriever=store().as_retriever(search_kwargs={"k": 5})
    )
    answering = create_stuff_documents_chain(
        FunctionChatModel(reply=reader), ChatPromptTemplate.from_template("{context}\n\n{input}")
    )
    chain = create_retrieval_chain(create_history_aware_retriever(rewriting, compressed, rephrase), answering)
    history = [HumanMessage("I like Paris."), AIMessage("It has a tower.")]
    out = asked(chain, {"input": "When was it completed?", "chat_history": history}, sync)
    assert "1889" in out["answer"]
    assert [d.id for d in out["context"]] == ["Eiffel Tower"]


@both_ways
def test_lcel_with_streaming(sync):
    retriever = DenoisingRetriever(retriever=store().as_retriever(search_kwargs={"k": 5}), keep=1)
    chain = (
        RunnablePassthrough.assign(context=lambda x: joined(retriever.invoke(x["question"])))
        | PROMPT
        | FunctionChatModel(reply=reader)
        | StrOutputParser()
    )
    given = {"question": QUESTION}

    async def streamed():
        return [piece async for piece in chain.astream(given)]

    pieces = list(chain.stream(given)) if sync else asyncio.run(streamed())
    assert len(pieces) > 5
    assert "1889" in "".join(pieces)


@both_ways
def test_a_batch_with_faults(sync):
    calls = iter(range(100))

    class Flaky(BaseRetriever):
        def _get_relevant_documents(self, query, *, run_manager):
            if "down" in query:
                raise ConnectionError("the index is away")
            return DOCUMENTS[:3]

    def breaks(query, text):
        if "odd" in query and next(calls) >= 0:
            raise RuntimeError("the scorer is away")
        return float("tower" in text.lower())

    retriever = DenoisingRetriever(retriever=Flaky(), scorer=FunctionScorer(breaks), top_n=1)
    queries = ["tower", "odd", "down", "tower"]
    if sync:
        out = retriever.batch(queries, return_exceptions=True)
    else:
        out = asyncio.run(retriever.abatch(queries, return_exceptions=True))
    assert [d.id for d in out[0]] == [d.id for d in out[3]] == ["Eiffel Tower"]
    assert "the scorer is away" in out[1][0].metadata["denoise_fallback"]
    assert isinstance(out[2], ConnectionError)


@both_ways
def test_a_tenant_filter(sync):
    inner = (
        store()
        .as_retriever(search_kwargs={"k": 5})
        .configurable_fields(search_kwargs=ConfigurableField(id="search"))
    )
    retriever = DenoisingRetriever(retriever=inner, top_n=3)
    search = {"k": 5, "filter": lambda d: d.metadata["tenant"] == "b"}
    found = asked(retriever, QUESTION, sync, {"configurable": {"search": search}})
    assert {d.metadata["tenant"] for d in found} == {"b"}


@both_ways
def test_a_cache(sync):
    def picks(messages):
        return ", ".join(re.findall(r"^(\d+) .*1889", messages[-1].text, re.MULTILINE)) or "NONE"

    model = FunctionChatModel(reply=picks, cache=InMemoryCache())
    retriever = DenoisingRetriever.from_llm(model, retriever=store().as_retriever(search_kwargs={"k": 3}))
    first = asked(retriever, QUESTION, sync)
    calls = len(model.seen)
    assert asked(retriever, QUESTION, sync) == first
    assert "completed in March 1889" in joined(first)
    assert "painted" not in joined(first)
    assert calls >= 1
