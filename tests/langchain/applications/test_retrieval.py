"""Whole retrieval applications, as users write them: each sync and async, over real text and real vectors."""

import asyncio

import pytest
from function_chat_model import FunctionChatModel
from langchain_core.documents import Document
from langchain_core.output_parsers import StrOutputParser
from langchain_core.prompts import ChatPromptTemplate
from langchain_core.retrievers import BaseRetriever
from langchain_core.runnables import RunnablePassthrough
from langchain_core.vectorstores import InMemoryVectorStore

from denoise_core.testing import FunctionScorer
from langchain_denoise import DenoisingRetriever, EmbeddedEmbeddings

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
    Document(
        page_content=text, id=title, metadata={"title": title, "tenant": "ab"[i % 2]}
    )
    for i, (title, text) in enumerate(ARTICLES.items())
]
QUESTION = "When was the Eiffel Tower completed?"


def asked(runnable, input_value, is_sync, config=None):
    return (
        runnable.invoke(input_value, config)
        if is_sync
        else asyncio.run(runnable.ainvoke(input_value, config))
    )


def store(documents=DOCUMENTS):
    built_value = InMemoryVectorStore(EmbeddedEmbeddings())
    built_value.add_documents(documents)
    return built_value


def reader(messages):
    """Answers with the sentence of the prompt that holds a year, as a model does that reads its context."""
    message_text = "\n".join(str(message.text) for message in messages)
    return next(
        (
            source.strip() + "."
            for source in message_text.replace("\n", " ").split(". ")
            if "completed in" in source
        ),
        "I do not know.",
    )


PROMPT = ChatPromptTemplate.from_template("{context}\n\nQuestion: {question}")
both_ways = pytest.mark.parametrize("is_sync", [True, False])


def joined(documents):
    return "\n\n".join(document.page_content for document in documents)


@both_ways
def test_a_vector_store(is_sync):
    retriever = DenoisingRetriever(
        retriever=store().as_retriever(search_kwargs={"k": 5}), top_n=2
    )
    model = FunctionChatModel(reply=reader)
    chain = (
        {"context": retriever | joined, "question": RunnablePassthrough()}
        | PROMPT
        | model
        | StrOutputParser()
    )
    assert "1889" in asked(chain, QUESTION, is_sync)
    assert "Bananas" not in model.calls[0][0].text


@both_ways
def test_lcel_with_streaming(is_sync):
    retriever = DenoisingRetriever(
        retriever=store().as_retriever(search_kwargs={"k": 5}), keep=1
    )
    chain = (
        RunnablePassthrough.assign(
            context=lambda item: joined(retriever.invoke(item["question"]))
        )
        | PROMPT
        | FunctionChatModel(reply=reader)
        | StrOutputParser()
    )
    input_value = {"question": QUESTION}

    async def streamed():
        return [piece async for piece in chain.astream(input_value)]

    pieces = list(chain.stream(input_value)) if is_sync else asyncio.run(streamed())
    assert len(pieces) > 5
    assert "1889" in "".join(pieces)


@both_ways
def test_a_batch_with_faults(is_sync):
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

    retriever = DenoisingRetriever(
        retriever=Flaky(), scorer=FunctionScorer(breaks), top_n=1
    )
    queries = ["tower", "odd", "down", "tower"]
    if is_sync:
        run_output = retriever.batch(queries, return_exceptions=True)
    else:
        run_output = asyncio.run(retriever.abatch(queries, return_exceptions=True))
    assert (
        [document.id for document in run_output[0]]
        == [document.id for document in run_output[3]]
        == ["Eiffel Tower"]
    )
    assert "the scorer is away" in run_output[1][0].metadata["denoise_fallback"]
    assert isinstance(run_output[2], ConnectionError)
