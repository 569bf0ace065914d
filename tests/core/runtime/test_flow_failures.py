"""A run that fails or is cancelled is closed, leaves nothing running, and its trace travels on the exception."""

import asyncio
import threading
import time

import pytest
from blockbuster import blockbuster_ctx
from both_drivers import DOCS, Nested, ask, both

from denoise_core import Message, Reply, Usage, trace_of
from denoise_core import arun as arun_flow
from denoise_core import run as run_flow
from denoise_core.runtime.effects import Batch, Retrieve, complete, denoise, retrieve
from denoise_core.testing import FunctionLLM, ListRetriever


def test_the_trace_travels_on_the_exception():
    def reply(messages):
        raise TimeoutError("slow")

    def flow():
        yield from retrieve("q")
        yield from complete((Message("user", "x"),), tag="draft")

    value, trace = both(
        flow, lambda: {"llm": FunctionLLM(reply), "retriever": ListRetriever(DOCS)}
    )
    assert value == (TimeoutError, "slow")
    assert [(e.tag, e.error) for e in trace.events] == [
        ("retrieve", None),
        ("draft", "TimeoutError: slow"),
    ]


def test_a_flow_may_catch_what_its_effect_raised():
    def reply(messages):
        raise ValueError("nonsense")

    def flow():
        try:
            yield from complete((Message("user", "x"),), tag="draft")
        except ValueError as error:
            return f"caught {error}"

    assert both(flow, lambda: {"llm": FunctionLLM(reply)})[0] == "caught nonsense"


def test_what_a_failed_denoiser_had_done_is_in_the_trace():
    class Fails(Nested):
        def _flow(self, query, passages):
            yield ask("inner")
            raise ValueError("bad")

    def flow():
        try:
            yield from denoise(
                "q",
                DOCS,
                denoiser=Fails(FunctionLLM(lambda m: Reply("y", Usage(600, 400))), 1),
            )
        except ValueError:
            return "caught"

    value, trace = both(flow, dict)
    assert value == "caught"
    assert [(e.tag, e.error) for e in trace.events] == [
        ("ask", None),
        ("denoise", "ValueError: bad"),
    ]
    assert trace.usage == Usage(600, 400)


def test_an_error_raised_twice_carries_only_its_own_run():
    error = ValueError("always the same object")

    def reply(messages):
        raise error

    def flow():
        yield ask("x")

    for _ in range(3):
        with pytest.raises(ValueError, match="same object"):
            run_flow(flow(), llm=FunctionLLM(reply))
    assert len(trace_of(error).events) == 1


def test_cancellation_closes_the_flow_and_keeps_the_trace():
    closed = []
    arrived = asyncio.Event()

    class Hangs:
        async def acomplete(self, messages):
            arrived.set()
            await asyncio.Event().wait()

    def flow():
        try:
            yield Retrieve("q")
            yield ask("x")
        finally:
            closed.append(True)

    async def main():
        task = asyncio.create_task(
            arun_flow(flow(), llm=Hangs(), retriever=ListRetriever(DOCS))
        )
        await arrived.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError) as caught:
            await task
        return caught.value

    error = asyncio.run(main())
    assert closed == [True]
    assert [(e.tag, e.error) for e in trace_of(error).events] == [
        ("retrieve", None),
        ("ask", "CancelledError"),
    ]


def test_one_cancelled_item_ends_the_whole_batch():
    started = []

    class Cancels:
        async def acomplete(self, messages):
            started.append(messages[0].content)
            if messages[0].content == "0":
                raise asyncio.CancelledError
            await asyncio.Event().wait()

    def flow():
        yield Batch(tuple(ask(str(n)) for n in range(8)))

    async def main():
        with pytest.raises(asyncio.CancelledError) as caught:
            await arun_flow(flow(), llm=Cancels(), max_concurrency=2)
        others = asyncio.all_tasks() - {asyncio.current_task()}
        return others, trace_of(caught.value)

    others, trace = asyncio.run(main())
    assert not others
    assert len(trace.events) == len(started)


async def test_what_a_flow_computes_holds_up_no_event_loop():
    def flow():
        time.sleep(
            0.001
        )  # stands for cutting and aligning; blockbuster refuses it on the loop
        yield ask("x")
        time.sleep(0.001)
        return "done"

    with blockbuster_ctx():
        assert (await arun_flow(flow(), llm=FunctionLLM(lambda m: "y")))[0] == "done"


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
