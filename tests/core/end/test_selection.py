"""Each rule keeps what it says, ties go to the earlier chunk, and the limits hold for all of them."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from denoise_core import InputError
from denoise_core.end.selection import (
    ScoreThreshold,
    TokenLimit,
    TopFraction,
    TopK,
    fraction_count,
    rank_by_score,
    rule_for,
    select_chunks,
)

scores_of_any_kind = st.lists(
    st.floats(width=32, allow_nan=False), min_size=1, max_size=40
)


def kept_of(keep, scores, texts=None, threshold=None, **limits):
    scores = np.array(scores, dtype=np.float32)
    texts = texts if texts is not None else ["x"] * len(scores)
    return (
        select_chunks(rule_for(keep, threshold), scores, texts, **limits)[0]
        .nonzero()[0]
        .tolist()
    )


@given(scores_of_any_kind, st.floats(0.01, 0.99))
def test_a_share_keeps_that_many_and_none_better_is_dropped(scores, share):
    kept = kept_of(share, scores)
    assert len(kept) == fraction_count(share, len(scores))
    worst = min(np.float32(scores)[kept])
    assert all(s <= worst for i, s in enumerate(np.float32(scores)) if i not in kept)


@given(st.integers(1, 500), st.integers(1, 100))
def test_a_share_is_rounded_up_and_never_led_astray_by_float_products(n, percent):
    assert fraction_count(percent / 100, n) == -(-percent * n // 100)


@given(scores_of_any_kind)
def test_a_threshold_of_minus_infinity_keeps_all(scores):
    assert kept_of(None, scores, threshold=-math.inf) == list(range(len(scores)))


@given(scores_of_any_kind, st.floats(allow_nan=False))
def test_a_threshold_keeps_what_reaches_it(scores, threshold):
    expected = [i for i, s in enumerate(np.float32(scores)) if float(s) >= threshold]
    assert kept_of(None, scores, threshold=threshold, min_keep=0) == expected


@given(
    scores_of_any_kind,
    st.integers(0, 50),
    st.integers(1, 50),
    st.sampled_from([0.3, 3, TokenLimit(2), ScoreThreshold(0.0)]),
)
def test_limits_hold_for_every_rule(scores, at_least, at_most, keep):
    at_most = max(at_most, at_least)
    kept = kept_of(keep, scores, min_keep=at_least, max_keep=at_most)
    assert min(at_least, len(scores)) <= len(kept) <= at_most


@given(scores_of_any_kind, st.integers(1, 45))
def test_more_kept_contains_less_kept(scores, k):
    assert set(kept_of(k, scores)) <= set(kept_of(k + 1, scores))


def test_of_equal_scores_the_earlier_chunk_is_kept():
    assert kept_of(2, [1, 1, 1, 1]) == [0, 1]
    assert kept_of(2, [0, 1, 1, 1], max_keep=1) == [1]
    assert rank_by_score(np.float32([1, 2, 1, 2])).tolist() == [1, 3, 0, 2]


def test_a_budget_never_takes_worse_ones_for_what_does_not_fit():
    texts = ["a" * 40, "b" * 400, "c" * 40]
    assert kept_of(TokenLimit(115), [1, 2, 3], texts) == [1, 2]
    assert kept_of(TokenLimit(20), [1, 3, 2], texts) == [1], (
        "the best, for min_keep; not two worse ones"
    )
    assert kept_of(TokenLimit(2, count=lambda text: 1), [1, 3, 2], texts) == [1, 2]
    assert kept_of(TokenLimit(1), [1, 3, 2], texts) == [1], (
        "min_keep goes before the budget"
    )


def test_nan_is_refused_by_position():
    with pytest.raises(InputError, match=r"\[1\]"):
        kept_of(1, [0.0, float("nan")])


@pytest.mark.parametrize("keep", [0.0, 1.5, -1, 0, True, "some", "0.3", float("nan")])
def test_a_keep_that_means_nothing_is_refused(keep):
    with pytest.raises(InputError, match="keep"):
        rule_for(keep, None)


def test_keep_and_threshold_exclude_each_other():
    with pytest.raises(InputError, match="one of the two"):
        rule_for(0.3, 0.0)
    with pytest.raises(InputError, match="NaN"):
        rule_for(None, float("nan"))


def test_numpy_numbers_are_numbers():
    assert rule_for(np.float32(0.5), None) == TopFraction(0.5)
    assert rule_for(np.int64(2), None) == TopK(2)
