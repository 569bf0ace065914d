"""A denoiser calibrated on some questions of a set, looked at on others that it has not seen."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from denoise_core.embedded import default_stack
from denoise_core.embedded.encoder import SentenceEncoder
from denoise_core.embedded.fitted import FittedDenoiser, percentile_interval
from denoise_core.end.calibration import GOLD_TARGETS, required_text_fraction
from denoise_core.end.selection import DEFAULT_RISK
from denoise_core.evaluate.metrics import bootstrap_interval
from denoise_core.question import Question
from denoise_core.scorers.bm25 import BM25Scorer
from denoise_core.scorers.stack import collect_signals
from denoise_lab.experiments import Bench

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Held:
    """For each question the gold lost and the text kept by ``keep="auto"`` at the default risk; and every
    passage's score by name, its label, its size and its question."""

    lost: Floats
    text: Floats
    scores: dict[str, NDArray[np.float32]]
    labels: NDArray[np.bool_]
    sizes: Floats
    groups: NDArray[np.intp]

    def needed(self, name: str, share: float) -> Floats:
        """The text needed by a scorer to keep ``share`` of the gold: as it is, and of samples."""
        return required_text_fraction(
            self.scores[name], self.labels, self.sizes, self.groups, fraction=share
        )


def held_out(
    fit: FittedDenoiser, questions: Sequence[Question], read: SentenceEncoder
) -> Held:
    rule = fit.scale.rule(DEFAULT_RISK)
    lost, text = [], []
    columns: list[tuple[NDArray[np.float32], ...]] = []
    for q in questions:
        texts = [p.text_with_header for p in q.passages]
        signals = collect_signals([read, BM25Scorer()], q.text, texts)
        own = fit.stack.combine(signals)
        text_lengths = [len(passage_text) for passage_text in texts]
        sizes = np.array(text_lengths, dtype=np.float64)
        gold = np.array(q.labels)
        kept = rule.choose(own, texts)
        gold_kept = kept[gold].mean()
        lost.append(1 - gold_kept)
        kept_size = sizes[kept].sum()
        text.append(kept_size / sizes.sum())
        default_scores = default_stack().combine(signals[:, :-1])
        columns.append((own, default_scores, signals[:, 0]))
    scores = zip(
        ("fitted", "default", "cosine"),
        map(np.concatenate, zip(*columns, strict=True)),
        strict=True,
    )
    return Held(
        np.array(lost),
        np.array(text),
        dict(scores),
        np.array([label for q in questions for label in q.labels]),
        np.array(
            [float(len(p.text_with_header)) for q in questions for p in q.passages]
        ),
        np.repeat(np.arange(len(questions)), [len(q.passages) for q in questions]),
    )


def middle(values: Floats, share: float = 0.9) -> tuple[float, float]:
    """The interval of the mean in which ``share`` of samples of the questions lie."""
    rng = np.random.default_rng(0)
    picks = rng.integers(0, len(values), (2000, len(values)))
    sample_means = values[picks].mean(1)
    low_share = (1 - share) / 2
    high_share = (1 + share) / 2
    low, high = np.quantile(sample_means, [low_share, high_share])
    return float(low), float(high)


def on_held_out(
    bench: Bench,
    name: str,
    fit: FittedDenoiser,
    rest: Sequence[Question],
    read: SentenceEncoder,
) -> Held:
    """What was calibrated on some of a set's questions, as rows about others of them."""
    held = held_out(fit, rest, read)
    lost, (low, high) = float(held.lost.mean()), middle(held.lost)
    bench.row(
        f"{name}: gold lost at a stated risk of .1", lost, "share", interval=(low, high)
    )
    holds = float(lost <= 0.12 or low <= DEFAULT_RISK <= high)
    bench.row(
        f"{name}: lost at most .12, or .1 in its 90 % interval",
        holds,
        "1 or 0",
        at_least=1,
    )
    bench.row(
        f"{name}: text kept",
        float(held.text.mean()),
        "share",
        interval=bootstrap_interval(held.text),
    )
    for target in GOLD_TARGETS:
        for scorer in held.scores:
            value, low, high = percentile_interval(held.needed(scorer, target))
            of = f"{name}: text for {target:g} of the gold, {scorer}"
            bench.row(of, value, "share", interval=(low, high))
    return held
