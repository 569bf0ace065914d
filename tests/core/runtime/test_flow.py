"""The drivers serve every effect, in order and within their bound, and sync equals async."""

import asyncio
import threading

import pytest
from both_drivers import DOCS, ask, both, echo
from hypothesis import given, settings
from hypothesis import strategies as st

from denoise_core import DenoiseResult, Message, Reply
from denoise_core import arun as arun_flow
from denoise_core import run as run_flow
from denoise_core.errors import ContractViolation
from denoise_core.runtime.effects import (
    Batch,
    DenoiseCall,
    FailedItem,
    Retrieve,
    complete,
    denoise,
    retrieve,
)
from denoise_core.testing import FunctionLLM, ListRetriever


def test_every_effect_is_served_and_recorded():
    class Drop:
        def denoise(self, query, passages):
            return DenoiseResult(query, tuple(passages)[:1])

        async def adenoise(self, query, passages):
            return self.denoise(query, passages)

    def flow():
        found = yield from retrieve("capital")
        result = yield from denoise("capital", found, denoiser=Drop())
        reply = yield from complete(
            (Message("user", result.passages[0].text),), tag="draft"
        )
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
            str(r) if isinstance(r, FailedItem) else r.text
            for r in (yield Batch((ask("x"), ask("bad"), ask("y"))))
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


@pytest.mark.parametrize(
    ("effect", "missing"),
    [
        (ask("x"), "llm"),
        (Retrieve("q"), "retriever"),
        (DenoiseCall("q", DOCS), "denoiser"),
    ],
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
        ContractViolation,
        "LLM.complete must return denoise_core.Reply, got str",
    )

    def search():
        yield Retrieve("q")

    assert (
        "must return Passages, got a str"
        in both(search, lambda: {"retriever": ListRetriever(["x"])})[0][1]
    )
