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
from denoise_core.end.probe import Probe
from denoise_core.question import Question
from denoise_core.testing import FunctionScorer


def drawn(n, seed, golds=1, message_list=12):
    """Scored questions: relevant chunks score higher by 1.5 deviations, and every question has its own level."""
    generator = np.random.default_rng(seed)
    gold_labels = np.arange(message_list) < golds
    levels = generator.normal(size=n)
    return [
        (
            (generator.normal(size=message_list) + 1.5 * gold_labels + level).astype(
                np.float32
            ),
            gold_labels,
        )
        for level in levels
    ]


def losses(keep_rule, new_calibration):
    """Share of questions that lose a relevant chunk, mean share of relevant chunks lost."""
    is_lost = new_calibration.depth > keep_rule.limit
    lost_fractions = np.bincount(new_calibration.question, is_lost)
    return (lost_fractions > 0).mean(), (
        lost_fractions / np.bincount(new_calibration.question)
    ).mean()


@pytest.mark.parametrize("risk", [0.05, 0.1])
def test_on_average_over_calibration_sets_the_risk_is_kept_and_not_undershot(risk):
    new_calibration = calibrate_from_scores(drawn(4000, seed=99))
    lost_fractions = [
        losses(
            calibrate_from_scores(drawn(100, seed=sample_seed)).rule(risk),
            new_calibration,
        )[0]
        for sample_seed in range(60)
    ]
    # k = floor(risk * 101) questions of 101: the mean loss is k / 101, or a little less by ties.
    assert np.mean(lost_fractions) <= risk + 0.008
    assert np.mean(lost_fractions) >= 0.4 * risk, "keeps far more than it must"


@pytest.mark.parametrize("loss", ["any", "share"])
def test_with_confidence_few_calibration_sets_fail(loss):
    new_calibration = calibrate_from_scores(drawn(3000, seed=98, golds=3))
    which = 0 if loss == "any" else 1
    calibrations = [
        calibrate_from_scores(drawn(100, sample_seed, golds=3))
        for sample_seed in range(80)
    ]
    sure = [c.rule(0.1, loss=loss, confidence=0.9) for c in calibrations]
    plain_rules = [c.rule(0.1, loss=loss) for c in calibrations]
    fails = np.mean(
        [losses(keep_rule, new_calibration)[which] > 0.1 for keep_rule in sure]
    )
    assert fails <= 0.1 + 0.1
    assert (
        np.mean(
            [
                losses(keep_rule, new_calibration)[which] > 0.1
                for keep_rule in plain_rules
            ]
        )
        > fails
    )
    assert np.mean([each_rule.limit for each_rule in sure]) > np.mean(
        [each_rule.limit for each_rule in plain_rules]
    ), "confidence must cost something"


def test_risk_control_keeps_less_than_losing_none_of_several():
    calibration = calibrate_from_scores(drawn(300, seed=1, golds=4))
    new_calibration = calibrate_from_scores(drawn(3000, seed=97, golds=4))
    none_lost, some_lost = (
        calibration.rule(0.1, loss="any"),
        calibration.rule(0.1, loss="share"),
    )
    assert losses(none_lost, new_calibration)[0] < 0.14
    assert 0.06 < losses(some_lost, new_calibration)[1] < 0.13
    assert some_lost.limit < none_lost.limit


@given(st.integers(19, 60), st.sampled_from([0.05, 0.2, 0.5]))
def test_exactly_the_allowed_number_of_calibration_questions_is_lost(n, risk):
    scored = drawn(n, seed=n)
    keep_rule = calibrate_from_scores(scored).rule(risk)
    lost_fractions = sum(
        bool((~keep_rule.choose(list_scores, [""] * len(list_scores)) & y).any())
        for list_scores, y in scored
    )
    assert lost_fractions <= int(risk * (n + 1) + 1e-9) - 1


@pytest.mark.parametrize(
    ("risk", "confidence", "needed"),
    [(0.05, None, 19), (0.1, None, 9), (0.05, 0.95, 59)],
)
@pytest.mark.parametrize("loss", ["any", "share"])
def test_too_few_questions_are_an_error_that_names_how_many(
    risk, confidence, needed, loss
):
    assert min_question_count(risk, confidence) == needed
    calibrate_from_scores(drawn(needed, seed=0)).rule(
        risk, loss=loss, confidence=confidence
    )
    with pytest.raises(
        InputError,
        match=f"needs {needed} calibration questions .* here are {needed - 1}",
    ):
        calibrate_from_scores(drawn(needed - 1, seed=0)).rule(
            risk, loss=loss, confidence=confidence
        )
    with pytest.raises(InputError, match="here are 0"):
        calibrate_from_scores([]).rule(risk, loss=loss, confidence=confidence)


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


LENGTH = FunctionScorer(lambda asked_query, input_text: len(input_text))


def asked(n, gold_length):
    input_texts = ["x" * (i + 1) for i in range(10)]
    input_passages = tuple(Passage(t, f"p{i}") for i, t in enumerate(input_texts))
    return Question(f"question {n}", input_passages, frozenset({f"p{gold_length - 1}"}))


def test_calibrating_a_scorer_leaves_out_questions_without_gold():
    labelled_questions = [asked(n, 10 - n % 4) for n in range(40)]
    calibration = calibrate(
        LENGTH,
        [
            *labelled_questions,
            Question("none", labelled_questions[0].passages, frozenset()),
        ],
    )
    assert calibration.n == 40
    assert sorted(set(calibration.depth.tolist())) == [0, 0.1, 0.2, 0.3]
    assert calibration.rule(0.05).limit == 0.3


def test_the_denoiser_keeps_by_its_scorers_calibration_and_says_what_that_promises():
    class Calibrated:
        calibration = calibrate(LENGTH, [asked(n, 10 - n % 4) for n in range(40)])

        def score(self, asked_query, input_texts):
            return LENGTH.score(asked_query, input_texts)

    denoise_result = ENDDenoiser(Calibrated(), keep="calibrated", risk=0.05).denoise(
        "q", asked(0, 1).passages
    )
    assert [passage.id for passage in denoise_result.passages] == [
        "p6",
        "p7",
        "p8",
        "p9",
    ]
    assert "risk of 5 %" in denoise_result.dropped[0].reason
    promised = denoise_result.trace.events[0].effect.guarantee
    assert "at most 5 % of questions" in promised
    assert "40 calibration questions" in promised
    assert "void" in promised
    with pytest.raises(InputError, match="needs 99"):
        ENDDenoiser(Calibrated(), keep="calibrated", risk=0.01)
    with pytest.raises(InputError, match="max_keep"):
        ENDDenoiser(Calibrated(), keep="calibrated", max_keep=5)
    with pytest.raises(InputError, match="one of the two"):
        ENDDenoiser(Calibrated(), keep="calibrated", threshold=0.0)


def test_a_scorer_without_calibration_cannot_keep_by_it():
    with pytest.raises(InputError, match="calibrate"):
        ENDDenoiser(LENGTH, keep="calibrated")


def test_a_probe_takes_its_calibration_along(tmp_path):
    from denoise_core.end.probe import HiddenStateSpec
    from denoise_core.local.fingerprint import ModelFingerprint

    calibration = calibrate_from_scores(drawn(30, seed=5, golds=2))
    reading = HiddenStateSpec(ModelFingerprint("m", "bert", 3, "float32"), 1, "pair")
    Probe(np.ones(3), 0.0, reading, calibration=calibration).save(tmp_path / "p")
    loaded_calibration = Probe.load(tmp_path / "p").calibration
    assert loaded_calibration is not None
    for array_name, values in calibration.to_arrays().items():
        assert loaded_calibration.to_arrays()[array_name].tobytes() == values.tobytes()
    assert loaded_calibration.rule(0.1, confidence=0.9) == calibration.rule(
        0.1, confidence=0.9
    )
