"""Recall at a kept share counts what it says, ties by chance; intervals cover what they should."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import binomtest

from denoise_core import InputError
from denoise_core.evaluate.metrics import (
    bootstrap_interval,
    recall_at,
    recall_table,
    top1_accuracy,
    wilson_interval,
)


@pytest.mark.parametrize(
    ("scores", "gold", "recall"),
    [
        ([1, 1], [True, False], 0.5),
        ([1, 1, 0, 0], [True, True, False, False], 1),
        ([2, 1, 1, 1], [False, True, False, False], 1 / 3),
    ],
)
def test_ties_count_as_the_mean_over_all_orders(scores, gold, recall):
    recalls = recall_at(scores, gold, [0] * len(scores), 0.5)
    assert recalls[0] == pytest.approx(recall)


def test_questions_without_gold_are_left_out_and_groups_may_be_scattered():
    scores = [0.9, 0.1, 0.5, 0.7, 0.2, 0.3]
    gold = [True, False, True, False, False, False]
    table = recall_table(scores, gold, list("ababac"))
    assert {name: recalls.tolist() for name, recalls in table.items()} == {
        "top 1": [1.0],
        "20 %": [0.5],
        "30 %": [0.5],
        "50 %": [1.0],
        "60 %": [1.0],
    }
    assert top1_accuracy([1, 1, 0], [True, False, False], [0, 0, 0]).tolist() == [0.5]


def test_sizes_must_agree():
    with pytest.raises(InputError, match="2 scores, 1 labels"):
        recall_at([1, 2], [True], [0, 0], 0.5)


def test_intervals_hold_the_value_and_need_one():
    values = np.array([1.0, 0.0, 1.0, 1.0] * 20)
    low, high = bootstrap_interval(values)
    assert low < 0.75 < high
    assert bootstrap_interval(values) == (low, high), "seeded"
    for empty in (lambda: wilson_interval(0, 0), lambda: bootstrap_interval([])):
        with pytest.raises(InputError):
            empty()


@given(st.integers(0, 2500), st.integers(0, 2500))
def test_wilsons_interval_is_scipys(hits, misses):
    count = max(1, hits + misses)
    theirs = binomtest(hits, count).proportion_ci(method="wilson")
    assert wilson_interval(hits, count) == pytest.approx(theirs, abs=1e-12)
