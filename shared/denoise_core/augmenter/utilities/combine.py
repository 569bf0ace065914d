"""Several utilities as one, by a learned linear function (paper, section 2.4, footnote 2)."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from denoise_core._optional import require
from denoise_core.augmenter.memory import Reason, Verdict, WorkingMemory
from denoise_core.augmenter.utilities.labelled import Labelled, assess_all
from denoise_core.augmenter.utility import Utility
from denoise_core.errors import InputError
from denoise_core.protocols import LLM
from denoise_core.running.effects import Flow


@dataclass(frozen=True, slots=True)
class Weights:
    """``sigmoid(sum of weight * (score - mean) + bias)``; plain numbers, one per member."""

    members: tuple[str, ...]
    weight: tuple[float, ...]
    mean: tuple[float, ...]
    bias: float

    def probability(self, scores: Mapping[str, float | None]) -> float:
        """A member that could not say (None) counts as its mean: it moves nothing."""
        z = self.bias
        for name, weight, mean in zip(self.members, self.weight, self.mean, strict=True):
            score = scores[name]
            z += weight * ((mean if score is None else score) - mean)
        return 1 / (1 + math.exp(-max(-500.0, min(500.0, z))))

    def as_json(self) -> dict[str, Any]:
        """Plain JSON, which ``from_json`` reads."""
        return {"members": [*self.members], "weight": [*self.weight], "mean": [*self.mean], "bias": self.bias}

    @staticmethod
    def from_json(data: Mapping[str, Any]) -> Weights:
        """The weights that ``as_json`` wrote; `InputError` for anything else."""
        try:
            numbers = [tuple(map(float, data[key])) for key in ("weight", "mean")]
            found = Weights(tuple(map(str, data["members"])), numbers[0], numbers[1], float(data["bias"]))
        except (KeyError, TypeError, ValueError) as error:
            raise InputError(
                f"weights: expected members, weight, mean and bias as in as_json(): {error}"
            ) from error
        if not len(found.members) == len(found.weight) == len(found.mean):
            raise InputError("weights: members, weight and mean must have the same length")
        return found


class LinearCombination:
    """Passes when the combined probability reaches ``threshold`` and no member says "unknown" with ``veto``
    (LLM-Augmenter, section 2.4, footnote 2).

    ``members`` maps names to utilities; they are asked in this order. The verdict is unknown when every
    member's is, or (``veto``) when any is.
    """

    def __init__(
        self, members: Mapping[str, Utility], weights: Weights, *, threshold: float = 0.5, veto: bool = False
    ) -> None:
        if set(members) != set(weights.members):
            raise InputError(f"the weights are for {sorted(weights.members)}, the members are {sorted(members)}")
        self.members = dict(members)
        self.weights = weights
        self.threshold = threshold
        self.veto = veto

    def assess(self, memory: WorkingMemory, candidate: str) -> Flow[Verdict]:
        verdicts: dict[str, Verdict] = {}
        for name, utility in self.members.items():
            verdicts[name] = yield from utility.assess(memory, candidate)
        unknown = [v for v in verdicts.values() if v.outcome == "unknown"]
        reasons = tuple(r for v in verdicts.values() for r in v.reasons)
        if len(unknown) == len(verdicts) or (self.veto and unknown):
            return Verdict("unknown", 0.0, reasons)
        score = self.weights.probability(
            {n: None if v.outcome == "unknown" else v.score for n, v in verdicts.items()}
        )
        if score >= self.threshold:
            return Verdict("pass", score)
        return Verdict("fail", score, reasons or (Reason(f"support is {score:.2f}, below {self.threshold:g}"),))


def fit_weights(
    members: Mapping[str, Utility], labelled: Sequence[Labelled], *, llm: LLM | None = None, C: float = 1.0
) -> Weights:
    """Logistic regression of the labels on the members' scores, classes balanced, penalty ``C``.

    Raises `InputError` unless there are good and bad examples.
    """
    import numpy as np

    linear = require("sklearn.linear_model", extra="end")
    good = np.array([e.good for e in labelled], dtype=bool)
    if not len(labelled) or good.all() or not good.any():
        raise InputError("labelled: expected examples of both kinds, good and bad")
    columns = []
    for utility in members.values():
        verdicts = assess_all(utility, labelled, llm=llm)
        known = [v.score for v in verdicts if v.outcome != "unknown"]
        middle = float(np.mean(known)) if known else 0.0
        columns.append([middle if v.outcome == "unknown" else v.score for v in verdicts])
    x = np.array(columns, dtype=np.float32).T
    mean, spread = x.mean(0), np.maximum(x.std(0), 1e-3)
    line = linear.LogisticRegression(C=C, class_weight="balanced").fit((x - mean) / spread, good)
    raw = line.coef_[0] / spread
    return Weights(tuple(members), tuple(map(float, raw)), tuple(map(float, mean)), float(line.intercept_[0]))
