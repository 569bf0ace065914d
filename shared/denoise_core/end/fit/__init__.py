"""How a probe comes to be: labelled questions, readings, a sweep over layers, controls, calibration.

Entered at `fit_probe`, which takes labelled questions; `fit_states` takes states that are read already.
"""

from denoise_core.end.fit.probe import ProbeFit, fit_probe, fit_states

__all__ = ["ProbeFit", "fit_probe", "fit_states"]
