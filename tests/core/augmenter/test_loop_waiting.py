"""The loop never waits longer than it was told to: calls end in the middle, and the event loop stays free."""

import asyncio
import threading

from augmenter_doubles import RIGHT, WRONG, check_loop, scripted

from denoise_core import Budget, Reply
from denoise_core.augmenter import (
    Augmenter,
    BM25Retriever,
    LoopLimits,
    Outcome,
    StopReason,
)
from denoise_core.testing import ListRetriever


class Hanging:
    """A model that replies after a minute, or once it is released."""

    def __init__(self):
        self.release = threading.Event()
        self.cancelled = []

    def complete(self, messages):
        self.release.wait(60)
        return Reply(RIGHT)

    async def acomplete(self, messages):
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            self.cancelled.append(True)
            raise
        return Reply(RIGHT)


def test_a_hanging_call_is_given_up_after_its_time(passages, question):
    model = Hanging()
    try:
        answer = check_loop(
            lambda: Augmenter(
                model,
                ListRetriever(passages),
                limits=LoopLimits(call_seconds=0.02, failures=1),
            ),
            question,
        )
    finally:
        model.release.set()
    assert answer.stop_reason is StopReason.LLM_ERROR
    assert answer.memory.failures == (
        ("draft", "TimeoutError: no reply within 0.02 s"),
    )
    assert model.cancelled == [True]


def test_the_deadline_of_the_budget_ends_a_call_in_the_middle(passages, question):
    loop = Augmenter(Hanging(), ListRetriever(passages), budget=Budget(seconds=0.05))
    answer = asyncio.run(loop.aanswer(question))
    assert (answer.stop_reason, answer.outcome) == (StopReason.DEADLINE, Outcome.FAILED)


async def test_no_part_of_the_loop_blocks_the_event_loop(passages, question):
    from blockbuster import blockbuster_ctx

    with blockbuster_ctx("denoise_core"):
        answer = await Augmenter(
            scripted(WRONG, RIGHT), BM25Retriever(passages)
        ).aanswer(question)
    assert answer.outcome is Outcome.SUPPORTED
