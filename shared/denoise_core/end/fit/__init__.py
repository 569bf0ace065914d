"""How a probe comes to be: `fit_probe` takes labelled questions; `data` makes some, `stack` weighs signals."""

from denoise_core.end.fit.probe import ProbeFit, fit_probe

__all__ = ["ProbeFit", "fit_probe"]
