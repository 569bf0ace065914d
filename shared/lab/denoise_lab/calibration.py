"""How good is a judge, and where should its threshold be? Both from labelled examples; no threshold transfers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from denoise_core.augmenter.memory import WorkingMemory
from denoise_core.augmenter.utility import Utility, as_utility
from denoise_core.errors import InputError
from denoise_core.protocols import LLM
from denoise_core.running.flow import run
from denoise_core.support.judging import Judge
from denoise_core.types import Passage


@dataclass(frozen=True, slots=True)
class Labelled:
    """A candidate for a question over some evidence, and whether it is good."""

    question: str
    evidence: tuple[str, ...]
    candidate: str
    good: bool

    @property
    def memory(self) -> WorkingMemory:
        """Question and evidence as a judge is given them; passages are named ``e1``, ``e2`` and so on."""
        return WorkingMemory(self.question, tuple(Passage(t, f"e{n}") for n, t in enumerate(self.evidence, 1)))


@dataclass(frozen=True, slots=True)
class Threshold:
    """``value`` passes ``good`` of the good examples and ``bad`` of the bad ones (shares)."""

    value: float
    good: float
    bad: float


@dataclass(frozen=True, slots=True)
class Calibration:
    """What a utility does on labelled examples.

    ``auc`` is the chance that a good example scores above a bad one (ties count half). ``passes_good`` and
    ``passes_bad`` are shares that pass, ``unknown`` the share that could not be judged. ``warnings`` name what
    makes the judge useless, in words; no warning does not make it good.
    """

    auc: float
    passes_good: float
    passes_bad: float
    unknown: float
    warnings: tuple[str, ...] = ()


def fit_threshold(scores: Sequence[float], good: Sequence[bool], *, most_bad: float | None = None) -> Threshold:
    """The threshold with the best mean of good kept and bad rejected; or, with ``most_bad``, the lowest one
    that passes no more than this share of the bad.

    The threshold lies between two scores, never on one. Raises `InputError` unless there are both kinds.
    """
    values, labels = _checked(scores, good)
    ordered = np.unique(values)
    middles = (ordered[1:] + ordered[:-1]) / 2
    found = [
        Threshold(float(t), float((values[labels] >= t).mean()), float((values[~labels] >= t).mean()))
        for t in (float(ordered[0]), *middles, float(ordered[-1]) + 1e-6)
    ]
    if most_bad is None:
        return max(found, key=lambda t: t.good - t.bad)
    return next(t for t in found if t.bad <= most_bad or t is found[-1])


def calibrate(judge: Judge | Utility, labelled: Sequence[Labelled], *, llm: LLM | None = None) -> Calibration:
    """Judge every example and report. Raises `InputError` unless there are good and bad examples."""
    utility = as_utility(judge)
    verdicts = [run(utility.assess(e.memory, e.candidate), llm=llm)[0] for e in labelled]
    labels = [e.good for e in labelled]
    auc = area_under_curve([v.score for v in verdicts], labels)
    passes = np.array([v.passed for v in verdicts])
    truth = np.array(labels, dtype=bool)
    unknown = sum(v.outcome == "unknown" for v in verdicts) / len(verdicts)
    good, bad = float(passes[truth].mean()), float(passes[~truth].mean())
    return Calibration(auc, good, bad, unknown, tuple(_warnings(auc, good, bad, unknown)))


def area_under_curve(scores: Sequence[float], good: Sequence[bool]) -> float:
    """Mann-Whitney: the chance that a good one scores above a bad one; ties count half."""
    values, labels = _checked(scores, good)
    _, inverse, counts = np.unique(values, return_inverse=True, return_counts=True)
    ranks = (np.cumsum(counts) - (counts - 1) / 2)[inverse]
    positive = int(labels.sum())
    negative = len(labels) - positive
    return float((ranks[labels].sum() - positive * (positive + 1) / 2) / (positive * negative))


def _warnings(auc: float, good: float, bad: float, unknown: float) -> list[str]:
    found = []
    if bad >= 0.95:
        found.append(f"says yes to nearly everything: {bad:.0%} of the bad examples pass")
    if good <= 0.05:
        found.append(f"says no to nearly everything: {good:.0%} of the good examples pass")
    if auc < 0.55:
        found.append(f"tells good from bad no better than chance (AUC {auc:.2f})")
    if unknown > 0.2:
        found.append(f"could not judge {unknown:.0%} of the examples")
    return found


def _checked(scores: Sequence[float], good: Sequence[bool]) -> tuple[np.ndarray, np.ndarray]:
    values, labels = np.asarray(scores, dtype=np.float64), np.asarray(good, dtype=bool)
    if values.shape != labels.shape or values.ndim != 1:
        raise InputError(f"expected as many scores as labels, got {values.shape} and {labels.shape}")
    if not labels.any() or labels.all():
        raise InputError("expected examples of both kinds, good and bad")
    if not np.isfinite(values).all():
        raise InputError("scores: expected finite numbers")
    return values, labels
