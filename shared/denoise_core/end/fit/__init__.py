"""Fit a probe on labelled questions.

`fit_probe` takes questions and gives a `ProbeFit`; read `probe` first. `data` makes labelled
questions from documents, `states` reads the hidden states, `recall` measures layers and
scorers, `stack` fits the weights of several signals.
"""

from denoise_core.end.fit.probe import ProbeFit, fit_probe

__all__ = ["ProbeFit", "fit_probe"]
