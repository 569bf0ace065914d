"""Model calls of ours never show up as tokens of the answer a user is reading."""

import asyncio
from typing import Annotated

import pytest
from langchain_classic.retrievers import ContextualCompressionRetriever
from langchain_core.documents import Document
from langchain_core.messages import AnyMessage, HumanMessage
from langgraph.graph import START, StateGraph, add_messages
from typing_extensions import TypedDict

from langchain_denoise import DenoiseCompressor

SECRET = "3 (internal)"  # what our own model call says


class State(TypedDict):
    messages: Annotated[list[AnyMessage], add_messages]


@pytest.fixture
def graph(test_kit):
    """Retrieve with a compressor, then answer: both in one node, as users write it."""
    compressor = DenoiseCompressor(denoiser=test_kit.s2a(lambda message: SECRET))
    retriever = ContextualCompressionRetriever(
        base_compressor=compressor,
        base_retriever=test_kit.ListRetriever(
            found=[Document(page_content="A. B. C.")]
        ),
    )
    model = test_kit.chat(lambda message: "the public answer")

    def is_sync(state):
        retriever.invoke(state["messages"][-1].text)
        return {"messages": [model.invoke(state["messages"])]}

    async def native(state):
        await retriever.ainvoke(state["messages"][-1].text)
        return {"messages": [await model.ainvoke(state["messages"])]}

    def build(function):
        built = StateGraph(State)
        built.add_node("answer", function)
        built.add_edge(START, "answer")
        return built.compile()

    return build(is_sync), build(native)


QUESTION = {"messages": [HumanMessage("what?")]}


async def test_messages_mode_streams_only_the_answer(graph):
    is_sync, native = graph
    tokens = [
        message.text
        async for message, _ in native.astream(QUESTION, stream_mode="messages")
    ]
    assert "".join(tokens) == "the public answer"
    streamed_text = await asyncio.to_thread(
        lambda: list(is_sync.stream(QUESTION, stream_mode="messages"))
    )
    assert [message.text for message, _ in streamed_text] == tokens


@pytest.mark.filterwarnings(
    "ignore:The v3 streaming protocol:langchain_core._api.LangChainBetaWarning"
)
async def test_typed_event_stream_shows_only_the_answer(graph):
    """LangGraph has typed (v3) event streams since 1.2."""
    run = await graph[1].astream_events(QUESTION, version="v3")
    texts = [str(await message.text) async for message in run.messages]
    assert texts == ["the public answer"]
