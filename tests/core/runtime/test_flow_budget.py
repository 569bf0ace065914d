"""A budget is never passed: calls, tokens, time, in nested runs too; what was not used is given back."""

import asyncio
import threading

import pytest
from both_drivers import DOCS, Nested, ask, both
from hypothesis import given, settings
from hypothesis import strategies as st

from denoise_core import (
    Budget,
    BudgetExceeded,
    DenoiseResult,
    InputError,
    Message,
    Reply,
    Usage,
)
from denoise_core import arun as arun_flow
from denoise_core import run as run_flow
from denoise_core.runtime.effects import Batch, FailedItem, complete, denoise
from denoise_core.testing import FunctionLLM


class FidelityGate:
    """An LLM that answers at once after `open`, and counts the calls that began."""

    def __init__(self):
        self.began = 0
        self.opened = threading.Event()

    def complete(self, messages):
        self.began += 1
        self.opened.wait(30)
        return Reply("y")

    async def acomplete(self, messages):
        self.began += 1
        await asyncio.to_thread(self.opened.wait, 30)
        return Reply("y")


@given(
    st.integers(0, 6),
    st.lists(st.integers(1, 4), min_size=1, max_size=5),
    st.integers(1, 4),
)
@settings(max_examples=40, deadline=None)
def test_a_budget_of_calls_is_never_passed(limit, batches, width):
    made = []

    def flow():
        outcomes = []
        for size in batches:
            outcomes += yield Batch(tuple(ask("x") for _ in range(size)))
        return [isinstance(o, FailedItem) for o in outcomes]

    def servers():
        made.append(FunctionLLM(lambda m: "y"))
        return {"llm": made[-1]}

    refused, _ = both(flow, servers, budget=Budget(calls=limit), max_concurrency=width)
    asked = sum(batches)
    assert [len(llm.received_messages) for llm in made] == [min(limit, asked)] * 2
    assert sum(refused) == max(0, asked - limit)


def test_tokens_stop_before_the_next_call_and_nested_runs_draw_on_the_same_budget():
    def reply(messages):
        return Reply("y", Usage(60, 40))

    class Nested:
        def denoise(self, query, passages):
            run_flow(one(), llm=FunctionLLM(reply))
            return DenoiseResult(query, tuple(passages))

        async def adenoise(self, query, passages):
            await arun_flow(one(), llm=FunctionLLM(reply))
            return DenoiseResult(query, tuple(passages))

    def one():
        yield ask("inner")

    def flow():
        yield from denoise("q", DOCS, denoiser=Nested())
        yield ask("first")
        yield ask("second")

    for budget, what in (
        (Budget(tokens=150), "tokens"),
        (Budget(calls=2), "calls"),
    ):
        (error, message), trace = both(
            flow, lambda: {"llm": FunctionLLM(reply)}, budget=budget
        )
        assert error is BudgetExceeded
        assert what in message
        assert [e.error is None for e in trace.events] == [True, True, False]


def test_usage_is_estimated_when_the_model_does_not_say():
    def flow():
        yield ask("x" * 40)

    _, trace = both(flow, lambda: {"llm": FunctionLLM(lambda m: "y" * 9)})
    assert trace.usage == Usage(10, 3, is_estimated=True)


def test_the_deadline_ends_an_async_call_in_the_middle_and_refuses_the_next_sync_one():
    class Hangs:
        async def acomplete(self, messages):
            await asyncio.Event().wait()

    def flow():
        yield ask("x")

    with pytest.raises(BudgetExceeded, match="seconds"):
        asyncio.run(arun_flow(flow(), llm=Hangs(), budget=Budget(seconds=0.01)))
    with pytest.raises(BudgetExceeded, match="seconds"):
        run_flow(flow(), llm=FunctionLLM(lambda m: "y"), budget=Budget(seconds=0))


def test_the_outsides_own_timeout_stays_a_timeout():
    class Times:
        async def acomplete(self, messages):
            raise TimeoutError("server")

    def flow():
        yield ask("x")

    with pytest.raises(TimeoutError, match="server"):
        asyncio.run(arun_flow(flow(), llm=Times(), budget=Budget(seconds=60)))


@pytest.mark.parametrize("sync", [True, False])
def test_a_timed_out_run_gives_back_what_it_did_not_use_and_makes_no_further_call(sync):
    gate = FidelityGate()

    def flow():
        try:
            yield from denoise("q", DOCS, denoiser=Nested(gate, 20))
        except TimeoutError:
            gate.opened.set()
        return (yield from complete((Message("user", "after"),), tag="after")).text

    options = {
        "llm": FunctionLLM(lambda m: "done"),
        "budget": Budget(calls=20),
        "call_seconds": 0.05,
    }
    drive = run_flow if sync else lambda *a, **k: asyncio.run(arun_flow(*a, **k))
    before = set(threading.enumerate())
    value, trace = drive(flow(), **options)
    assert value == "done"
    assert [e.tag for e in trace.events if e.tag == "after"] == ["after"]
    for thread in (
        set(threading.enumerate()) - before
    ):  # the one that was left behind ends by itself
        thread.join(30)
    assert gate.began == 1


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Budget(calls=-1), "0 or more"),
        (lambda: run_flow(iter(()), max_concurrency=0), "max_concurrency=0"),
    ],
)
def test_bad_settings_say_what_was_expected(make, message):
    with pytest.raises(InputError, match=message):
        make()
