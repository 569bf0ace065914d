"""Similarity is that of the best sentence, mean over the claims; each text is read once; silence has no score."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from judging import TEXT, by_words, judged

from denoise_core.augmenter.utilities import FunctionUtility, LinearCombination, Similarity, Weights


class Letters:
    """How often each of a few words stands in a text, in the place of an encoder; counts what it reads."""

    def __init__(self):
        self.read = []

    def __call__(self, texts):
        self.read += texts
        return [[1e-3 + t.casefold().count(w) for w in ("club", "founded", "seats", "rome")] for t in texts]


def test_similarity_is_that_of_the_best_sentence_mean_over_the_claims():
    score = Similarity(Letters())
    right = score("q", ["Rome is old. The club was founded in 1928."], "Founded: the club [1].")
    wrong = score("q", ["Rome is old. The club was founded in 1928."], "Many seats.")
    assert right == pytest.approx(1.0, abs=1e-3)
    assert wrong < 0.1
    both = score("q", ["Rome is old. The club was founded in 1928."], "Founded: the club [1]. Many seats.")
    assert both == pytest.approx((right + wrong) / 2)


def test_similarity_reads_the_evidence_once():
    embed = Letters()
    utility = FunctionUtility(Similarity(embed), name="similarity")
    for candidate in ("Founded in 1928.", "It has seats.", "Founded in 1928."):
        judged(candidate, TEXT, utility=utility)
    assert len(embed.read) == len(set(embed.read))
    score = Similarity(embed := Letters())
    score.read([((TEXT,), "Founded in 1928."), ((TEXT, ""), "It has seats.")])
    before = list(embed.read)
    score("", [TEXT, ""], "It has seats.")
    assert embed.read == before


@pytest.mark.parametrize(
    ("candidate", "texts", "outcome"),
    [
        ("I don't have that information.", (TEXT,), "unknown"),
        ("Founded in 1928.", (), "unknown"),
        ("Founded in 1928.", ("", " "), "unknown"),
        ("", (TEXT,), "fail"),
        ("club founded " * 10_000, (TEXT,), "fail"),
        ("The club was founded.", (TEXT, "x" * 100_000), "pass"),
    ],
)
def test_similarity_of_what_says_nothing(candidate, texts, outcome):
    utility = FunctionUtility(Similarity(Letters()))
    assert judged(candidate, *texts, utility=utility).outcome == outcome


@given(st.text(), st.lists(st.text(), min_size=1, max_size=3))
def test_similarity_of_any_text_is_a_score_or_none(candidate, texts):
    found = Similarity(Letters())("q", texts, candidate)
    assert found is None or 0.0 <= found <= 1.0


def test_the_embedded_encoder_knows_a_paraphrase_that_shares_no_word():
    score = Similarity()
    evidence = ["The physician cured the child.", "Bananas are yellow."]
    assert score("", evidence, "A doctor healed a young boy.") > score("", evidence, "Shares fell in Tokyo.") + 0.2
    members = {"words": by_words(), "meaning": FunctionUtility(score, name="similarity")}
    weights = Weights(("words", "meaning"), (2.0, 2.0), (0.5, 0.5), 0.0)
    found = judged("The club was founded in 1928.", TEXT, utility=LinearCombination(members, weights))
    assert found.outcome == "pass"
