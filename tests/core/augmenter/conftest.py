"""What the Augmenter's tests share. Where no utility is named, a judge that is a function of words judges: these
tests are of what is done with verdicts; real judges have their own."""

import pytest
from judging import let_words_judge
from tiny_augmenter import build_loop, passages, question, run_loop  # noqa: F401

words_judge = pytest.fixture(autouse=True)(let_words_judge)
