"""Streams: nothing unjudged is released, what was shown is what was said of it, closing ends the run."""

import asyncio
import itertools
import json
import threading
from contextlib import aclosing

import pytest
from augmenter_doubles import scripted
from augmenter_laws import check_answer
from hypothesis import given, settings
from hypothesis import strategies as st
from judging import by_words, quoting

from denoise_core import Budget, Passage, Reply, Usage, run
from denoise_core.augmenter import Augmenter, LoopLimits, StopReason
from denoise_core.augmenter.streaming import (
    Finished,
    Restarted,
    Revised,
    Text,
    draft_first,
    held_back,
)
from denoise_core.support.quoting import LLMJudge
from denoise_core.testing import ListRetriever

EVIDENCE = (Passage("The tower was completed in 1889. It has three floors and stands in Paris.", "a"),)
QUESTION = "Tell me of the tower."
GOOD = "The tower was completed in 1889 [1]. It stands in Paris [1]."
HALF = "The tower was completed in 1889 [1]. It was moved to London in 1999 [1]. It has three floors [1]."
BAD = "The tower was moved to London in 1999 [1]."


class Pieces:
    """A streaming model: plays drafts in pieces of ``size`` characters; an exception among them is raised."""

    def __init__(self, *drafts, size=7, usage=None):
        self.left = list(drafts)
        self.size = size
        self.usage = usage
        self.sent = 0
        self.closed = 0

    def _draft(self):
        said = self.left.pop(0) if len(self.left) > 1 else self.left[0]
        if isinstance(said, Exception):
            raise said
        for at in range(0, len(said), self.size):
            self.sent += 1
            yield said[at : at + self.size]
        if self.usage:
            yield self.usage

    def stream(self, messages):
        yield from self._draft()

    async def astream(self, messages):
        try:
            for piece in self._draft():
                await asyncio.sleep(0)
                yield piece
        finally:
            self.closed += 1

    def complete(self, messages):
        return Reply("".join(p for p in self._draft() if isinstance(p, str)))

    async def acomplete(self, messages):
        return self.complete(messages)


def loop(*drafts, size=7, **options):
    return Augmenter(Pieces(*drafts, size=size), ListRetriever(EVIDENCE), **options)


def events(make, stream):
    """The events of the stream, after checking that async gives the same and the shown text adds up."""

    async def collect():
        return [e async for e in stream(make(), QUESTION)]

    found = list(stream(make(), QUESTION))
    other = asyncio.run(collect())
    strip = [e if isinstance(e, (Text, Restarted)) else (type(e), e.answer.text, e.answer.memory) for e in found]
    assert strip == [
        e if isinstance(e, (Text, Restarted)) else (type(e), e.answer.text, e.answer.memory) for e in other
    ]
    *before, last = found
    assert all(isinstance(e, (Text, Restarted)) for e in before)
    check_answer(last.answer)
    shown = ""
    for e in before:
        shown = "" if isinstance(e, Restarted) else shown + e.text
    same = " ".join(shown.split()) == " ".join(last.answer.text.split())
    assert isinstance(last, Revised) != same
    assert isinstance(last, Finished) == same
    return found


def test_held_back_releases_whole_sentences_that_passed():
    found = events(lambda: loop(GOOD), held_back)
    assert [e.text.strip() for e in found[:-1]] == [
        "The tower was completed in 1889 [1].",
        "It stands in Paris [1].",
    ]
    assert isinstance(found[-1], Finished)


def test_held_back_ends_a_draft_at_the_first_sentence_that_fails_and_begins_again():
    made = []

    def make():
        made.append(loop(HALF, GOOD, size=3, limits=LoopLimits(repair=False)))
        return made[-1]

    found = events(make, held_back)
    assert [type(e) for e in found] == [Text, Restarted, Text, Text, Finished]
    assert all("London" not in e.text for e in found if isinstance(e, Text))
    assert found[1].reasons == ("it stands in no passage",)
    first = found[-1].answer.memory.attempts[0]
    assert first.candidate.endswith("1999 [1].")
    assert made[0].llm.sent * 3 < len(HALF) + len(GOOD)


@pytest.mark.parametrize("cites", ["\n\n[1]", "\n[1]\nIt stands in Paris.\n[1]", "\n\n- [1]"])
def test_a_line_that_only_cites_is_judged_with_the_sentence_before_it(cites):
    text = f"The tower was completed in 1889.{cites}"
    found = events(lambda: loop(text, limits=LoopLimits(attempts=1)), held_back)
    assert isinstance(found[-1], Finished)
    assert "".join(e.text for e in found[:-1]) == text
    wrong = "The tower was completed in 1889.\n\n[7]"  # cites what was not given
    shown = events(lambda: loop(wrong, limits=LoopLimits(attempts=1, repair=False)), held_back)
    assert not any("[7]" in e.text for e in shown if isinstance(e, Text))


def test_draft_first_shows_the_draft_and_then_what_became_of_it():
    shown = events(lambda: loop(GOOD), draft_first)
    assert "".join(e.text for e in shown[:-1]) == GOOD
    assert len(shown) > 5
    assert isinstance(shown[-1], Finished)
    revised = events(lambda: loop(BAD, GOOD), draft_first)
    assert "".join(e.text for e in revised[:-1]) == BAD
    assert isinstance(revised[-1], Revised)
    assert revised[-1].answer.text == GOOD
    kept = events(lambda: loop(BAD), draft_first)
    assert isinstance(kept[-1], Finished)


def test_a_model_that_cannot_stream_comes_in_one_piece():
    def make():
        return Augmenter(scripted(Reply(GOOD, Usage(5, 5))), ListRetriever(EVIDENCE))

    found = events(make, draft_first)
    assert [type(e) for e in found] == [Text, Finished]
    assert found[-1].answer.trace.usage == Usage(5, 5)


def test_usage_of_a_stream_is_counted():
    llm = Pieces(GOOD, usage=Usage(11, 4))
    *_, last = draft_first(Augmenter(llm, ListRetriever(EVIDENCE)), QUESTION)
    assert last.answer.trace.usage == Usage(11, 4)


def test_without_evidence_nothing_is_shown():
    found = list(draft_first(Augmenter(Pieces(GOOD), ListRetriever([])), QUESTION))
    assert [type(e) for e in found] == [Revised]
    assert found[0].answer.stopped_because is StopReason.NO_EVIDENCE


def test_a_judge_that_is_the_drafting_model_is_not_shown():
    said = {"words": GOOD, "verdict": "supported", "quotes": [{"evidence": 1, "text": EVIDENCE[0].text}]}
    verdict = json.dumps({"claims": [said], "abstains": False, "answers_the_question": True})
    found = list(draft_first(loop(GOOD, verdict, judge=LLMJudge()), QUESTION))
    assert "".join(e.text for e in found[:-1]) == GOOD
    assert isinstance(found[-1], Finished)


def test_the_budget_covers_the_judging_of_sentences():
    judge = quoting("supported")
    make = loop(GOOD, judge=judge, budget=Budget(calls=3))
    *_, last = held_back(make, QUESTION)
    assert last.answer.stopped_because is StopReason.BUDGET
    assert len(judge.seen) == 1


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.sampled_from([GOOD, HALF, BAD, "", "unknown", OSError("gone")]), min_size=1, max_size=4),
    st.integers(1, 60),
)
def test_nothing_is_released_that_did_not_pass(drafts, size):
    utility = by_words()
    found = events(lambda: loop(*drafts, size=size), held_back)
    memory = found[-1].answer.memory
    for event in found[:-1]:
        if isinstance(event, Text):
            assert "London" not in event.text
            assert run(utility.assess(memory, event.text))[0].passed
    events(lambda: loop(*drafts, size=size), draft_first)


async def test_closing_an_async_stream_ends_the_model_and_the_run():
    running = loop(GOOD, size=1)
    async with aclosing(aiter(draft_first(running, QUESTION))) as stream:
        async for event in stream:
            assert isinstance(event, Text)
            break
    assert running.llm.closed == 1
    sent = running.llm.sent
    for _ in range(20):
        await asyncio.sleep(0)
    assert running.llm.sent == sent
    assert [t for t in asyncio.all_tasks() if t is not asyncio.current_task()] == []


async def test_cancelling_the_reader_ends_the_model():
    started = asyncio.Event()
    ended = asyncio.Event()

    class Endless(Pieces):
        async def astream(self, messages):
            try:
                for _ in itertools.count():
                    yield "word "
                    started.set()
                    await asyncio.sleep(0)
            finally:
                ended.set()

    async def read():
        return [e async for e in draft_first(Augmenter(Endless(""), ListRetriever(EVIDENCE)), QUESTION)]

    task = asyncio.create_task(read())
    await started.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert ended.is_set()


def test_closing_a_sync_stream_ends_its_thread():
    go_on = threading.Event()
    ended = threading.Event()

    class Endless(Pieces):
        def stream(self, messages):
            try:
                yield "word "
                go_on.wait(30)
                while True:
                    yield "word "
            finally:
                ended.set()

    stream = iter(draft_first(Augmenter(Endless(""), ListRetriever(EVIDENCE)), QUESTION))
    assert next(stream) == Text("word ")
    stream.close()
    go_on.set()
    assert ended.wait(30)


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

    *before, last = held_back(
        Augmenter(Slow(""), ListRetriever(EVIDENCE), limits=LoopLimits(call_seconds=0.2)), QUESTION
    )
    assert isinstance(last, Finished)
    assert "late" not in "".join(e.text for e in before)
