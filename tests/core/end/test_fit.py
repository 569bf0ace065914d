"""Fitting finds the line scikit-learn finds, on the penalty that serves unseen questions."""

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import roc_auc_score
from sklearn.preprocessing import StandardScaler

from denoise_core import InputError
from denoise_core.end.fit.probe import (
    assign_folds,
    fit_regression,
    question_auc,
)


def some_states(questions=40):
    generator = np.random.default_rng(0)
    labels = np.tile([True] + [False] * 4, questions)
    states = generator.normal(size=(len(labels), 6)) * np.arange(1, 7) + 3
    states[labels, 0] += 2.0
    return states, labels, np.repeat(np.arange(questions), 5)


def test_the_scaling_is_folded_into_the_line_and_states_are_not_changed():
    states, labels, groups = some_states()
    values_before = states.copy()
    line = fit_regression(states, labels, groups)
    assert np.array_equal(states, values_before)
    scaled = StandardScaler().fit_transform(states)
    theirs = LogisticRegression(
        C=line.penalty, class_weight="balanced", tol=1e-8, max_iter=5000
    ).fit(scaled, labels)
    expected = theirs.decision_function(scaled)
    np.testing.assert_allclose(states @ line.weight + line.bias, expected, atol=2e-3)


def test_a_constant_feature_and_a_huge_one_do_no_harm():
    states, labels, groups = some_states()
    plain = fit_regression(states, labels, groups)
    columns = [states, np.full(len(states), 7.0), 1e6 + states[:, 1]]
    odd = fit_regression(np.column_stack(columns), labels, groups)
    assert odd.weight[6] == 0
    assert np.isfinite(odd.weight).all()
    assert odd.quality[odd.penalty] > plain.quality[plain.penalty] - 0.05


def test_held_out_scores_come_from_models_that_did_not_see_the_question():
    # Labels at random: whatever is learnt of them is learnt by heart, and must not show on held-out questions.
    states = np.random.default_rng(1).normal(size=(2000, 100))
    labels, groups = np.arange(2000) % 4 == 0, np.arange(2000) // 4
    line = fit_regression(states, labels, groups, penalties=[0.01])
    assert roc_auc_score(labels, states @ line.weight) > 0.6
    assert abs(roc_auc_score(labels, line.held_out) - 0.5) < 0.08


def test_folds_keep_questions_whole_and_all_hold_golds():
    rows = np.arange(161)
    groups = rows // 7
    labels = (rows % 7 == 0) & (groups % 3 == 0)
    folds = assign_folds(groups, labels, 5)
    assert (folds == folds[groups * 7]).all()
    assert set(folds[labels]) == set(range(5))


def test_few_questions_make_fewer_folds():
    _, labels, groups = some_states(questions=3)
    assert set(assign_folds(groups, labels, 5)) == {0, 1, 2}


def test_outranking_is_the_area_under_the_curve_within_each_question():
    generator = np.random.default_rng(3)
    scores = generator.integers(0, 5, (6, 10)).astype(np.float32)  # with ties
    labels = generator.random((6, 10)) < 0.3
    labels[0] = False  # a question without gold is left out
    labels[1:, 0] = True
    theirs = list(map(roc_auc_score, labels[1:], scores[1:]))
    scores, labels = scores.ravel(), labels.ravel()
    by_question = question_auc(scores, labels, np.repeat(np.arange(6), 10))
    assert by_question == pytest.approx(np.mean(theirs))
    alone = question_auc(scores, labels, np.arange(60))
    assert alone == pytest.approx(roc_auc_score(labels, scores))


STATES = np.ones((4, 2))


@pytest.mark.parametrize(
    ("states", "labels", "groups", "message"),
    [
        (STATES, [0, 0, 0, 0], [1, 1, 2, 2], "at least 2"),
        (STATES, [1, 1, 1, 1], [1, 1, 2, 2], "all chunks are relevant"),
        (STATES, [1, 0, 0, 0], [1, 1, 1, 1], "at least 2"),
        (STATES * np.nan, [1, 0, 1, 0], [1, 1, 2, 2], "not finite"),
    ],
)
def test_input_that_cannot_be_fitted_is_refused_with_the_reason(
    states, labels, groups, message
):
    with pytest.raises(InputError, match=message):
        fit_regression(states, np.array(labels, dtype=bool), np.array(groups))
