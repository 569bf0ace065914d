"""Calibration reports what a judge is worth; fitted thresholds do what they say."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from judging import by_words

from denoise_core import InputError
from denoise_core.support import judges
from denoise_lab.calibration import Labelled, area_under_curve, calibrate, fit_threshold


def examples(n=40):
    for i in range(n):
        yield Labelled("When?", (f"It was founded in {1900 + i} by Ada.",), f"It was founded in {1900 + i}.", True)
        yield Labelled(
            "When?", (f"It was founded in {1900 + i} by Ada.",), f"It was founded in {1800 + i}.", False
        )


def test_a_judge_that_always_says_yes_is_reported():
    report = calibrate(judges.function(lambda *_: 1.0), list(examples()))
    assert (report.auc, report.passes_bad) == (0.5, 1.0)
    assert any("says yes to nearly everything" in w for w in report.warnings)
    assert any("no better than chance" in w for w in report.warnings)


def test_a_good_judge_is_reported_without_warning():
    report = calibrate(by_words(), list(examples()))
    assert (report.auc, report.passes_good, report.passes_bad, report.warnings) == (1.0, 1.0, 0.0, ())


def test_a_judge_that_never_knows_is_reported():
    report = calibrate(judges.function(lambda *_: None), list(examples()))
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
