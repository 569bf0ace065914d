"""Calibration reports what a judge is worth; fitted thresholds and weights do what they say, and survive JSON."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from judging import TEXT, by_words, judged

from denoise_core import InputError
from denoise_core.augmenter.utilities import (
    FunctionUtility,
    Labelled,
    LinearCombination,
    Weights,
    calibrate,
    fit_threshold,
    fit_weights,
)
from denoise_core.augmenter.utilities.calibrate import area_under_curve


def examples(n=40):
    for i in range(n):
        yield Labelled("When?", (f"It was founded in {1900 + i} by Ada.",), f"It was founded in {1900 + i}.", True)
        yield Labelled(
            "When?", (f"It was founded in {1900 + i} by Ada.",), f"It was founded in {1800 + i}.", False
        )


def test_a_judge_that_always_says_yes_is_reported():
    report = calibrate(FunctionUtility(lambda *_: 1.0), list(examples()))
    assert (report.auc, report.passes_bad) == (0.5, 1.0)
    assert any("says yes to nearly everything" in w for w in report.warnings)
    assert any("no better than chance" in w for w in report.warnings)


def test_a_good_judge_is_reported_without_warning():
    report = calibrate(by_words(), list(examples()))
    assert (report.auc, report.passes_good, report.passes_bad, report.warnings) == (1.0, 1.0, 0.0, ())


def test_a_judge_that_never_knows_is_reported():
    report = calibrate(FunctionUtility(lambda *_: None), list(examples()))
    assert any("could not judge 100%" in w for w in report.warnings)


@given(st.lists(st.tuples(st.floats(0, 1), st.booleans()), min_size=2, max_size=30))
def test_a_fitted_threshold_does_what_it_says(rows):
    scores, good = [s for s, _ in rows], [g for _, g in rows]
    if all(good) or not any(good):
        with pytest.raises(InputError, match="both kinds"):
            fit_threshold(scores, good)
        return
    found = fit_threshold(scores, good)
    passed = [s >= found.value for s in scores]
    assert found.good == pytest.approx(sum(p and g for p, g in zip(passed, good)) / sum(good))
    assert found.bad == pytest.approx(sum(p and not g for p, g in zip(passed, good)) / (len(good) - sum(good)))
    strict = fit_threshold(scores, good, most_bad=0.0)
    assert strict.bad == 0.0
    assert area_under_curve(scores, good) == pytest.approx(
        sum((a > b) + (a == b) / 2 for a, g in rows if g for b, h in rows if not h)
        / (sum(good) * (len(good) - sum(good)))
    )


def test_a_learned_combination_weighs_its_members_and_survives_json():
    members = {"ground": by_words(), "noise": FunctionUtility(lambda q, e, c: (hash(c) % 100) / 100)}
    rows = list(examples())
    weights = fit_weights(members, rows)
    assert weights.weight[0] > abs(weights.weight[1])
    again = Weights.from_json(json.loads(json.dumps(weights.as_json())))
    assert again == weights
    report = calibrate(LinearCombination(members, again), rows)
    assert (report.passes_good, report.passes_bad) == (1.0, 0.0)


def test_a_combination_is_unknown_when_all_are_or_when_one_has_a_veto():
    known, unknown = FunctionUtility(lambda *_: 1.0), FunctionUtility(lambda *_: None)
    weights = Weights(("a", "b"), (5.0, 5.0), (0.5, 0.5), 0.0)
    assert judged("x", TEXT, utility=LinearCombination({"a": known, "b": unknown}, weights)).outcome == "pass"
    veto = LinearCombination({"a": known, "b": unknown}, weights, veto=True)
    assert judged("x", TEXT, utility=veto).outcome == "unknown"
    assert judged("x", TEXT, utility=LinearCombination({"a": unknown, "b": unknown}, weights)).outcome == "unknown"


def test_weights_that_do_not_fit_are_refused():
    with pytest.raises(InputError, match="the weights are for"):
        LinearCombination({"a": by_words()}, Weights(("b",), (1.0,), (0.0,), 0.0))
    for data in ({}, {"members": ["a"], "weight": [1, 2], "mean": [0], "bias": 0}):
        with pytest.raises(InputError, match="weights: "):
            Weights.from_json(data)
    with pytest.raises(InputError, match="both kinds"):
        fit_weights({"a": by_words()}, [])
