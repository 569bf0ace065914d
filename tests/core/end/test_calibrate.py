"""A scorer's calibration: from which questions, for which risks, and where it is stored."""

import numpy as np
import pytest
from growing_texts import passages_of

from denoise_core import InputError
from denoise_core.end.calibration import (
    calibrate_scorer,
    min_question_count,
    promised_risks,
)
from denoise_core.end.denoiser import ENDDenoiser
from denoise_core.errors import BadScores
from denoise_core.question import Question
from denoise_core.testing import FunctionScorer


def count_characters(query, text):
    return len(text)


LENGTH = FunctionScorer(count_characters)


def asked(n, gold_length):
    passages = passages_of("x" * length for length in range(1, 11))
    gold = str(gold_length - 1)
    return Question(f"question {n}", tuple(passages), frozenset({gold}))


QUESTIONS = [asked(n, 10 - n % 4) for n in range(40)]


@pytest.mark.parametrize(("risk", "needed"), [(0.05, 19), (0.1, 9), (0.2, 4)])
def test_a_risk_is_promised_from_so_many_questions_on(risk, needed):
    assert min_question_count(risk) == needed
    assert risk in promised_risks(needed)
    assert risk not in promised_risks(max(4, needed - 1)) or needed == 4
    with pytest.raises(InputError, match=f"needs {needed} .* here are {needed - 1}"):
        promised_risks(needed - 1, risk)


@pytest.mark.parametrize("risk", [0, 1, -0.1])
def test_a_risk_outside_its_range_is_refused(risk):
    with pytest.raises(InputError, match="between 0 and 1"):
        promised_risks(100, risk)


def test_questions_without_gold_are_left_out():
    without_gold = Question("none", QUESTIONS[0].passages, frozenset())
    scale = calibrate_scorer(LENGTH, [*QUESTIONS, without_gold])
    assert scale.questions == 40
    assert scale.margins[0.05] == 3, "the relevant text is at most 3 characters shorter"


def test_a_scorer_that_gives_nan_is_not_calibrated():
    with pytest.raises(BadScores, match="NaN"):
        calibrate_scorer(FunctionScorer(lambda query, text: np.nan), QUESTIONS)


def test_the_denoiser_keeps_by_its_scorers_calibration_and_says_what_that_promises():
    class Calibrated(FunctionScorer):
        scale = calibrate_scorer(LENGTH, QUESTIONS)

    scorer = Calibrated(count_characters)
    denoiser = ENDDenoiser(scorer, keep="auto", risk=0.05)
    result = denoiser.denoise("q", QUESTIONS[0].passages)
    assert [passage.id for passage in result.passages] == ["6", "7", "8", "9"]
    promised = result.trace.events[0].effect.guarantee
    assert "at most 5 %" in promised
    assert "40 calibration questions" in promised
    with pytest.raises(InputError, match=r"calibrated for 0\.05, 0\.1, 0\.2"):
        ENDDenoiser(scorer, keep="auto", risk=0.01)
