"""Utilities: what a candidate is held against, and how (paper, section 2.4).

`Groundedness` is the default and needs no model. `KnowledgeOverlap` is the paper's. `SelfCriticism` asks an LLM.
`FunctionUtility` takes any function, such as `Similarity` (the embedded encoder) or those of
`denoise_core.support.models`: NLI, cross-encoder, token classifiers, typed yes/no decisions.
`LinearCombination` weighs several; `calibrate` and `fit_threshold` measure and set them on labelled examples.
"""

from denoise_core.augmenter.utilities.calibrate import Calibration, Threshold, calibrate, fit_threshold
from denoise_core.augmenter.utilities.combine import LinearCombination, Weights, fit_weights
from denoise_core.augmenter.utilities.criticism import SelfCriticism
from denoise_core.augmenter.utilities.function import FunctionUtility
from denoise_core.augmenter.utilities.groundedness import Groundedness
from denoise_core.augmenter.utilities.labelled import Labelled
from denoise_core.augmenter.utilities.overlap import KnowledgeOverlap, knowledge_f1
from denoise_core.augmenter.utilities.similarity import Similarity

__all__ = [
    "Calibration",
    "FunctionUtility",
    "Groundedness",
    "KnowledgeOverlap",
    "Labelled",
    "LinearCombination",
    "SelfCriticism",
    "Similarity",
    "Threshold",
    "Weights",
    "calibrate",
    "fit_threshold",
    "fit_weights",
    "knowledge_f1",
]
