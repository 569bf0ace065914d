"""Model calls of ours never show up as tokens of the answer a user is reading."""

import pytest
from chain_parts import ListRetriever, chat, s2a
from langchain_classic.retrievers import ContextualCompressionRetriever
from langchain_core.documents import Document
from langchain_core.messages import HumanMessage
from langchain_core.runnables import RunnableLambda, RunnablePassthrough
from langgraph.graph import START, MessagesState, StateGraph

from langchain_denoise import DenoiseCompressor


@pytest.mark.filterwarnings(
    "ignore:The v3 streaming protocol:langchain_core._api.LangChainBetaWarning"
)
async def test_typed_event_stream_shows_only_the_answer():
    """One node retrieves with a compressor and answers, as users write it.

    LangGraph has typed (v3) event streams since 1.2.
    """
    retriever = ContextualCompressionRetriever(
        base_compressor=DenoiseCompressor(denoiser=s2a(lambda _: "3 (internal)")),
        base_retriever=ListRetriever(found=[Document(page_content="A. B.")]),
    )
    model = chat(lambda message: "the public answer")
    find = RunnableLambda(lambda state: state["messages"][-1].text) | retriever
    pass_on = RunnablePassthrough.assign(found=find)
    answer = pass_on | (lambda state: {"messages": [model.invoke(state["messages"])]})
    built = StateGraph(MessagesState)
    built.add_node("answer", answer)
    built.add_edge(START, "answer")
    question = {"messages": [HumanMessage("what?")]}
    run = await built.compile().astream_events(question, version="v3")
    texts = [str(await message.text) async for message in run.messages]
    assert texts == ["the public answer"]
