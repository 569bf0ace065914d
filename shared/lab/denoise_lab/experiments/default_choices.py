"""What the benchmarks of the default share: the sets' reported halves, and every scorer's choice on them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from denoise_core.embedded import default_scale, default_stack
from denoise_core.embedded.encoder import SentenceEncoder
from denoise_core.end.selection import DEFAULT_RISK
from denoise_core.question import Question
from denoise_core.scorers.bm25 import BM25Scorer
from denoise_lab.experiments import Options
from denoise_lab.experiments.real_sets import quick_questions
from denoise_lab.split import NQ, POISONED, SETS, halves

LIMIT = 80  # questions of each half of a set
Mask = NDArray[np.bool_]


@dataclass(frozen=True)
class Scored:
    """One question with its passages' scores by scorer."""

    question: Question
    by: Mapping[str, NDArray[np.float32]]

    @property
    def labels(self) -> Mask:
        return np.array(self.question.labels)

    @property
    def lengths(self) -> NDArray[np.float64]:
        return np.array(
            [len(p.text_with_header) for p in self.question.passages], dtype=np.float64
        )

    def gold(self, kept: Mask) -> float:
        return float(kept[self.labels].mean())

    def share(self, kept: Mask) -> float:
        """Of the text."""
        kept_length = self.lengths[kept].sum()
        whole_length = max(1.0, self.lengths.sum())
        return float(kept_length / whole_length)

    def auto(self, risk: float = DEFAULT_RISK) -> Mask:
        """What the default keeps."""
        return (
            default_scale()
            .rule(risk)
            .choose(self.by["default"], [""] * len(self.lengths))
        )

    def best(self, scorer: str, n: int) -> Mask:
        kept = np.zeros(len(self.lengths), dtype=np.bool_)
        ranking = np.argsort(-self.by[scorer], kind="stable")
        kept[ranking[:n]] = True
        return kept


def reported(
    options: Options,
    names: Sequence[str] = (*SETS, *POISONED),
    fitting: bool = False,
    limit: int = LIMIT,
) -> dict[str, list[Question]]:
    """The sets' halves that nothing was fitted on (or the others), at most ``limit`` questions each."""
    if options.quick:
        return {NQ: quick_questions()}
    if options.data is None:
        raise SystemExit("this benchmark needs real data: pass --data FOLDER")
    folder = Path(options.data)
    sets = {}
    for name in names:
        fitting_half, reported_half = halves(folder, name, limit)
        sets[name] = reported_half
        if fitting:
            sets[name] = fitting_half
    return sets


def scored(questions: Sequence[Question], encoder: SentenceEncoder) -> list[Scored]:
    out = []
    for q in questions:
        texts = [p.text_with_header for p in q.passages]
        signals = encoder.signals(q.text, texts)
        by = {
            "default": default_stack().combine(signals),
            "cosine": signals[:, 0],
            "BM25": BM25Scorer().score(q.text, texts),
            "first": -np.arange(len(texts), dtype=np.float32),
        }
        out.append(Scored(q, by))
    return out


def over_share(
    sets: dict[str, list[Scored]], mix: Sequence[str], text: float
) -> tuple[float, tuple[float, float], float]:
    """Gain in mean gold over one share for all sets, its interval over questions within sets, and the share."""

    def at(share: float) -> Callable[[Scored], Mask]:
        return lambda s: s.best("default", int(np.ceil(share * len(s.lengths) - 1e-9)))

    def spends(share: float) -> float:
        return float(
            np.mean([np.mean([s.share(at(share)(s)) for s in sets[n]]) for n in mix])
        )

    share = min(
        np.linspace(0.05, 0.99, 189), key=lambda x: abs(spends(float(x)) - text)
    )
    each = [
        np.array([s.gold(s.auto()) - s.gold(at(float(share))(s)) for s in sets[n]])
        for n in mix
    ]
    rng = np.random.default_rng(0)
    drawn = [
        np.mean([v[rng.integers(0, len(v), len(v))].mean() for v in each])
        for _ in range(2000)
    ]
    low, high = np.quantile(drawn, [0.025, 0.975])
    return (
        float(np.mean([v.mean() for v in each])),
        (float(low), float(high)),
        float(share),
    )
