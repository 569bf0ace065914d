"""What the Augmenter's tests share. Where no utility is named, a judge that is a function of words judges: these
tests are of what is done with verdicts; real judges have their own."""

import pytest
from judging import by_words
from tiny_augmenter import passages, question  # noqa: F401


@pytest.fixture(autouse=True)
def words_judge(monkeypatch):
    from denoise_core.augmenter.utility import Groundedness

    monkeypatch.setattr(
        Groundedness, "for_model", classmethod(lambda cls, llm=None: by_words())
    )
