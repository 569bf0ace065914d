"""Fit a probe on labelled questions.

`fit_probe` takes questions and gives a `ProbeFit`; read `probe` first. `heads` fits on
attention. `data` makes labelled questions from documents, `states` reads the hidden states,
`recall` measures layers and scorers, `stack` fits the weights of several signals.
"""

from denoise_core.end.fit.heads import HeadFit, fit_heads
from denoise_core.end.fit.probe import ProbeFit, fit_probe

__all__ = ["HeadFit", "ProbeFit", "fit_heads", "fit_probe"]
