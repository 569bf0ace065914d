"""Fitting the calibration on the development part."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from denoise_core._optional import require
from denoise_core.embedded.reader.calibration import LOWEST, Calibration
from denoise_core.embedded.reader.fit.measure import Figures

PASSED = 0.88  # share of right candidates that the threshold is to pass
ANSWERED = 0.9  # share of questions with evidence that the floor is to leave an answer to
LINES = np.linspace(0.02, 0.98, 97)


def calibrate(figures: Sequence[Figures]) -> Calibration:
    """A logistic in own and holds over all right and wrong candidates of the figures, controls and sentences
    left out; the threshold passes `PASSED` of the right ones, the floor answers `ANSWERED` of the questions."""
    cases = [c for f in figures for c in f.cases if "control" not in c.kind and "sentence" not in c.kind]
    x = np.array([[max(c.fit.own, LOWEST), max(c.fit.holds, LOWEST)] for c in cases])
    y = np.array([c.kind == "right" for c in cases])
    model = require("sklearn.linear_model", extra="end").LogisticRegression(class_weight="balanced").fit(x, y)
    own, holds = (float(v) for v in model.coef_[0])
    found = Calibration(own, holds, float(model.intercept_[0]))
    right = np.array([found.probability(c.fit.own, c.fit.holds) for c in cases if c.kind == "right"])
    held = np.array([v for f in figures for v in f.rows.get("gold, holds", [])])
    return Calibration(
        round(own, 4),
        round(holds, 4),
        round(found.bias, 4),
        float(max(t for t in (0.0, *LINES) if (right >= t).mean() >= PASSED)),
        float(max(t for t in (0.0, *LINES) if (held >= t).mean() >= ANSWERED)),
    )
