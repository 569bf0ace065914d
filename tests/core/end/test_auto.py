"""keep="auto": a margin below the best score, calibrated; says when it cannot tell, and when nothing fits."""

import json
import math
from dataclasses import replace

import numpy as np
import pytest
from growing_texts import passages_of
from hypothesis import given
from hypothesis import strategies as st

from denoise_core import Guard, InputError, Passage, Pipeline
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


class Scaled(FunctionScorer):
    """Scores are the numbers that the texts are."""

    scale = SCALE

    def __init__(self):
        super().__init__(lambda query, text: float(text))


def auto(scores, **settings):
    passages = [Passage(str(score), f"p{i}") for i, score in enumerate(scores)]
    return ENDDenoiser(Scaled(), keep="auto", **settings).denoise("q", passages)


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
    texts = ["1", "", "2", " ", "-4", "0.5", "1.9", "-3"]
    passages = passages_of(texts)
    check_denoiser(
        lambda: ENDDenoiser(Scaled(), keep="auto", on_irrelevant="drop"), "q", passages
    )


def test_of_a_few_only_the_worst_goes_and_that_is_said():
    result = auto([5, 1, 0.5, -3])
    assert kept(result) == [5, 1, 0.5]
    assert result.note.startswith(TOO_CLOSE)


def test_flat_scores_all_stay_and_that_is_said():
    denoise_result = auto([3.0, 3.1, 2.9, 3.0, 3.2, 2.8])
    assert len(denoise_result.passages) == 6
    assert TOO_CLOSE in denoise_result.note
    assert auto([5, 1, 1, 1, 1, 1]).note is None


def test_scores_unlike_the_calibrations_get_the_wide_margin():
    high, low = [12, 11, 10.5, 8, 1, 0, 0, 0, 0, 0], [8, 7.1, 6.5, 4, 1, 0, 0, 0, 0, 0]
    assert kept(auto(high)) == [12, 11, 10.5]
    assert kept(auto(low)) == [8, 7.1]


def test_the_margin_grows_with_the_list():
    chunk_scores = [5, 3.9, 3.9] + [-9] * 7
    assert kept(auto(chunk_scores)) == [5, 3.9]  # two at least
    assert kept(auto(chunk_scores + [-9] * 20)) == [5, 3.9, 3.9]


def test_the_margin_does_not_grow_beyond_the_longest_calibration_list():
    record_scores = [5.0, 3.0] + [1.0] * 798
    grown = list_length_factor(800, None)
    assert grown > 2.5  # the records would be within reach
    scale = ScoreCalibration({0.10: 2.0}, None, 9.0, 300, longest_list=20)
    records = np.float32(record_scores)
    assert scale.rule(0.10).choose(records, [""] * 800).sum() == 2
    assert (
        replace(scale, longest_list=None).rule(0.10).choose(records, [""] * 800).sum()
        == 800
    )


def test_a_calibration_knows_its_longest_list():
    rng = np.random.default_rng(0)
    scored_lists = []
    for length in (10, 40, 20) * 10:
        scored_lists.append((rng.normal(size=length), [True] + [False] * (length - 1)))
    scale = calibrate_margins({"mine": scored_lists})
    assert scale.longest_list == 40
    assert ScoreCalibration.from_dict(scale.to_dict()) == scale
    earlier_release = scale.to_dict()
    del earlier_release["longest_list"]
    assert ScoreCalibration.from_dict(earlier_release).longest_list is None


@pytest.mark.parametrize("around", [lambda denoiser: denoiser, Guard, Pipeline])
def test_nothing_fits_is_said_by_every_surface_and_kept_or_dropped_as_asked(around):
    passages = [Passage(str(n), str(n)) for n in (-5, -3, -9, -8, -7, -1)]
    keeping = around(ENDDenoiser(Scaled(), keep="auto")).denoise("q", passages)
    assert keeping.relevant is False
    assert keeping.passages
    dropper = ENDDenoiser(Scaled(), keep="auto", on_irrelevant="drop")
    dropping = around(dropper).denoise("q", passages)
    assert dropping.relevant is False
    assert dropping.passages == ()
    assert {drop.span.passage_id for drop in dropping.dropped} == {
        passage.id for passage in passages
    }
    assert result_summary(passages, dropping)["relevant"] is False


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"keep": "auto", "risk": 0.07}, "calibrated for 0.05, 0.1"),
        ({"keep": "atuo"}, "'auto'"),
        ({"keep": "auto", "on_irrelevant": "raise"}, "'keep' or 'drop'"),
        ({"keep": "auto", "chunker": "sentences"}, "'auto' or a function"),
    ],
)
def test_slips_are_refused(settings, message):
    with pytest.raises(InputError, match=message):
        ENDDenoiser(Scaled(), **settings)


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
    with pytest.raises(InputError, match="19 calibration questions, here are 1"):
        calibrate_margins({"mine": [(np.float32([1, 0]), [True, False])]})
