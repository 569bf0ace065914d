"""A draft that comes in pieces: held back sentence by sentence, or shown first and revised."""

import asyncio

import pytest
from augmenter_doubles import RIGHT, WRONG, Chain
from augmenter_laws import check_answer
from judging import quoting

from denoise_core import Budget, Usage
from denoise_core.augmenter import Augmenter, Outcome
from denoise_core.augmenter.drafting import Drafted, Found
from denoise_core.augmenter.streaming import Finished, Revised, draft_first, held_back


class Streamed(Chain):
    """Gives what it found, then its draft in pieces, then the whole."""

    def stream(self, request):
        drafted = self.draft(request)
        yield from drafted.found
        for at in range(0, len(drafted.text), 5):
            yield drafted.text[at : at + 5]
        yield drafted

    async def astream(self, request):
        for piece in self.stream(request):
            await asyncio.sleep(0)
            yield piece


TWO = f"{RIGHT} The Eiffel Tower is in Paris [1]."


@pytest.mark.parametrize("kind", [Chain, Streamed])
def test_any_drafter_can_be_held_back_or_shown_first(passages, question, kind):
    def drafter(*drafts):
        return kind(*(Drafted(d, Usage(5, 5), found=(Found(passages),)) for d in drafts))

    *before, last = held_back(Augmenter(), question, drafter=drafter(TWO))
    assert isinstance(last, Finished)
    assert len(before) == 2
    assert last.answer.outcome is Outcome.SUPPORTED
    assert last.answer.trace.usage == Usage(5, 5)
    *before, last = draft_first(Augmenter(), question, drafter=drafter(WRONG, RIGHT))
    assert "".join(e.text for e in before) == WRONG
    assert isinstance(last, Revised)
    assert last.answer.text == RIGHT
    check_answer(last.answer)


def test_a_drafter_that_cannot_be_repeated_is_never_ended_in_the_middle(passages, question):
    text = f"{RIGHT} It was moved to London in 1999. The Eiffel Tower is in Paris [1]."
    agent = Streamed(Drafted(text, found=(Found(passages),)), repeatable=False)
    *before, last = held_back(Augmenter(), question, drafter=agent)
    assert last.answer.memory.attempts[0].candidate == text
    assert (last.answer.text, last.answer.outcome) == (TWO, Outcome.SUPPORTED)
    assert all("London" not in e.text for e in before)


def test_judges_asked_while_a_draft_streams_are_in_the_trace_and_the_budget(passages, question):
    judge = quoting("supported")
    loop = Augmenter(judge=judge, budget=Budget(calls=10))
    *_, last = held_back(loop, question, drafter=Streamed(Drafted(TWO, Usage(5, 5), found=(Found(passages),))))
    tags = [e.tag for e in last.answer.trace.events]
    assert tags.count("judge") == len(judge.seen) == 3
    assert tags.count("draft") == 1
