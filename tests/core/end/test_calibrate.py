"""What a calibrated rule promises is what happens, and nothing is promised on too little data."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from denoise_core import InputError, Passage
from denoise_core.end.calibration import (
    Calibration,
    calibrate,
    calibrate_from_scores,
    min_question_count,
    rank_depths,
)
from denoise_core.end.denoiser import ENDDenoiser
from denoise_core.end.probe import HiddenStateSpec, Probe
from denoise_core.local.fingerprint import ModelFingerprint
from denoise_core.question import Question
from denoise_core.testing import FunctionScorer


def drawn(n, seed, golds=1, passages=12):
    """Scored questions: relevant chunks score higher by 1.5 deviations, and every question has its own level."""
    generator = np.random.default_rng(seed)
    labels = np.arange(passages) < golds
    levels = generator.normal(size=(n, 1))
    scores = generator.normal(size=(n, passages)) + 1.5 * labels + levels
    return [(row, labels) for row in scores.astype(np.float32)]


def losses(rule, unseen):
    """Share of questions that lose a relevant chunk, mean share of relevant chunks lost."""
    lost_counts = np.bincount(unseen.question, unseen.depth > rule.limit)
    lost_shares = lost_counts / np.bincount(unseen.question)
    return {"any": (lost_counts > 0).mean(), "share": lost_shares.mean()}


@pytest.mark.parametrize("risk", [0.05, 0.1])
def test_on_average_over_calibration_sets_the_risk_is_kept_and_not_undershot(risk):
    unseen = calibrate_from_scores(drawn(4000, seed=99))
    lost_fractions = []
    for seed in range(60):
        rule = calibrate_from_scores(drawn(100, seed)).rule(risk)
        lost_fractions.append(losses(rule, unseen)["any"])
    # k = floor(risk * 101) questions of 101: the mean loss is k / 101, or a little less by ties.
    assert np.mean(lost_fractions) <= risk + 0.008
    assert np.mean(lost_fractions) >= 0.4 * risk, "keeps far more than it must"


@pytest.mark.parametrize("loss", ["any", "share"])
def test_with_confidence_few_calibration_sets_fail(loss):
    unseen = calibrate_from_scores(drawn(3000, seed=98, golds=3))
    calibrations = [calibrate_from_scores(drawn(100, n, golds=3)) for n in range(80)]
    fails, limits = [], []
    for confidence in (0.9, None):
        rules = [c.rule(0.1, loss=loss, confidence=confidence) for c in calibrations]
        fails.append(np.mean([losses(rule, unseen)[loss] > 0.1 for rule in rules]))
        limits.append(np.mean([rule.limit for rule in rules]))
    assert fails[0] <= 0.1 + 0.1
    assert fails[1] > fails[0]
    assert limits[0] > limits[1], "confidence must cost something"


def test_risk_control_keeps_less_than_losing_none_of_several():
    calibration = calibrate_from_scores(drawn(300, seed=1, golds=4))
    unseen = calibrate_from_scores(drawn(3000, seed=97, golds=4))
    none_lost, some_lost = (calibration.rule(0.1, loss=x) for x in ("any", "share"))
    assert losses(none_lost, unseen)["any"] < 0.14
    assert 0.06 < losses(some_lost, unseen)["share"] < 0.13
    assert some_lost.limit < none_lost.limit


@given(st.integers(19, 60), st.sampled_from([0.05, 0.2, 0.5]))
def test_exactly_the_allowed_number_of_calibration_questions_is_lost(n, risk):
    scored = drawn(n, seed=n)
    rule = calibrate_from_scores(scored).rule(risk)
    kept_golds = [rule.choose(row, [""] * len(row))[y].all() for row, y in scored]
    assert kept_golds.count(False) <= int(risk * (n + 1) + 1e-9) - 1


@pytest.mark.parametrize(
    ("risk", "confidence", "needed"),
    [(0.05, None, 19), (0.1, None, 9), (0.05, 0.95, 59)],
)
@pytest.mark.parametrize("loss", ["any", "share"])
def test_too_few_questions_are_an_error_that_names_how_many(
    risk, confidence, needed, loss
):
    def make(n):
        calibration = calibrate_from_scores(drawn(n, seed=0))
        return calibration.rule(risk, loss=loss, confidence=confidence)

    assert min_question_count(risk, confidence) == needed
    make(needed)
    message = f"needs {needed} calibration questions .* here are {needed - 1}"
    with pytest.raises(InputError, match=message):
        make(needed - 1)
    with pytest.raises(InputError, match="here are 0"):
        make(0)


def test_depth_is_the_share_ranked_above():
    assert rank_depths(np.float32([1, 3, 2, 3])).tolist() == [0.75, 0, 0.5, 0.25]
    assert rank_depths(np.float32([])).tolist() == []


@pytest.mark.parametrize(
    "bad",
    [{"risk": 0}, {"risk": 1}, {"confidence": 1.0}, {"loss": "all"}],
)
def test_settings_outside_their_range_are_refused(bad):
    with pytest.raises(InputError):
        calibrate_from_scores(drawn(100, seed=0)).rule(**bad)


def test_a_calibration_refuses_arrays_that_do_not_belong_together():
    for arrays in (
        ([0, 2], [0, 0]),
        ([0], [0, 0]),
        ([0], [1.0]),
        ([0], [np.nan]),
    ):
        with pytest.raises(InputError):
            Calibration(*map(np.array, arrays))
    with pytest.raises(InputError, match="depth"):
        Calibration.from_arrays({"question": np.zeros(1)})


LENGTH = FunctionScorer(lambda query, text: len(text))
PASSAGES = tuple(Passage("x" * n, f"p{n}") for n in range(1, 11))
QUESTIONS = [
    Question(f"question {n}", PASSAGES, frozenset({f"p{10 - n % 4}"}))
    for n in range(40)
]


def test_calibrating_a_scorer_leaves_out_questions_without_gold():
    unlabelled = Question("none", PASSAGES, frozenset())
    calibration = calibrate(LENGTH, [*QUESTIONS, unlabelled])
    assert calibration.n == 40
    assert sorted(set(calibration.depth.tolist())) == [0, 0.1, 0.2, 0.3]
    assert calibration.rule(0.05).limit == 0.3


class Calibrated(FunctionScorer):
    calibration = calibrate(LENGTH, QUESTIONS)


def test_the_denoiser_keeps_by_its_scorers_calibration_and_says_what_that_promises():
    scorer = Calibrated(LENGTH.score_one)
    denoiser = ENDDenoiser(scorer, keep="calibrated", risk=0.05)
    result = denoiser.denoise("q", PASSAGES)
    kept_ids = [passage.id for passage in result.passages]
    assert kept_ids == ["p7", "p8", "p9", "p10"]
    assert "risk of 5 %" in result.dropped[0].reason
    promised = result.trace.events[0].effect.guarantee
    assert "at most 5 % of questions" in promised
    assert "40 calibration questions" in promised
    assert "void" in promised
    for settings, message in (
        ({"risk": 0.01}, "needs 99"),
        ({"max_keep": 5}, "max_keep"),
        ({"threshold": 0.0}, "one of the two"),
    ):
        with pytest.raises(InputError, match=message):
            ENDDenoiser(scorer, keep="calibrated", **settings)


def test_a_scorer_without_calibration_cannot_keep_by_it():
    with pytest.raises(InputError, match="calibrate"):
        ENDDenoiser(LENGTH, keep="calibrated")


def test_a_probe_takes_its_calibration_along(tmp_path):
    calibration = calibrate_from_scores(drawn(30, seed=5, golds=2))
    reading = HiddenStateSpec(ModelFingerprint("m", "bert", 3, "float32"), 1, "pair")
    Probe(np.ones(3), 0.0, reading, calibration=calibration).save(tmp_path / "p")
    loaded = Probe.load(tmp_path / "p").calibration
    for name, values in calibration.to_arrays().items():
        assert loaded.to_arrays()[name].tobytes() == values.tobytes()
