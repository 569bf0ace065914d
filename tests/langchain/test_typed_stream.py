"""Typed (v3) event streams, which LangGraph has since 1.2: our calls are not among the messages."""

import pytest
from langchain_core.messages import HumanMessage
from langgraph.graph import START, MessagesState, StateGraph

from langchain_denoise import DenoiseCompressor

SECRET = "3 (internal)"  # what our own model call says


@pytest.mark.filterwarnings(
    "ignore:The v3 streaming protocol:langchain_core._api.LangChainBetaWarning"
)
async def test_typed_event_stream_shows_only_the_answer(test_kit, documents):
    denoiser = test_kit.s2a(lambda messages: SECRET)
    model = test_kit.chat(lambda messages: "the public answer")

    async def answer(state):
        await DenoiseCompressor(denoiser=denoiser).acompress_documents(
            documents, state["messages"][-1].text
        )
        return {"messages": [await model.ainvoke(state["messages"])]}

    graph = StateGraph(MessagesState)
    graph.add_node("answer", answer)
    graph.add_edge(START, "answer")
    run = await graph.compile().astream_events(
        {"messages": [HumanMessage("what?")]}, version="v3"
    )
    texts = []
    async for message in run.messages:
        texts.append(str(await message.text))
    assert texts == ["the public answer"]
