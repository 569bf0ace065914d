"""What the Augmenter's tests share. Where no utility is named, a judge that is a function of words judges: these
tests are of what is done with verdicts; the judge that ships has its own."""

import pytest
from judging import by_words
from tiny_augmenter import (  # noqa: F401
    passages,
    question,
    tiny_chat,
    tiny_nli,
    tiny_scorer,
    tiny_tokens,
    tiny_two,
    tiny_unnamed,
)


@pytest.fixture(autouse=True)
def words_judge(monkeypatch):
    from denoise_core.augmenter.utilities import Groundedness

    monkeypatch.setattr(Groundedness, "shipped", classmethod(lambda cls, llm=None: by_words()))
