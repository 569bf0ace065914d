"""From a fit to the probability that the candidate answers the question, and where to draw the line."""

from __future__ import annotations

import json
import math
from dataclasses import asdict, dataclass
from pathlib import Path

LOWEST = -30.0  # logarithms below this count as this, that of a candidate that stands nowhere too


@dataclass(frozen=True, slots=True)
class Calibration:
    """Logistic in a fit's ``own`` and ``holds``; right and wrong candidates counted as equally likely before.

    ``threshold`` is the probability from which a candidate is said to answer; ``floor`` the probability of
    holding an answer below which a window is said to hold none. All were chosen on the development part.
    """

    own: float = 0.4
    holds: float = 0.4
    bias: float = 2.0
    threshold: float = 0.5
    floor: float = 0.35

    def probability(self, own: float, holds: float) -> float:
        """In [0, 1]; ``own`` and ``holds`` are natural logarithms."""
        x = self.bias + self.own * max(own, LOWEST) + self.holds * max(holds, LOWEST)
        return 1 / (1 + math.exp(-x)) if x > -700 else 0.0

    def save(self, path: Path) -> None:
        """Write as JSON."""
        path.write_text(json.dumps(asdict(self), indent=1) + "\n", "utf-8")

    @staticmethod
    def load(path: Path) -> Calibration:
        """Read what `save` wrote."""
        return Calibration(**json.loads(path.read_text("utf-8")))
