"""How a probe comes to be: labelled questions, readings, a sweep over layers, calibration.

Entered at `fit_probe`, which takes labelled questions; `stack` weighs signals.
"""

from denoise_core.end.fit.probe import ProbeFit, fit_probe

__all__ = ["ProbeFit", "fit_probe"]
