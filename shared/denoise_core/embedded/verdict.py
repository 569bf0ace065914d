"""A fit judged in words: gold kept on questions that it had not seen, against cosine, with a paired interval.

The folds' fits share most of their questions, so that their gains vary together, and a bootstrap over questions,
which takes them for independent, is too sure. Its interval is widened as Nadeau and Bengio correct the variance
for folds (Inference for the Generalization Error, Machine Learning 52, 2003): times 1 + folds * n_test / n_train.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from math import sqrt
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from denoise_core.evaluate.metrics import bootstrap, recall_at

Word = Literal["better", "no difference found", "worse"]
NO_QUESTION = "no question"  # the fit again, each passage read under one and the same question
SHARES = tuple(n / 10 for n in range(1, 11))  # of the passages, at which curves are drawn


@dataclass(frozen=True, slots=True)
class Verdict:
    """``word`` says how the fit compares with cosine at ``share`` kept, ``gain`` by how much, with 95 % interval.

    ``kept`` is the mean share of gold kept by name: "fitted", "default", "cosine", "BM25", and controls;
    ``curves`` the same at each of `SHARES`; ``over`` what the fit keeps more than each, paired, with its 95 %
    interval.
    """

    word: Word
    gain: float
    interval: tuple[float, float]
    share: float
    questions: int
    kept: Mapping[str, float]
    curves: Mapping[str, tuple[float, ...]] = field(default_factory=dict)
    over: Mapping[str, tuple[float, float, float]] = field(default_factory=dict)

    @property
    def warnings(self) -> tuple[str, ...]:
        """What speaks against using the fit: a control without the question, or the default, that is as good."""
        out = []
        for name, why in _AS_GOOD.items():
            gain, low, high = self.over.get(name, (1.0, 1.0, 1.0))
            if low <= 0:
                out.append(f"{why} ({gain:+.3f}, 95 % {low:+.3f} to {high:+.3f})")
        return tuple(out)

    def __str__(self) -> str:
        said = {
            "better": "Better than cosine",
            "worse": "Worse than cosine",
            "no difference found": "No difference from cosine found",
        }[self.word]
        low, high = self.interval
        return (
            f"{said}: with {self.share:.0%} of the passages kept, relevant ones kept {self.kept['fitted']:.3f} "
            f"against {self.kept['cosine']:.3f}, a gain of {self.gain:+.3f} (95 % {low:+.3f} to {high:+.3f}) on "
            f"{self.questions} questions, each scored by a fit that had not seen it."
        )

    def table(self) -> str:
        rows = "\n".join(f"| {name} | {kept:.3f} |" for name, kept in self.kept.items())
        return f"| scorer, {self.share:.0%} kept | relevant passages kept |\n|---|---|\n{rows}"

    def to_dict(self) -> dict[str, Any]:
        return {
            "word": self.word,
            "gain": self.gain,
            "interval": list(self.interval),
            "share": self.share,
            "questions": self.questions,
            "kept": dict(self.kept),
            "over": {name: list(values) for name, values in self.over.items()},
            "warnings": list(self.warnings),
            "curves": {"shares": list(SHARES), **{name: list(values) for name, values in self.curves.items()}},
        }


def judged(
    fitted: NDArray[np.float32],
    others: Mapping[str, NDArray[np.float32]],
    labels: NDArray[np.bool_],
    groups: NDArray[np.intp],
    share: float,
    *,
    folds: int,
) -> Verdict:
    """The verdict of scores ``(n,)`` that fits of ``folds`` gave to questions they had not seen.

    ``others`` has "cosine". The interval is the bootstrap's, widened for the questions that the folds' fits share.
    """
    scores = {"fitted": fitted, **others}
    kept = {name: recall_at(s, labels, groups, share) for name, s in scores.items()}
    gain = kept["fitted"] - kept["cosine"]
    low, high = _interval(gain, folds)
    over = {
        name: (float((kept["fitted"] - values).mean()), *_interval(kept["fitted"] - values, folds))
        for name, values in kept.items()
        if name != "fitted"
    }
    word: Word = "better" if low > 0 else "worse" if high < 0 else "no difference found"
    means = {name: float(values.mean()) for name, values in kept.items()}
    curves = {
        name: tuple(float(recall_at(s, labels, groups, at).mean()) for at in SHARES) for name, s in scores.items()
    }
    return Verdict(word, float(gain.mean()), (low, high), share, len(gain), means, curves, over)


def _interval(gain: NDArray[np.floating[Any]], folds: int) -> tuple[float, float]:
    mean = float(gain.mean())
    wider = sqrt(1 + folds / (folds - 1))
    low, high = (max(-1.0, min(1.0, mean + wider * (end - mean))) for end in bootstrap(gain))
    return low, high


_AS_GOOD = {
    NO_QUESTION: (
        "a fit that never saw the questions is not told from this one: relevant passages can be told by their "
        "style alone, so the labels may say little about your questions"
    ),
    "default": "the default, which needs no fit, is not told from this one",
}
