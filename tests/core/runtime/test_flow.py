"""The drivers serve every effect, in order and within their bound, and sync equals async."""

import asyncio
import threading

import pytest
from both_drivers import DOCS, ask, both, echo
from faults import Faulty
from hypothesis import given
from hypothesis import strategies as st

from denoise_core import DenoiseResult, Message
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
    drop = Faulty(lambda query, passages: DenoiseResult(query, tuple(passages)[:1]))

    def flow():
        found = yield from retrieve("capital")
        result = yield from denoise("capital", found, denoiser=drop)
        (passage,) = result.passages
        reply = yield from complete((Message("user", passage.text),), tag="draft")
        return reply.text

    value, trace = both(flow, echo)
    assert value == "PARIS IS IN FRANCE."
    assert [event.tag for event in trace.events] == ["retrieve", "denoise", "draft"]
    for event in trace.events:
        assert event.seconds >= 0


@given(
    st.lists(st.text(max_size=5) | st.just("bad"), max_size=20),
    st.integers(1, 8),
)
def test_a_batch_keeps_the_order_and_records_each_item_failed_or_not(words, width):
    def reply(messages):
        text = messages[0].content
        if text == "bad":
            raise ConnectionError("gone")
        return text.upper()

    def flow():
        outcomes = yield Batch(tuple(map(ask, words)))
        return [str(o) if isinstance(o, FailedItem) else o.text for o in outcomes]

    servers = {"llm": FunctionLLM(reply)}
    value, trace = both(flow, lambda: servers, max_concurrency=width)
    errors = ["ConnectionError: gone" if word == "bad" else None for word in words]
    pairs = list(zip(words, errors, strict=True))
    assert value == [error or word.upper() for word, error in pairs]
    events = [(e.effect.messages[0].content, e.error) for e in trace.events]
    assert events == pairs


@pytest.mark.parametrize("width", [1, 3])
def test_concurrency_is_used_and_bounded_under_both_drivers(width):
    """Each call waits until `width` calls are under way: fewer would never end, more are counted."""
    now, counts = [], set()
    full = threading.Barrier(width)

    def reply(messages):
        now.append(1)
        counts.add(len(now))
        full.wait(timeout=30)
        now.pop()
        return "all at once"

    class Crowd(FunctionLLM):
        async def acomplete(self, messages):
            return await asyncio.to_thread(self.complete, messages)

    def flow():
        outcomes = yield Batch((ask("x"),) * (width * 4))
        return {outcome.text for outcome in outcomes}

    value, _ = both(flow, lambda: {"llm": Crowd(reply)}, max_concurrency=width)
    assert value == {"all at once"}
    assert max(counts) == width


@pytest.mark.parametrize(
    ("effect", "servers", "error", "message"),
    [
        (ask("x"), {}, TypeError, "no llm= was given"),
        (Retrieve("q"), {}, TypeError, "no retriever= was given"),
        (DenoiseCall("q", DOCS), {}, TypeError, "no denoiser= was given"),
        (
            ask("x"),
            {"llm": Faulty(lambda messages: "a string")},
            ContractViolation,
            "LLM.complete must return denoise_core.Reply, got str",
        ),
        (
            Retrieve("q"),
            {"retriever": ListRetriever(["x"])},
            ContractViolation,
            "must return Passages, got a str",
        ),
    ],
)
def test_a_missing_server_and_a_wrong_reply_are_named(effect, servers, error, message):
    def flow():
        yield effect

    (raised, text), _ = both(flow, lambda: servers)
    assert raised is error
    assert message in text
