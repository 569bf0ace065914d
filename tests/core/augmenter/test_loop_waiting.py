"""The loop never waits longer than it was told to: calls end in the middle, and the event loop stays free."""

import asyncio

import pytest
from augmenter_doubles import RIGHT, check_loop, scripted
from faults import Hanging

from denoise_core import Budget
from denoise_core.augmenter import (
    Augmenter,
    LoopLimits,
    Outcome,
    StopReason,
)
from denoise_core.testing import ListRetriever


@pytest.mark.parametrize(
    ("what", "reason"),
    [("draft", StopReason.LLM_ERROR), ("search", StopReason.RETRIEVER_ERROR)],
)
def test_a_hanging_call_is_given_up_after_its_time(passages, question, what, reason):
    hanging = Hanging()
    parts = {"draft": scripted(RIGHT), "search": ListRetriever(passages)}
    parts[what] = hanging
    limits = LoopLimits(call_seconds=0.02, failures=1)

    def make():
        return Augmenter(parts["draft"], parts["search"], limits=limits)

    try:
        answer = check_loop(make, question)
    finally:
        hanging.go.set()
    assert answer.stop_reason is reason
    assert answer.memory.failures == ((what, "TimeoutError: no reply within 0.02 s"),)


def test_the_deadline_of_the_budget_ends_a_call_in_the_middle(passages, question):
    loop = Augmenter(
        Hanging(),
        ListRetriever(passages),
        budget=Budget(seconds=0.05),
    )
    answer = asyncio.run(loop.aanswer(question))
    assert (answer.stop_reason, answer.outcome) == (StopReason.DEADLINE, Outcome.FAILED)
