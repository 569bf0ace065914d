"""The loop's judges: any `denoise_core.support.judging.Judge`, held to question, evidence and candidate.

`Groundedness` makes a verdict of what a judge says of each claim (LLM-Augmenter, section 2.4); `default_judge` is
the one where none is given; `calibrate` and `fit_threshold` measure and set one on labelled examples.
"""

from denoise_core.augmenter.utilities.calibrate import (
    Calibration,
    Labelled,
    Threshold,
    calibrate,
    fit_threshold,
)
from denoise_core.augmenter.utilities.default import default_judge
from denoise_core.augmenter.utilities.groundedness import Groundedness, as_utility

__all__ = [
    "Calibration",
    "Groundedness",
    "Labelled",
    "Threshold",
    "as_utility",
    "calibrate",
    "default_judge",
    "fit_threshold",
]
