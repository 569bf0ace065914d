"""The drivers: sync equals async, batches are bounded, failures carry the trace, budgets hold."""

import asyncio
import threading

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from denoise_core import (
    Budget,
    BudgetExceeded,
    DenoiseResult,
    InputError,
    Message,
    Passage,
    Price,
    Reply,
    Usage,
    trace_of,
)
from denoise_core import arun as arun_flow
from denoise_core import run as run_flow
from denoise_core.effects import Batch, Complete, Denoise, Failed, Retrieve, complete, denoise, retrieve
from denoise_core.testing import FunctionLLM, ListRetriever

DOCS = (Passage("Paris is in France.", "a"), Passage("Rome is in Italy.", "b"))


def ask(text: str, tag: str = "ask") -> Complete:
    return Complete((Message("user", text),), tag)


def both(make_flow, make_servers, **options):
    """The outcome of a flow under both drivers, which must be equal: (value or error, trace)."""

    def outcome(drive):
        try:
            return drive()
        except Exception as error:
            return (type(error), str(error)), trace_of(error)

    a = outcome(lambda: run_flow(make_flow(), **make_servers(), **options))
    b = outcome(lambda: asyncio.run(arun_flow(make_flow(), **make_servers(), **options)))
    assert a[0] == b[0]
    assert [(e.tag, e.reply, e.error, e.usage) for e in a[1].events] == [
        (e.tag, e.reply, e.error, e.usage) for e in b[1].events
    ]
    return a


def echo():
    return {"llm": FunctionLLM(lambda m: m[-1].content.upper()), "retriever": ListRetriever(DOCS)}


def test_every_effect_is_served_and_recorded():
    class Drop:
        def denoise(self, query, passages):
            return DenoiseResult(query, tuple(passages)[:1])

        async def adenoise(self, query, passages):
            return self.denoise(query, passages)

    def flow():
        found = yield from retrieve("capital")
        result = yield from denoise("capital", found, denoiser=Drop())
        reply = yield from complete((Message("user", result.passages[0].text),), tag="draft")
        return reply.text

    value, trace = both(flow, echo)
    assert value == "PARIS IS IN FRANCE."
    assert [e.tag for e in trace.events] == ["retrieve", "denoise", "draft"]
    assert all(e.seconds >= 0 for e in trace.events)


@given(st.lists(st.text(max_size=5), max_size=20), st.integers(1, 8))
@settings(max_examples=30, deadline=None)
def test_batch_keeps_the_order_and_records_each_item(words, width):
    def flow():
        return (yield Batch(tuple(ask(w) for w in words)))

    value, trace = both(flow, echo, max_concurrency=width)
    assert [r.text for r in value] == [w.upper() for w in words]
    assert [e.effect.messages[0].content for e in trace.events] == words


def test_a_failed_item_does_not_lose_the_batch():
    def reply(messages):
        if messages[0].content == "bad":
            raise ConnectionError("gone")
        return "ok"

    def flow():
        return [
            str(r) if isinstance(r, Failed) else r.text for r in (yield Batch((ask("x"), ask("bad"), ask("y"))))
        ]

    value, trace = both(flow, lambda: {"llm": FunctionLLM(reply)})
    assert value == ["ok", "ConnectionError: gone", "ok"]
    assert [e.error for e in trace.events] == [None, "ConnectionError: gone", None]


@pytest.mark.parametrize("width", [1, 3])
def test_concurrency_is_used_and_bounded_under_both_drivers(width):
    """Each call waits until `width` calls are under way: fewer would never end, more are counted."""

    class Crowd:
        def __init__(self):
            self.now = self.most = 0
            self.lock = threading.Lock()
            self.full = threading.Barrier(width)

        def complete(self, messages):
            with self.lock:
                self.now += 1
                self.most = max(self.most, self.now)
            self.full.wait(timeout=30)
            with self.lock:
                self.now -= 1
            return Reply("")

        async def acomplete(self, messages):
            return await asyncio.to_thread(self.complete, messages)

    def flow():
        yield Batch(tuple(ask("x") for _ in range(width * 4)))

    for drive in (run_flow, lambda *a, **k: asyncio.run(arun_flow(*a, **k))):
        crowd = Crowd()
        drive(flow(), llm=crowd, max_concurrency=width)
        assert crowd.most == width


def test_the_trace_travels_on_the_exception():
    def reply(messages):
        raise TimeoutError("slow")

    def flow():
        yield from retrieve("q")
        yield from complete((Message("user", "x"),), tag="draft")

    value, trace = both(flow, lambda: {"llm": FunctionLLM(reply), "retriever": ListRetriever(DOCS)})
    assert value == (TimeoutError, "slow")
    assert [(e.tag, e.error) for e in trace.events] == [("retrieve", None), ("draft", "TimeoutError: slow")]


def test_a_flow_may_catch_what_its_effect_raised():
    def reply(messages):
        raise ValueError("nonsense")

    def flow():
        try:
            yield from complete((Message("user", "x"),), tag="draft")
        except ValueError as error:
            return f"caught {error}"

    assert both(flow, lambda: {"llm": FunctionLLM(reply)})[0] == "caught nonsense"


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
        task = asyncio.create_task(arun_flow(flow(), llm=Hangs(), retriever=ListRetriever(DOCS)))
        await arrived.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError) as caught:
            await task
        return caught.value

    error = asyncio.run(main())
    assert closed == [True]
    assert [(e.tag, e.error) for e in trace_of(error).events] == [("retrieve", None), ("ask", "CancelledError: ")]


@pytest.mark.parametrize(
    ("effect", "missing"),
    [(ask("x"), "llm"), (Retrieve("q"), "retriever"), (Denoise("q", DOCS), "denoiser")],
)
def test_a_missing_server_is_named(effect, missing):
    def flow():
        yield effect

    error, message = both(flow, dict)[0]
    assert error is TypeError
    assert f"no {missing}= was given" in message


def test_wrong_replies_are_named():
    def flow():
        yield ask("x")

    class Old:
        def complete(self, messages):
            return "a string"

        async def acomplete(self, messages):
            return "a string"

    assert both(flow, lambda: {"llm": Old()})[0] == (
        TypeError,
        "LLM.complete must return denoise_core.Reply, got str",
    )

    def search():
        yield Retrieve("q")

    assert "must return Passages, got a str" in both(search, lambda: {"retriever": ListRetriever(["x"])})[0][1]


@given(st.integers(0, 6), st.lists(st.integers(1, 4), min_size=1, max_size=5), st.integers(1, 4))
@settings(max_examples=40, deadline=None)
def test_a_budget_of_calls_is_never_passed(limit, batches, width):
    made = []

    def flow():
        outcomes = []
        for size in batches:
            outcomes += yield Batch(tuple(ask("x") for _ in range(size)))
        return [isinstance(o, Failed) for o in outcomes]

    def servers():
        made.append(FunctionLLM(lambda m: "y"))
        return {"llm": made[-1]}

    refused, _ = both(flow, servers, budget=Budget(calls=limit), max_concurrency=width)
    asked = sum(batches)
    assert [len(llm.seen) for llm in made] == [min(limit, asked)] * 2
    assert sum(refused) == max(0, asked - limit)


def test_tokens_and_money_stop_before_the_next_call_and_nested_runs_draw_on_the_same_budget():
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
        (Budget(money=0.00015, price=Price(1.0, 1.0)), "money"),
        (Budget(calls=2), "calls"),
    ):
        (error, message), trace = both(flow, lambda: {"llm": FunctionLLM(reply)}, budget=budget)
        assert error is BudgetExceeded
        assert what in message
        assert [e.error is None for e in trace.events] == [True, True, False]


def test_usage_is_estimated_when_the_model_does_not_say():
    def flow():
        yield ask("x" * 40)

    _, trace = both(flow, lambda: {"llm": FunctionLLM(lambda m: "y" * 9)})
    assert trace.usage == Usage(10, 3, estimated=True)


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


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Budget(calls=-1), "0 or more"),
        (lambda: Budget(money=1.0), "price="),
        (lambda: run_flow(iter(()), max_concurrency=0), "max_concurrency=0"),
    ],
)
def test_bad_settings_say_what_was_expected(make, message):
    with pytest.raises(InputError, match=message):
        make()


class Nested:
    """A denoiser whose own run asks an LLM for each of `size` items, one at a time."""

    def __init__(self, llm, size):
        self.llm, self.size = llm, size

    def _flow(self, query, passages):
        yield Batch(tuple(ask("inner") for _ in range(self.size)))
        return DenoiseResult(query, tuple(passages))

    def denoise(self, query, passages):
        return run_flow(self._flow(query, passages), llm=self.llm, max_concurrency=1)[0]

    async def adenoise(self, query, passages):
        return (await arun_flow(self._flow(query, passages), llm=self.llm, max_concurrency=1))[0]


class Gate:
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


@pytest.mark.parametrize("sync", [True, False])
def test_a_timed_out_run_gives_back_what_it_did_not_use_and_makes_no_further_call(sync):
    gate = Gate()

    def flow():
        try:
            yield from denoise("q", DOCS, denoiser=Nested(gate, 20))
        except TimeoutError:
            gate.opened.set()
        return (yield from complete((Message("user", "after"),), tag="after")).text

    options = {"llm": FunctionLLM(lambda m: "done"), "budget": Budget(calls=20), "call_seconds": 0.05}
    drive = run_flow if sync else lambda *a, **k: asyncio.run(arun_flow(*a, **k))
    before = set(threading.enumerate())
    value, trace = drive(flow(), **options)
    assert value == "done"
    assert [e.tag for e in trace.events if e.tag == "after"] == ["after"]
    for thread in set(threading.enumerate()) - before:  # the one that was left behind ends by itself
        thread.join(30)
    assert gate.began == 1


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


def test_what_a_failed_denoiser_had_done_is_in_the_trace():
    class Fails(Nested):
        def _flow(self, query, passages):
            yield ask("inner")
            raise ValueError("bad")

    def flow():
        try:
            yield from denoise("q", DOCS, denoiser=Fails(FunctionLLM(lambda m: Reply("y", Usage(600, 400))), 1))
        except ValueError:
            return "caught"

    value, trace = both(flow, dict)
    assert value == "caught"
    assert [(e.tag, e.error) for e in trace.events] == [("ask", None), ("denoise", "ValueError: bad")]
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
