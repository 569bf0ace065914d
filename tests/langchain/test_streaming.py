"""Model calls of ours never show up as tokens of the answer a user is reading."""

import asyncio

import pytest
from langchain_agents import both_ways
from langchain_classic.retrievers import ContextualCompressionRetriever
from langchain_core.documents import Document
from langchain_core.messages import HumanMessage
from langchain_core.runnables import RunnableLambda, RunnablePassthrough
from langgraph.graph import START, MessagesState, StateGraph

from langchain_denoise import DenoiseCompressor

SECRET = "3 (internal)"  # what our own model call says


@pytest.fixture
def graph(test_kit):
    """Retrieve with a compressor, then answer: both in one node, as users write it."""
    retriever = ContextualCompressionRetriever(
        base_compressor=DenoiseCompressor(denoiser=test_kit.s2a(lambda _: SECRET)),
        base_retriever=test_kit.ListRetriever(found=[Document(page_content="A. B.")]),
    )
    model = test_kit.chat(lambda message: "the public answer")
    find = RunnableLambda(lambda state: state["messages"][-1].text) | retriever
    pass_on = RunnablePassthrough.assign(found=find)
    answer = pass_on | (lambda state: {"messages": [model.invoke(state["messages"])]})
    built = StateGraph(MessagesState)
    built.add_node("answer", answer)
    built.add_edge(START, "answer")
    return built.compile()


QUESTION = {"messages": [HumanMessage("what?")]}


@pytest.mark.filterwarnings(
    "ignore:The v3 streaming protocol:langchain_core._api.LangChainBetaWarning"
)
async def test_typed_event_stream_shows_only_the_answer(graph):
    """LangGraph has typed (v3) event streams since 1.2."""
    run = await graph.astream_events(QUESTION, version="v3")
    texts = [str(await message.text) async for message in run.messages]
    assert texts == ["the public answer"]


@both_ways
async def test_messages_mode_streams_only_the_answer(graph, is_sync):
    if is_sync:
        stream = graph.stream(QUESTION, stream_mode="messages")
        parts = await asyncio.to_thread(list, stream)
    else:
        stream = graph.astream(QUESTION, stream_mode="messages")
        parts = [part async for part in stream]
    assert "".join(message.text for message, _ in parts) == "the public answer"
