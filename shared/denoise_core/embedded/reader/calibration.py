"""From what the reader says to the probability that people would call a claim supported, and where to draw lines.

Two logistic functions, of answers found as spans and of claims read against their evidence, both fitted and given
their operating points on questions and documents that nothing was trained on (`denoise_lab.span_reader`).
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Literal

Point = Literal["lenient", "even", "strict"]
POINTS: tuple[Point, ...] = ("lenient", "even", "strict")


@dataclass(frozen=True, slots=True)
class Logistic:
    """``weights`` by feature and a ``bias``; right and wrong counted as equally likely before.

    ``points`` are the probabilities from which a claim is supported at `POINTS`, where at most .3, .2 and .1 of
    the wrong ones passed; below ``refused`` it is said not to be, between the two nothing is said.
    """

    weights: Mapping[str, float] = field(default_factory=dict)
    bias: float = 0.0
    points: Mapping[str, float] = field(default_factory=lambda: dict.fromkeys(POINTS, 0.5))
    refused: float = 0.0

    def probability(self, features: Mapping[str, float]) -> float:
        """In [0, 1], of features with the names of ``weights``."""
        x = self.bias + sum(w * features[name] for name, w in self.weights.items())
        return 1 / (1 + math.exp(-min(max(x, -60.0), 60.0)))

    def decide(self, probability: float, point: str) -> bool | None:
        """True from the operating point on, False below ``refused``, None between."""
        if probability >= self.points[point]:
            return True
        return False if probability < self.refused else None


@dataclass(frozen=True, slots=True)
class Calibration:
    """``answers`` of `Fit.features`, ``claims`` of `claims.features`; ``floor`` is the probability of holding an
    answer below which a window is said to hold none."""

    answers: Logistic = field(default_factory=Logistic)
    claims: Logistic = field(default_factory=Logistic)
    floor: float = 0.2

    def save(self, path: Path) -> None:
        """Write as JSON."""
        path.write_text(json.dumps(asdict(self), indent=1) + "\n", "utf-8")

    @staticmethod
    def read(text: str) -> Calibration:
        """What `save` wrote, as text."""
        data: dict[str, Any] = json.loads(text)
        return Calibration(Logistic(**data["answers"]), Logistic(**data["claims"]), data["floor"])
