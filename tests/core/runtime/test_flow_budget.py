"""A budget is never passed: calls, tokens, time, in nested runs too; what was not used is given back."""

import asyncio
import threading

import pytest
from both_drivers import DOCS, Nested, ask, both
from hypothesis import given
from hypothesis import strategies as st

from denoise_core import (
    Budget,
    BudgetExceeded,
    InputError,
    Reply,
    Usage,
)
from denoise_core import arun as arun_flow
from denoise_core import run as run_flow
from denoise_core.runtime.effects import Batch, FailedItem, denoise
from denoise_core.testing import FunctionLLM

drivers = pytest.mark.parametrize(
    "drive",
    [run_flow, lambda *flow, **options: asyncio.run(arun_flow(*flow, **options))],
    ids=["sync", "async"],
)


@given(
    st.integers(0, 6),
    st.lists(st.integers(1, 4), min_size=1, max_size=5),
    st.integers(1, 4),
)
def test_a_budget_of_calls_is_never_passed(limit, batches, width):
    models = []

    def flow():
        refused = 0
        for size in batches:
            outcomes = yield Batch((ask("x"),) * size)
            refused += sum(isinstance(outcome, FailedItem) for outcome in outcomes)
        return refused

    def servers():
        models.append(FunctionLLM(lambda messages: "y"))
        return {"llm": models[-1]}

    refused, _ = both(flow, servers, budget=Budget(calls=limit), max_concurrency=width)
    asked = sum(batches)
    calls = [len(llm.received_messages) for llm in models]
    assert calls == [min(limit, asked)] * 2
    assert refused == max(0, asked - limit)


@pytest.mark.parametrize(
    ("budget", "what"),
    [
        (Budget(tokens=150), "tokens"),
        (Budget(tokens=200), "tokens"),
        (Budget(calls=2), "calls"),
    ],
)
def test_a_budget_stops_before_the_next_call_and_nested_runs_draw_on_the_same(
    budget, what
):
    llm = FunctionLLM(lambda messages: Reply("y", Usage(60, 40)))

    def flow():
        yield from denoise("q", DOCS, denoiser=Nested(llm, 1))
        yield ask("first")
        yield ask("second")

    (error, message), trace = both(flow, lambda: {"llm": llm}, budget=budget)
    assert error is BudgetExceeded
    assert what in message
    assert [event.error is None for event in trace.events] == [True, True, False]


def asking(text="x"):
    yield ask(text)


def test_usage_is_estimated_when_the_model_does_not_say():
    llm = FunctionLLM(lambda messages: "y" * 9)
    _, trace = run_flow(asking("x" * 40), llm=llm)
    assert trace.usage == Usage(10, 3, is_estimated=True)


class Hanging:
    """A model that answers once ``opened`` is set, and whose async form never does."""

    def __init__(self):
        self.began = 0
        self.opened = threading.Event()

    def complete(self, messages):
        self.began += 1
        self.opened.wait(30)
        return Reply("y")

    async def acomplete(self, messages):
        self.began += 1
        await asyncio.Event().wait()


def test_the_deadline_ends_an_async_call_in_the_middle_and_refuses_the_next_sync_one():
    with pytest.raises(BudgetExceeded, match="seconds"):
        asyncio.run(arun_flow(asking(), llm=Hanging(), budget=Budget(seconds=0.01)))
    with pytest.raises(BudgetExceeded, match="seconds"):
        run_flow(asking(), llm=Hanging(), budget=Budget(seconds=0))


class EarlyTimers(asyncio.SelectorEventLoop):
    """Timers end 50 ms early; those of uvloop, which counts in milliseconds, up to one."""

    def call_at(self, when, *arguments, **options):
        return super().call_at(when - 0.05, *arguments, **options)


@pytest.mark.parametrize(
    ("call_seconds", "expected"), [(None, BudgetExceeded), (0.1, TimeoutError)]
)
def test_the_budgets_end_is_told_from_a_calls_whenever_the_timer_ends(
    call_seconds, expected
):
    budget = Budget(seconds=0.2)
    settings = {"llm": Hanging(), "budget": budget, "call_seconds": call_seconds}
    with asyncio.Runner(loop_factory=EarlyTimers) as runner, pytest.raises(expected):
        runner.run(arun_flow(asking(), **settings))


@drivers
def test_the_outsides_own_timeout_stays_a_timeout(drive):
    def fail(messages):
        raise TimeoutError("server")

    for limits in ({"budget": Budget(seconds=60)}, {"call_seconds": 60}):
        with pytest.raises(TimeoutError, match="server"):
            drive(asking(), llm=FunctionLLM(fail), **limits)


@drivers
def test_a_timed_out_run_gives_back_what_it_did_not_use_and_makes_no_further_call(
    drive,
):
    hanging, llm = Hanging(), FunctionLLM(lambda messages: "done")

    def flow():
        try:
            yield from denoise("q", DOCS, denoiser=Nested(hanging, 20))
        except TimeoutError:
            hanging.opened.set()
        return (yield ask("after", tag="after")).text

    before = set(threading.enumerate())
    value, trace = drive(flow(), llm=llm, budget=Budget(calls=20), call_seconds=0.05)
    assert value == "done"
    assert [event.tag for event in trace.events].count("after") == 1
    # The one that was left behind ends by itself.
    for thread in set(threading.enumerate()) - before:
        thread.join(30)
    assert hanging.began == 1


def test_a_run_of_no_call_at_once_is_refused():
    with pytest.raises(InputError, match="max_concurrency=0"):
        run_flow(iter(()), max_concurrency=0)
