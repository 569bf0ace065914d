"""Streams: the text shown is the answer or one correction follows, one judgement a draft, closing ends the run."""

import asyncio
import threading
from contextlib import aclosing

import pytest
from augmenter_doubles import Pieces
from augmenter_laws import check_answer
from hypothesis import given, settings
from hypothesis import strategies as st
from judging import quoting

from denoise_core import Budget, Passage
from denoise_core.augmenter import Augmenter, LoopLimits, StopReason
from denoise_core.augmenter.streaming import (
    Finished,
    Revised,
    TextReleased,
    stream_verified,
)
from denoise_core.support.quoting import LLMJudge
from denoise_core.testing import ListRetriever

EVIDENCE = (
    Passage(
        "The tower was completed in 1889. It has three floors and stands in Paris.", "a"
    ),
)
QUESTION = "Tell me of the tower."
GOOD = "The tower was completed in 1889 [1]. It stands in Paris [1]."
HALF = "The tower was completed in 1889 [1]. It was moved to London in 1999 [1]. It has three floors [1]."
BAD = "The tower was moved to London in 1999 [1]."


def loop(*drafts, size=7, **options):
    return Augmenter(
        Pieces(*drafts, size=size),
        ListRetriever(EVIDENCE),
        **options,
    )


def comparable(event):
    return (
        event
        if isinstance(event, TextReleased)
        else (type(event), event.answer.text, event.answer.memory)
    )


@pytest.mark.parametrize("show", ["draft", "checked"])
@pytest.mark.parametrize("calls", [3, 9])
def test_each_draft_is_judged_exactly_once_within_the_budget(show, calls):
    judge = quoting("not_stated")
    running = loop(
        BAD,
        HALF,
        GOOD,
        judge=judge,
        budget=Budget(calls=calls),
    )
    *_, last = stream_verified(running, QUESTION, show=show)
    tags = [event.tag for event in last.answer.trace.events]
    assert tags.count("judge") >= len(judge.received_messages)
    is_spent = last.answer.stop_reason is StopReason.BUDGET
    assert is_spent is (calls == 3)
    drafts = len(last.answer.memory.attempts)
    assert len(judge.received_messages) == drafts - (is_spent and drafts > 1)


def test_without_evidence_nothing_is_shown():
    results = list(
        stream_verified(Augmenter(Pieces(GOOD), ListRetriever([])), QUESTION)
    )
    assert [type(e) for e in results] == [Revised]
    assert results[0].answer.stop_reason is StopReason.NO_EVIDENCE


def test_a_judge_that_is_the_drafting_model_is_not_shown():
    verdict = "1 supported 1.1\n2 supported 1.2\nanswers"
    results = list(stream_verified(loop(GOOD, verdict, judge=LLMJudge()), QUESTION))
    assert "".join(e.text for e in results[:-1]) == GOOD
    assert isinstance(results[-1], Finished)


@settings(max_examples=40)
@given(
    st.lists(
        st.sampled_from([GOOD, HALF, BAD, "", "unknown", OSError("gone")]),
        min_size=1,
        max_size=4,
    ),
    st.integers(1, 60),
    st.sampled_from(["draft", "checked"]),
)
def test_the_text_shown_is_the_answer_or_one_correction_follows(drafts, size, show):
    def stream():
        return stream_verified(loop(*drafts, size=size), QUESTION, show=show)

    async def collect():
        return [comparable(event) async for event in stream()]

    events = list(stream())
    assert list(map(comparable, events)) == asyncio.run(collect())
    *before, last = events
    assert all(isinstance(e, TextReleased) for e in before)
    check_answer(last.answer)
    shown_text = "".join(e.text for e in before)
    same = shown_text.split() == last.answer.text.split()
    assert isinstance(last, Revised) != same
    assert isinstance(last, Finished) == same


@pytest.mark.parametrize("leave", ["close", "cancel"])
async def test_leaving_an_async_stream_ends_the_model_and_the_run(leave):
    running = loop("word " * 10_000, size=1)
    has_begun = asyncio.Event()

    async def read():
        async with aclosing(aiter(stream_verified(running, QUESTION))) as stream:
            async for event in stream:
                assert isinstance(event, TextReleased)
                has_begun.set()
                if leave == "close":
                    return

    reader = asyncio.create_task(read())
    await has_begun.wait()
    if leave == "cancel":
        reader.cancel()
    await asyncio.gather(reader, return_exceptions=True)
    assert running.llm.closed == 1
    assert asyncio.all_tasks() == {asyncio.current_task()}


def test_closing_a_sync_stream_ends_its_thread():
    continue_event = threading.Event()
    ended_event = threading.Event()

    class Endless(Pieces):
        def stream(self, messages):
            try:
                yield "word "
                continue_event.wait(30)
                while True:
                    yield "word "
            finally:
                ended_event.set()

    stream = iter(
        stream_verified(Augmenter(Endless(""), ListRetriever(EVIDENCE)), QUESTION)
    )
    assert next(stream) == TextReleased("word ")
    stream.close()
    continue_event.set()
    assert ended_event.wait(30)


def test_a_draft_that_was_given_up_shows_no_more():
    release = threading.Event()
    late = threading.Event()

    class Slow(Pieces):
        def stream(self, messages):
            if not self.sent:
                self.sent += 1
                yield "Too "
                release.wait(30)
                late.set()
                yield "late."
            else:
                release.set()
                late.wait(30)
                yield GOOD

    *before, last = stream_verified(
        Augmenter(
            Slow(""), ListRetriever(EVIDENCE), limits=LoopLimits(call_seconds=0.2)
        ),
        QUESTION,
    )
    assert isinstance(last, Revised)  # "Too " was shown before the draft timed out
    assert last.answer.text == GOOD
    assert "late" not in "".join(e.text for e in before)
