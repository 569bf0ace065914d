"""The layer study: a probe at every layer, judged on questions it was not fitted on, and which layer to take.

Early Noise Dropping, section 2.2: recall of the relevant chunk rises over the early layers and then stays or
falls. A shallower layer costs less, so the shallowest that loses little against the best is taken.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from denoise_core.end.fit.readings import Capture
from denoise_core.end.fit.regression import PENALTIES, Fit, fit_line
from denoise_core.errors import InputError
from denoise_core.evaluate.metrics import SHARES, recall_table

MARGIN = 0.02  # of gold kept, that a cheaper layer may lose


@dataclass(frozen=True, slots=True, eq=False)
class LayerFit:
    """One layer's line, and how it ranked held-out questions.

    ``recall`` maps "top 1", "20 %", "30 %", "50 %", "60 %" to one value for each question with a relevant
    chunk: whether the best chunk is relevant, and the share of relevant chunks among the best 20 % ... 60 %.
    """

    layer: int
    line: Fit
    recall: Mapping[str, NDArray[np.float64]]

    @property
    def each(self) -> NDArray[np.float64]:
        """What layers are compared by: the mean over the five cuts, for each question."""
        return np.asarray(np.mean(list(self.recall.values()), axis=0), dtype=np.float64)

    @property
    def mean(self) -> float:
        return float(self.each.mean())

    @property
    def error(self) -> float:
        """Standard error of `mean`, over questions."""
        n = len(self.each)
        return float(self.each.std(ddof=1) / np.sqrt(n)) if n > 1 else 0.0

    def summary(self) -> dict[str, Any]:
        """The layer's row in a card: means over held-out questions."""
        return {
            "layer": self.layer,
            **{cut: float(values.mean()) for cut, values in self.recall.items()},
            "mean": self.mean,
            "s.e.": self.error,
            "C": self.line.C,
        }


def sweep(captured: Capture, *, penalties: Sequence[float] = PENALTIES, folds: int = 5) -> tuple[LayerFit, ...]:
    """A line for each captured layer, from shallow to deep; folds are the same questions at every layer."""
    out = []
    for layer in captured.layers:
        line = fit_line(
            captured.by_layer[layer], captured.labels, captured.groups.tolist(), penalties=penalties, folds=folds
        )
        out.append(LayerFit(layer, line, recall_table(line.held_out, captured.labels, captured.groups)))
    return tuple(out)


def choose_layer(fits: Sequence[LayerFit], share: float = 0.3, margin: float = MARGIN) -> LayerFit:
    """The shallowest layer that loses little against the best at ``share`` kept; a layer more costs as much again.

    The loss is paired by question: its mean plus its standard error lies within ``margin``. `recall_table`'s cut
    nearest to ``share`` is compared. Raises `InputError` when there is no layer.
    """
    if not fits:
        raise InputError("no layer was fitted: give at least one")
    cut = f"{100 * min(SHARES, key=lambda s: abs(s - share)):g} %"
    best = max(fits, key=lambda f: (float(f.recall[cut].mean()), -f.layer)).recall[cut]

    def loss(fit: LayerFit) -> float:
        lost = best - fit.recall[cut]
        return float(lost.mean() + (lost.std(ddof=1) / np.sqrt(len(lost)) if len(lost) > 1 else 0.0))

    return min((f for f in fits if loss(f) <= margin), key=lambda f: f.layer)
