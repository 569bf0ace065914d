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


def some_states(questions=40, state_width=6, noise=1.0, seed=0):
    generator = np.random.default_rng(seed)
    gold_labels = np.tile([True] + [False] * 4, questions)
    layer_states = (
        generator.normal(0, noise, (len(gold_labels), state_width))
        * (1 + np.arange(state_width))
        + 3
    )
    layer_states[gold_labels, 0] += 2.0
    return layer_states, gold_labels, np.repeat(np.arange(questions), 5).tolist()


def test_the_scaling_is_folded_into_the_line():
    layer_states, gold_labels, row_groups = some_states()
    actual = fit_line(layer_states, gold_labels, row_groups)
    x = StandardScaler().fit_transform(layer_states)
    theirs = LogisticRegression(
        C=actual.penalty, class_weight="balanced", tol=1e-8, max_iter=5000
    ).fit(x, gold_labels)
    assert np.allclose(
        layer_states @ actual.weight + actual.bias,
        theirs.decision_function(x),
        atol=2e-3,
    )


def test_a_constant_feature_and_a_huge_one_do_no_harm():
    layer_states, gold_labels, row_groups = some_states()
    plain_reader = fit_line(layer_states, gold_labels, row_groups)
    odd = np.column_stack(
        [
            layer_states,
            np.full(len(layer_states), 7.0),
            1e6 * np.ones(len(layer_states)) + layer_states[:, 1],
        ]
    )
    actual = fit_line(odd, gold_labels, row_groups)
    assert actual.weight[6] == 0
    assert np.isfinite(actual.weight).all()
    assert (
        actual.quality[actual.penalty]
        > plain_reader.quality[plain_reader.penalty] - 0.05
    )


def test_held_out_scores_come_from_models_that_did_not_see_the_question():
    # Labels at random: whatever is learnt of them is learnt by heart, and must not show on held-out questions.
    generator = np.random.default_rng(1)
    layer_states = generator.normal(size=(2000, 100))
    gold_labels = np.tile([True] + [False] * 3, 500)
    actual = fit_line(
        layer_states,
        gold_labels,
        np.repeat(np.arange(500), 4).tolist(),
        penalties=[0.01],
    )
    assert roc_auc_score(gold_labels, layer_states @ actual.weight) > 0.6
    assert abs(roc_auc_score(gold_labels, actual.held_out) - 0.5) < 0.08


def test_noise_in_many_dimensions_calls_for_a_small_penalty():
    generator = np.random.default_rng(2)
    gold_labels = np.tile([True] + [False] * 4, 80)
    layer_states = generator.normal(size=(400, 300))
    layer_states[gold_labels] += 0.12
    actual = fit_line(layer_states, gold_labels, np.repeat(np.arange(80), 5).tolist())
    assert actual.penalty < 0.03
    assert actual.quality[actual.penalty] >= max(actual.quality.values()) - 1e-6


def test_folds_keep_questions_whole_and_all_hold_golds():
    asked_question = np.repeat(np.arange(23), 7)
    gold_labels = (np.arange(161) % 7 == 0) & (asked_question % 3 == 0)
    fold = assign_folds(asked_question, gold_labels, 5)
    assert all(len(set(fold[asked_question == query])) == 1 for query in range(23))
    assert all(gold_labels[fold == target_folder].any() for target_folder in range(5))


def test_few_questions_make_fewer_folds():
    layer_states, gold_labels, row_groups = some_states(questions=3)
    asked_question = np.array(row_groups)
    assert set(assign_folds(asked_question, gold_labels, 5)) == {0, 1, 2}
    actual = fit_line(layer_states, gold_labels, row_groups)
    assert (
        build_probe(actual, READING, gold_labels, row_groups).card["fit"]["questions"]
        == 3
    )


def test_outranking_is_the_area_under_the_curve_within_each_question():
    generator = np.random.default_rng(3)
    chunk_scores = generator.integers(0, 5, 60).astype(np.float32)  # with ties
    gold_labels = generator.random(60) < 0.3
    asked_question = np.repeat(np.arange(6), 10)
    theirs = [
        roc_auc_score(
            gold_labels[asked_question == query], chunk_scores[asked_question == query]
        )
        for query in range(6)
        if 0 < gold_labels[asked_question == query].sum() < 10
    ]
    assert question_auc(chunk_scores, gold_labels, asked_question) == pytest.approx(
        np.mean(theirs)
    )
    assert question_auc(chunk_scores, gold_labels, np.arange(60)) == pytest.approx(
        roc_auc_score(gold_labels, chunk_scores)
    )


def test_the_threshold_keeps_most_golds_of_held_out_questions():
    layer_states, gold_labels, row_groups = some_states(questions=200)
    line_probe = build_probe(
        fit_line(layer_states, gold_labels, row_groups),
        READING,
        gold_labels,
        row_groups,
        card={"data": "made up"},
    )
    kept_items = line_probe.score(layer_states)[gold_labels] >= line_probe.threshold
    assert 0.9 <= kept_items.mean() <= 1.0
    assert (
        line_probe.score(layer_states)[~gold_labels] >= line_probe.threshold
    ).mean() < kept_items.mean()
    assert line_probe.card["data"] == "made up"


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
    layer_states, gold_labels, row_groups, message_part = BAD[case]
    with pytest.raises(InputError, match=message_part):
        fit_line(layer_states, gold_labels, row_groups)


def test_states_are_not_changed():
    layer_states, gold_labels, row_groups = some_states()
    layer_states = layer_states.astype(np.float32)
    values_before = layer_states.copy()
    fit_line(layer_states, gold_labels, row_groups)
    assert np.array_equal(layer_states, values_before)
