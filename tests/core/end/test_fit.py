"""Fitting finds the line scikit-learn finds, on the penalty that serves unseen questions."""

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import roc_auc_score
from sklearn.preprocessing import StandardScaler

from denoise_core import InputError
from denoise_core.end.fit.probe import assign_folds, build_probe, fit_line, question_auc
from denoise_core.end.probe import HiddenStateSpec
from denoise_core.local.fingerprint import ModelFingerprint

READING = HiddenStateSpec(ModelFingerprint("m", "llama", 6, "float32"), 1, "layout")


def some_states(questions=40, d=6, noise=1.0, seed=0):
    rng = np.random.default_rng(seed)
    labels = np.tile([True] + [False] * 4, questions)
    states = rng.normal(0, noise, (len(labels), d)) * (1 + np.arange(d)) + 3
    states[labels, 0] += 2.0
    return states, labels, np.repeat(np.arange(questions), 5).tolist()


def test_the_scaling_is_folded_into_the_line():
    states, labels, groups = some_states()
    found = fit_line(states, labels, groups)
    x = StandardScaler().fit_transform(states)
    theirs = LogisticRegression(
        C=found.penalty, class_weight="balanced", tol=1e-8, max_iter=5000
    ).fit(x, labels)
    assert np.allclose(
        states @ found.weight + found.bias, theirs.decision_function(x), atol=2e-3
    )


def test_a_constant_feature_and_a_huge_one_do_no_harm():
    states, labels, groups = some_states()
    plain = fit_line(states, labels, groups)
    odd = np.column_stack(
        [states, np.full(len(states), 7.0), 1e6 * np.ones(len(states)) + states[:, 1]]
    )
    found = fit_line(odd, labels, groups)
    assert found.weight[6] == 0
    assert np.isfinite(found.weight).all()
    assert found.quality[found.penalty] > plain.quality[plain.penalty] - 0.05


def test_held_out_scores_come_from_models_that_did_not_see_the_question():
    # Labels at random: whatever is learnt of them is learnt by heart, and must not show on held-out questions.
    rng = np.random.default_rng(1)
    states = rng.normal(size=(2000, 100))
    labels = np.tile([True] + [False] * 3, 500)
    found = fit_line(
        states, labels, np.repeat(np.arange(500), 4).tolist(), penalties=[0.01]
    )
    assert roc_auc_score(labels, states @ found.weight) > 0.6
    assert abs(roc_auc_score(labels, found.held_out) - 0.5) < 0.08


def test_noise_in_many_dimensions_calls_for_a_small_penalty():
    rng = np.random.default_rng(2)
    labels = np.tile([True] + [False] * 4, 80)
    states = rng.normal(size=(400, 300))
    states[labels] += 0.12
    found = fit_line(states, labels, np.repeat(np.arange(80), 5).tolist())
    assert found.penalty < 0.03
    assert found.quality[found.penalty] >= max(found.quality.values()) - 1e-6


def test_folds_keep_questions_whole_and_all_hold_golds():
    question = np.repeat(np.arange(23), 7)
    labels = (np.arange(161) % 7 == 0) & (question % 3 == 0)
    fold = assign_folds(question, labels, 5)
    assert all(len(set(fold[question == q])) == 1 for q in range(23))
    assert all(labels[fold == f].any() for f in range(5))


def test_few_questions_make_fewer_folds():
    states, labels, groups = some_states(questions=3)
    question = np.array(groups)
    assert set(assign_folds(question, labels, 5)) == {0, 1, 2}
    found = fit_line(states, labels, groups)
    assert build_probe(found, READING, labels, groups).card["fit"]["questions"] == 3


def test_outranking_is_the_area_under_the_curve_within_each_question():
    rng = np.random.default_rng(3)
    scores = rng.integers(0, 5, 60).astype(np.float32)  # with ties
    labels = rng.random(60) < 0.3
    question = np.repeat(np.arange(6), 10)
    theirs = [
        roc_auc_score(labels[question == q], scores[question == q])
        for q in range(6)
        if 0 < labels[question == q].sum() < 10
    ]
    assert question_auc(scores, labels, question) == pytest.approx(np.mean(theirs))
    assert question_auc(scores, labels, np.arange(60)) == pytest.approx(
        roc_auc_score(labels, scores)
    )


def test_the_threshold_keeps_most_golds_of_held_out_questions():
    states, labels, groups = some_states(questions=200)
    probe = build_probe(
        fit_line(states, labels, groups),
        READING,
        labels,
        groups,
        card={"data": "made up"},
    )
    kept = probe.score(states)[labels] >= probe.threshold
    assert 0.9 <= kept.mean() <= 1.0
    assert (probe.score(states)[~labels] >= probe.threshold).mean() < kept.mean()
    assert probe.card["data"] == "made up"


BAD = {
    "no gold": (np.ones((4, 2)), [0, 0, 0, 0], [1, 1, 2, 2], "both kinds"),
    "only golds": (np.ones((4, 2)), [1, 1, 1, 1], [1, 1, 2, 2], "both kinds"),
    "one question": (np.ones((4, 2)), [1, 0, 0, 0], [1, 1, 1, 1], "at least 2"),
    "NaN": (np.full((4, 2), np.nan), [1, 0, 1, 0], [1, 1, 2, 2], "not finite"),
    "sizes": (np.ones((4, 2)), [1, 0, 1], [1, 1, 2, 2], "expected states"),
    "grades": (np.ones((4, 2)), [2, 0, 1, 0], [1, 1, 2, 2], "True or False"),
    "empty": (np.ones((0, 2)), [], [], "both kinds"),
}


@pytest.mark.parametrize("case", BAD)
def test_input_that_cannot_be_fitted_is_refused_with_the_reason(case):
    states, labels, groups, said = BAD[case]
    with pytest.raises(InputError, match=said):
        fit_line(states, labels, groups)


def test_states_are_not_changed():
    states, labels, groups = some_states()
    states = states.astype(np.float32)
    before = states.copy()
    fit_line(states, labels, groups)
    assert np.array_equal(states, before)
