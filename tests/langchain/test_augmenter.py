"""The whole loop over a chat model and a retriever; checked streams and their runs in a trace."""

import asyncio

import pytest
from chain_parts import QUESTION, ListRetriever, chat
from langchain_agents import LYON, PARIS, both_ways, checked_events, run
from langchain_core.documents import Document
from langchain_core.runnables import RunnableLambda
from recorded_runs import RunRecorder

from denoise_core.augmenter import Augmenter
from langchain_denoise import ChatModelLLM, RetrieverAdapter, verified

SOURCE_DOCUMENTS = [
    Document(page_content=PARIS, metadata={"source": "atlas.md"}),
    Document(page_content="Bananas are yellow.", id="fruit"),
]


def second_time_right(messages):
    return PARIS if len(messages) > 2 else LYON


@both_ways
async def test_the_loop_is_a_runnable_whose_calls_are_its_children(is_sync):
    model = chat(second_time_right)
    retriever = RetrieverAdapter(ListRetriever(found=SOURCE_DOCUMENTS))
    loop = Augmenter(ChatModelLLM(model), retriever)
    runnable = RunnableLambda(loop.answer, loop.aanswer)
    recorder = RunRecorder()
    config = {"callbacks": [recorder], "run_name": "asked", "tags": ["mine"]}
    answer = await run(runnable, is_sync, QUESTION, config)
    assert answer.text == PARIS
    assert answer.outcome == "supported"
    assert answer.memory.evidence[0].metadata["source"] == "atlas.md"
    assert set(recorder.paths("retriever")) == {"asked/ListRetriever"}
    assert set(recorder.paths("llm")) == {"asked/FunctionChatModel"}
    for model_run in recorder.of_kind("llm"):
        assert "mine" in model_run.tags
        assert "nostream" in model_run.tags


@both_ways
async def test_a_checked_stream_that_is_left_or_fails_ends_its_run(is_sync):
    retriever = ListRetriever(found=SOURCE_DOCUMENTS)
    prompt = RunnableLambda(lambda documents: documents[0].page_content)
    chain = verified(retriever | prompt | chat(second_time_right))
    recorder = RunRecorder()
    config = {"callbacks": [recorder], "max_concurrency": 1}
    if is_sync:
        events = chain.stream_checked(QUESTION, config, show="draft")
        await asyncio.to_thread(next, events)
        await asyncio.to_thread(events.close)
    else:
        events = chain.astream_checked(QUESTION, config, show="draft")
        await anext(events)
        await events.aclose()
    (outer,) = (traced for traced in recorder.runs.values() if traced.parent is None)
    assert outer.ended

    failed_run = RunRecorder()
    with pytest.raises(ValueError, match="no question in a int"):
        await checked_events(chain, is_sync, 3, {"callbacks": [failed_run]})
    [outer] = failed_run.runs.values()
    assert "no question in a int" in outer.error
