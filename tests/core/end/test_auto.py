"""keep="auto": a margin below the best score, calibrated; says when it cannot tell, and when nothing fits."""

import json
import math

import numpy as np
import pytest
from growing_texts import passages_of
from hypothesis import given
from hypothesis import strategies as st

from denoise_core import Guard, InputError, Pipeline
from denoise_core.end import ENDDenoiser
from denoise_core.end.calibration import calibrate_margins
from denoise_core.end.selection import (
    SHORT_LIST,
    TOO_CLOSE,
    ScoreCalibration,
    list_length_factor,
)
from denoise_core.runtime.record import result_summary
from denoise_core.testing import FunctionScorer, check_denoiser

SCALE = ScoreCalibration(
    {0.05: 2.0, 0.10: 1.0}, floor=0.0, top_score=9.0, questions=300, set_names=("NQ",)
)
SCORES = st.lists(st.floats(-20, 8, width=32), min_size=1, max_size=30)


# Scores are the numbers that the texts are.
SCALED = FunctionScorer(lambda query, text: float(text))
SCALED.scale = SCALE


def auto(scores, **settings):
    denoiser = ENDDenoiser(SCALED, keep="auto", **settings)
    return denoiser.denoise("q", passages_of(map(str, scores)))


def kept(denoise_result):
    return [float(passage.text) for passage in denoise_result.passages]


@given(SCORES)
def test_all_within_the_margin_stay_and_at_least_two(scores):
    result = auto(scores)
    kept_scores = kept(result)
    lowest = max(scores) - list_length_factor(len(scores), SCALE.longest_list)
    assert {score for score in scores if score >= lowest} <= set(kept_scores)
    assert len(kept_scores) >= min(2, len(scores))
    if len(scores) > SHORT_LIST and len(kept_scores) > 2:
        assert min(kept_scores) >= lowest - 1e-6
    assert result.relevant is (False if max(scores) < 0 else None)


@given(SCORES)
def test_a_smaller_risk_keeps_all_that_a_larger_one_does(scores):
    larger, smaller = (set(kept(auto(scores, risk=risk))) for risk in (0.10, 0.05))
    assert larger <= smaller


def test_laws_hold():
    passages = passages_of(["1", "", "2", " ", "-4", "0.5", "1.9", "-3"])
    check_denoiser(
        lambda: ENDDenoiser(SCALED, keep="auto", on_irrelevant="drop"), "q", passages
    )


def test_of_a_few_only_the_worst_goes_and_that_is_said():
    result = auto([5, 1, 0.5, -3])
    assert kept(result) == [5, 1, 0.5]
    assert result.note.startswith(TOO_CLOSE)


def test_flat_scores_all_stay_and_that_is_said():
    denoise_result = auto([3.0, 3.1, 2.9, 3.0, 3.2, 2.8])
    assert len(denoise_result.passages) == 6
    assert TOO_CLOSE in denoise_result.note
    assert (
        "40 of 41 chunks kept" in auto([*[3.0] * 40, -5]).note
    )  # nearly all is said too
    assert auto([5, 1, 1, 1, 1, 1]).note is None


def test_scores_unlike_the_calibrations_get_the_wide_margin():
    high, low = [12, 11, 10.5, 8, 1, 0, 0, 0, 0, 0], [8, 7.1, 6.5, 4, 1, 0, 0, 0, 0, 0]
    assert kept(auto(high)) == [12, 11, 10.5]
    assert kept(auto(low)) == [8, 7.1]


def test_the_margin_does_not_grow_beyond_the_longest_calibration_list():
    records = np.float32([5.0, 3.0] + [1.0] * 798)
    # The records would be within reach.
    assert list_length_factor(800, None) > 2.5
    for longest_list, kept_count in ((20, 2), (None, 800)):
        scale = ScoreCalibration({0.10: 2.0}, None, 9.0, 300, longest_list=longest_list)
        assert scale.rule(0.10).choose(records, [""] * 800).sum() == kept_count


def test_a_calibration_knows_its_longest_list():
    rng = np.random.default_rng(0)
    scored_lists = []
    for length in (10, 40, 20) * 10:
        scored_lists.append((rng.normal(size=length), np.arange(length) == 0))
    scale = calibrate_margins({"mine": scored_lists})
    assert scale.longest_list == 40
    assert ScoreCalibration.from_dict(scale.to_dict()) == scale
    earlier_release = scale.to_dict()
    del earlier_release["longest_list"]
    assert ScoreCalibration.from_dict(earlier_release).longest_list is None


@pytest.mark.parametrize("around", [lambda denoiser: denoiser, Guard, Pipeline])
def test_nothing_fits_is_said_by_every_surface_and_kept_or_dropped_as_asked(around):
    passages = passages_of(map(str, (-5, -3, -9, -8, -7, -1)))
    for on_irrelevant in ("keep", "drop"):
        denoiser = ENDDenoiser(SCALED, keep="auto", on_irrelevant=on_irrelevant)
        result = around(denoiser).denoise("q", passages)
        assert bool(result.passages) is (on_irrelevant == "keep")
        assert result_summary(passages, result)["relevant"] is result.relevant is False
    assert {drop.span.passage_id for drop in result.dropped} == set("012345")


def test_a_scorer_without_a_scale_says_what_to_do():
    with pytest.raises(InputError, match="calibrate_scorer"):
        ENDDenoiser(FunctionScorer(lambda q, t: 0.0), keep="auto")


def test_a_scale_survives_json_and_damage_is_refused():
    record = json.loads(json.dumps(SCALE.to_dict()))
    assert ScoreCalibration.from_dict(record) == SCALE
    for bad in ({}, {"margins": {"0.1": "wide"}}, {"margins": {"0.1": math.nan}}):
        with pytest.raises(InputError):
            ScoreCalibration.from_dict(bad and record | bad)


def test_the_stated_risk_holds_on_new_questions_on_average():
    generator = np.random.default_rng(0)
    is_gold = np.arange(10) < 2

    def drawn(number):
        scores = np.float32(generator.normal(size=(number, 10)) + 2 * is_gold)
        return [(row, is_gold) for row in scores]

    lost_fractions = []
    for _ in range(40):
        rule = calibrate_margins({"a": drawn(60), "b": drawn(60)}).rule(0.10)
        for scores, _ in drawn(30):
            lost_fractions.append(1 - rule.choose(scores, [""] * 10)[is_gold].mean())
    assert 0.04 < np.mean(lost_fractions) <= 0.105


def test_too_few_questions_are_refused_by_name():
    with pytest.raises(
        InputError, match="19 calibration questions with a relevant passage, here are 1"
    ):
        calibrate_margins({"mine": [(np.float32([1, 0]), [True, False])]})
