"""Whatever form an answer has and whatever a judge says: it is sent as written, and streamed as it is sent."""

import pytest
from answer_forms import JUDGES, PASSAGE, QUESTION, answer_forms, judge_named
from augmenter_doubles import Pieces

from denoise_core import Passage
from denoise_core.augmenter import Augmenter
from denoise_core.augmenter.streaming import Finished, TextReleased, stream_verified


@pytest.mark.parametrize("judge_name", JUDGES)
@pytest.mark.parametrize("show", ["draft", "checked"])
async def test_streamed_equals_returned_equals_written(judge_name, show):
    texts = answer_forms()
    assert len(texts) == 70
    evidence = [Passage(PASSAGE, "a")]
    for text in texts:
        judge = judge_named(judge_name)
        loop = Augmenter(Pieces(text, size=40), judge=judge)
        answer = loop.answer(QUESTION, evidence=evidence)
        assert answer.text == text
        stream = stream_verified(
            loop,
            QUESTION,
            evidence=evidence,
            show=show,
        )
        for events in (list(stream), [event async for event in stream]):
            *shown, last = events
            assert "".join(e.text for e in shown) == text
            assert all(isinstance(e, TextReleased) for e in shown)
            assert isinstance(last, Finished)
            assert last.answer.text == text
            assert last.answer.outcome is answer.outcome
