"""The whole loop over a chat model and a retriever; checked streams and their runs in a trace."""

import asyncio

import pytest
from langchain_agents import both_ways, checked_events, run
from langchain_core.documents import Document
from langchain_core.runnables import RunnableLambda
from recorded_runs import RunRecorder

from denoise_core.augmenter import Augmenter
from denoise_core.augmenter.streaming import Finished, Revised
from langchain_denoise import ChatModelLLM, RetrieverAdapter, verified

PARIS = "Paris is the capital of France."
SOURCE_DOCUMENTS = [
    Document(page_content=PARIS, metadata={"source": "atlas.md"}),
    Document(page_content="Bananas are yellow.", id="fruit"),
]


def second_time_right(messages):
    """Wrong at first; right when there is feedback in the prompt."""
    return PARIS if len(messages) > 2 else "Lyon has been the capital since 1789."


@pytest.fixture
def chain(test_kit):
    """A chain that retrieves and then writes."""
    retriever = test_kit.ListRetriever(found=SOURCE_DOCUMENTS)
    prompt = RunnableLambda(lambda documents: documents[0].page_content)
    return verified(retriever | prompt | test_kit.chat(second_time_right))


@both_ways
async def test_the_loop_is_a_runnable_whose_calls_are_its_children(test_kit, is_sync):
    model = test_kit.chat(second_time_right)
    retriever = RetrieverAdapter(test_kit.ListRetriever(found=SOURCE_DOCUMENTS))
    loop = Augmenter(ChatModelLLM(model), retriever)
    runnable = RunnableLambda(loop.answer, loop.aanswer)
    recorder = RunRecorder()
    config = {"callbacks": [recorder], "run_name": "asked", "tags": ["mine"]}
    answer = await run(runnable, is_sync, test_kit.question, config)
    assert answer.text == PARIS
    assert answer.outcome == "supported"
    assert answer.memory.evidence[0].metadata["source"] == "atlas.md"
    assert set(recorder.paths("retriever")) == {"asked/ListRetriever"}
    assert set(recorder.paths("llm")) == {"asked/FunctionChatModel"}
    for model_run in recorder.of_kind("llm"):
        assert "mine" in model_run.tags
        assert "nostream" in model_run.tags


@both_ways
@pytest.mark.parametrize("show", [None, "checked", "draft"])
async def test_drafts_are_children_of_the_run(chain, test_kit, is_sync, show):
    recorder = RunRecorder()
    config = {"callbacks": [recorder], "run_name": "asked", "tags": ["mine"]}
    if show is None:
        message = await run(chain, is_sync, test_kit.question, config)
        assert message.text == PARIS
    else:
        question = test_kit.question
        events = await checked_events(chain, is_sync, question, config, show)
        assert events[-1].answer.text == PARIS
        assert isinstance(events[-1], Finished if show == "checked" else Revised)
    paths = recorder.paths("chain")
    assert paths[0] == "asked"
    assert paths[-1] == "asked/denoise_record"
    for path in recorder.paths("llm"):
        assert path.startswith("asked/")
    for model_run in recorder.of_kind("llm"):
        assert "mine" in model_run.tags
        assert "nostream" in model_run.tags
    for traced in recorder.runs.values():
        assert traced.ended
        assert traced.error is None
    [(name, record, _)] = recorder.events
    assert name == "denoise"
    assert record["outcome"] == "supported"
    first, second = record["attempts"]
    assert first["outcome"] == "fail"
    assert second["outcome"] == "pass"


@both_ways
async def test_a_checked_stream_that_is_left_or_fails_ends_its_run(
    chain, test_kit, is_sync
):
    recorder = RunRecorder()
    config = {"callbacks": [recorder], "max_concurrency": 1}
    if is_sync:
        events = chain.stream_checked(test_kit.question, config, show="draft")
        await asyncio.to_thread(next, events)
        await asyncio.to_thread(events.close)
    else:
        events = chain.astream_checked(test_kit.question, config, show="draft")
        await anext(events)
        await events.aclose()
    (outer,) = (traced for traced in recorder.runs.values() if traced.parent is None)
    assert outer.ended
    assert outer.error is None, "a reader that leaves is no failure"

    failed_run = RunRecorder()
    with pytest.raises(ValueError, match="no question in a int"):
        await checked_events(chain, is_sync, 3, {"callbacks": [failed_run]})
    [outer] = failed_run.runs.values()
    assert "no question in a int" in outer.error
