"""A run that fails or is cancelled is closed, leaves nothing running, and its trace travels on the exception."""

import asyncio
import contextlib
import threading

import pytest
from both_drivers import DOCS, Nested, ask, both

from denoise_core import Reply, Usage, trace_of
from denoise_core import arun as arun_flow
from denoise_core import run as run_flow
from denoise_core.runtime.effects import Batch, Retrieve, denoise, retrieve
from denoise_core.testing import FunctionLLM, ListRetriever


def failing(error):
    def fail(messages):
        raise error

    return FunctionLLM(fail)


def marks(trace):
    return [(event.tag, event.error) for event in trace.events]


def test_the_trace_travels_on_the_exception():
    def flow():
        yield from retrieve("q")
        yield ask("x", tag="draft")

    servers = {"llm": failing(TimeoutError("slow")), "retriever": ListRetriever(DOCS)}
    value, trace = both(flow, lambda: servers)
    assert value == (TimeoutError, "slow")
    assert marks(trace) == [("retrieve", None), ("draft", "TimeoutError: slow")]


def test_what_a_failed_denoiser_had_done_is_in_the_trace():
    class Fails(Nested):
        def _flow(self, query, passages):
            yield ask("inner")
            raise ValueError("bad")

    llm = FunctionLLM(lambda messages: Reply("y", Usage(600, 400)))

    def flow():
        with contextlib.suppress(ValueError):
            yield from denoise("q", DOCS, denoiser=Fails(llm, 1))
        return "caught"

    value, trace = both(flow, dict)
    assert value == "caught"
    assert marks(trace) == [("ask", None), ("denoise", "ValueError: bad")]
    assert trace.usage == Usage(600, 400)


def test_an_error_raised_twice_carries_only_its_own_run():
    error = ValueError("always the same object")

    def flow():
        yield ask("x")

    for _ in range(3):
        with pytest.raises(ValueError, match="same object"):
            run_flow(flow(), llm=failing(error))
    assert len(trace_of(error).events) == 1


async def test_cancellation_closes_the_flow_and_keeps_the_trace():
    closed = []

    class Cancelled:
        async def acomplete(self, messages):
            asyncio.current_task().cancel()
            await asyncio.Event().wait()

    def flow():
        try:
            yield Retrieve("q")
            yield ask("x")
        finally:
            closed.append(True)

    with pytest.raises(asyncio.CancelledError) as caught:
        await arun_flow(flow(), llm=Cancelled(), retriever=ListRetriever(DOCS))
    assert closed
    expected = [("retrieve", None), ("ask", "CancelledError")]
    assert marks(trace_of(caught.value)) == expected


async def test_one_cancelled_item_ends_the_whole_batch():
    started = []

    class Cancels:
        async def acomplete(self, messages):
            started.append(messages)
            if messages[0].content == "0":
                raise asyncio.CancelledError
            await asyncio.Event().wait()

    def flow():
        yield Batch(tuple(ask(str(n)) for n in range(8)))

    with pytest.raises(asyncio.CancelledError) as caught:
        await arun_flow(flow(), llm=Cancels(), max_concurrency=2)
    assert asyncio.all_tasks() == {asyncio.current_task()}
    assert len(trace_of(caught.value).events) == len(started)


async def test_a_run_that_is_cancelled_while_its_flow_computes_ends_at_once_and_makes_no_further_call():
    computing, go, closed = threading.Event(), threading.Event(), threading.Event()
    llm = FunctionLLM(lambda m: "y")

    def flow():
        try:
            computing.set()
            go.wait(30)
            yield ask("x")
        finally:
            closed.set()

    task = asyncio.create_task(arun_flow(flow(), llm=llm))
    await asyncio.to_thread(computing.wait, 30)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    del task
    go.set()
    assert await asyncio.to_thread(closed.wait, 30), (
        "what the flow holds is given back when its step ends"
    )
    assert not llm.received_messages
