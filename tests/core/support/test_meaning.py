"""Claims in other words: an encoder may find them, never against a fact that differs."""

import numpy as np
import pytest

from denoise_core import InputError, Passage
from denoise_core.augmenter import Groundedness
from denoise_core.support import check
from denoise_core.support.meaning import ALIKE

PASSAGE = Passage("The physician was awarded a prize in 1921. The bridge is 1,280 metres long.", "p")
CLAIM = "Doctors honour him greatly."


def alike(value):
    """Vectors by which what speaks of a physician is as like a claim as ``value`` says, and the bridge not."""

    def vector(text):
        if "physician" in text and "bridge" not in text:
            return [value, float(np.sqrt(1 - value**2)), 0.0]
        return [0.0, 0.0, 1.0] if "bridge" in text else [1.0, 0.0, 0.0]

    return lambda texts: [vector(t) for t in texts]


def test_a_claim_in_other_words_is_supported_by_the_window_that_means_it():
    assert check("", CLAIM, [PASSAGE]).supported is False
    found = check("", CLAIM, [PASSAGE], embed=alike(ALIKE + 0.05))
    assert found.passed
    assert found.score == pytest.approx(ALIKE + 0.05, abs=1e-6)
    (span,) = found.claims[0].evidence
    assert PASSAGE.text[span.start : span.end] == "The physician was awarded a prize in 1921."


def test_less_than_alike_is_not_enough():
    assert check("", CLAIM, [PASSAGE], embed=alike(ALIKE - 0.01)).supported is False


@pytest.mark.parametrize("claim", ["The physician was awarded a prize in 1925.", "He was honoured in 1925."])
def test_no_likeness_makes_up_for_a_fact_that_differs(claim):
    assert check("", claim, [PASSAGE], embed=lambda texts: np.ones((len(texts), 2))).supported is False


def test_the_encoder_is_asked_only_about_what_words_do_not_support():
    def never(texts):
        raise AssertionError(texts)

    assert check("", "The physician was awarded a prize in 1921.", [PASSAGE], embed=never).passed
    assert not check("", "The prize was awarded in 1925.", [PASSAGE], embed=never).passed


@pytest.mark.parametrize("vectors", [np.ones(3), np.ones((1, 2)), np.full((3, 2), np.nan)])
def test_vectors_of_another_shape_are_refused(vectors):
    with pytest.raises(InputError, match="vectors"):
        check("", CLAIM, [PASSAGE], embed=lambda texts: vectors)


def test_a_judge_is_named_by_what_it_has():
    def embed(texts):
        return np.ones((len(texts), 2))

    class Reads:
        def fits(self, query, candidates, passages):
            return []

    pairs = ((None, None), (Reads(), None), (None, embed), (Reads(), embed))
    names = [Groundedness(reader=reads, embed=made).name for reads, made in pairs]
    assert names == ["words", "words and reader", "words and encoder", "words, reader and encoder"]


@pytest.mark.parametrize(
    "answer",
    [
        "To see how the prize came about, and what the physician was honoured for at last, look at this:\n"
        "- The physician was awarded a prize in 1921.",
        "1.\n\nThe physician was awarded a prize in 1921.\n\n2.\n\nThe bridge is 1,280 metres long.",
        "The bridge is 1,280 metres long. By following these steps, you can cross it without trouble.",
    ],
)
def test_lines_that_only_announce_or_count_are_no_claims(answer):
    assert check("", answer, [PASSAGE]).passed
