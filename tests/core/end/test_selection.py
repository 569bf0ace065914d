"""Each rule keeps what it says, ties go to the earlier chunk, and the limits hold for all of them."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from denoise_core import InputError
from denoise_core.end.selection import (
    ScoreThreshold,
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


def kept_of(keep, chunk_scores, threshold=None, **limits):
    scores = np.float32(chunk_scores)
    rule = rule_for(keep, threshold)
    mask, *_ = select_chunks(rule, scores, ["x"] * len(scores), **limits)
    return np.flatnonzero(mask).tolist()


@given(scores_of_any_kind, st.floats(0.01, 0.99))
def test_a_share_keeps_that_many_and_none_better_is_dropped(chunk_scores, share):
    scores = np.float32(chunk_scores)
    scored = int((scores > -np.inf).sum())  # a heading has minus infinity
    kept_items = kept_of(share, chunk_scores)
    assert len(kept_items) == max(1, fraction_count(share, scored))
    assert (np.delete(scores, kept_items) <= scores[kept_items].min()).all()


@given(st.integers(1, 500), st.integers(1, 100))
def test_a_share_is_rounded_up_and_never_led_astray_by_float_products(number, percent):
    assert fraction_count(percent / 100, number) == -(-percent * number // 100)


@given(scores_of_any_kind, st.floats(allow_nan=False))
def test_a_threshold_keeps_what_reaches_it(chunk_scores, threshold):
    reference = [
        i
        for i, score_value in enumerate(np.float32(chunk_scores))
        if float(score_value) >= threshold
    ]
    assert kept_of(None, chunk_scores, threshold=threshold, min_keep=0) == reference


@given(
    scores_of_any_kind,
    st.integers(0, 50),
    st.integers(1, 50),
    st.sampled_from([0.3, 3, ScoreThreshold(0.0)]),
)
def test_limits_hold_for_every_rule(chunk_scores, at_least, at_most, keep):
    at_most = max(at_most, at_least)
    kept_items = kept_of(keep, chunk_scores, min_keep=at_least, max_keep=at_most)
    assert min(at_least, len(chunk_scores)) <= len(kept_items) <= at_most


def test_of_equal_scores_the_earlier_chunk_is_kept():
    assert kept_of(2, [1, 1, 1, 1]) == [0, 1]
    assert kept_of(2, [0, 1, 1, 1], max_keep=1) == [1]
    assert rank_by_score(np.float32([1, 2, 1, 2])).tolist() == [1, 3, 0, 2]


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
