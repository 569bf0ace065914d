"""Drafts of a drafter as a stream: in pieces where it can, else as a whole."""

import asyncio

import pytest
from augmenter_doubles import RIGHT, WRONG, Chain
from augmenter_laws import check_answer

from denoise_core import Usage
from denoise_core.augmenter import Augmenter, Outcome
from denoise_core.augmenter.drafting import DraftReply, RetrievedEvidence
from denoise_core.augmenter.streaming import Finished, Revised, stream_verified


class Streamed(Chain):
    """Gives its draft in pieces, then the whole."""

    def stream(self, request):
        drafted = self.draft(request)
        for at in range(0, len(drafted.text), 5):
            yield drafted.text[at : at + 5]
        yield drafted

    async def astream(self, request):
        for piece in self.stream(request):
            await asyncio.sleep(0)
            yield piece


TWO = f"{RIGHT} The Eiffel Tower is in Paris [1]."


@pytest.mark.parametrize("kind", [Chain, Streamed])
def test_any_drafter_is_shown_as_it_writes_or_once_checked(passages, question, kind):
    def drafter(*drafts):
        return kind(
            *(
                DraftReply(drop, Usage(5, 5), retrieved=(RetrievedEvidence(passages),))
                for drop in drafts
            )
        )

    released_event, last = stream_verified(
        Augmenter(), question, drafter=drafter(TWO), show="checked"
    )
    assert released_event.text == TWO
    assert isinstance(last, Finished)
    assert last.answer.outcome is Outcome.SUPPORTED
    assert last.answer.trace.usage == Usage(5, 5)
    *before, last = stream_verified(
        Augmenter(), question, drafter=drafter(WRONG, RIGHT)
    )
    assert "".join(event.text for event in before) == WRONG
    assert isinstance(last, Revised)
    assert last.answer.text == RIGHT
    check_answer(last.answer)
