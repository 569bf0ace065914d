"""Measure a denoiser that was calibrated on some questions of a set, on others that it has not seen."""

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
from denoise_lab.experiments import FigureReport
from denoise_lab.experiments.default_choices import ScoredQuestion

Floats = NDArray[np.float64]
RESAMPLES = 2000
LOST_LIMIT = 0.12  # gold that may be lost at a stated risk of .1
SCORERS = ("fitted", "default", "cosine")


@dataclass(frozen=True)
class HeldOutResult:
    """What a denoiser does on questions that it has not seen.

    Attributes:
        scored_questions: The questions, scored by the fitted denoiser, the default and cosine.
        gold_lost: Share of the gold that ``keep="auto"`` loses at the default risk; shape
            ``(questions,)``.
        text_kept: Share of the text that it keeps; shape ``(questions,)``.
    """

    scored_questions: Sequence[ScoredQuestion]
    gold_lost: Floats
    text_kept: Floats

    def required_text(self, scorer_name: str, gold_share: float) -> Floats:
        """The share of the text that a scorer needs for ``gold_share``: the estimate, then its resamples."""
        scored_questions = self.scored_questions
        passage_counts = [
            len(scored_question.labels) for scored_question in scored_questions
        ]
        return required_text_fraction(
            np.concatenate(
                [
                    scored_question.scores[scorer_name]
                    for scored_question in scored_questions
                ]
            ),
            np.concatenate(
                [scored_question.labels for scored_question in scored_questions]
            ),
            np.concatenate(
                [scored_question.text_lengths for scored_question in scored_questions]
            ),
            np.repeat(np.arange(len(scored_questions)), passage_counts),
            fraction=gold_share,
        )


def measure_held_out(
    fitted_denoiser: FittedDenoiser,
    questions: Sequence[Question],
    encoder: SentenceEncoder,
) -> HeldOutResult:
    """Score the questions' passages, and keep what the fitted denoiser keeps of them."""
    rule = fitted_denoiser.scale.rule(DEFAULT_RISK)
    scored_questions = []
    gold_lost = []
    text_kept = []
    for question in questions:
        texts = [passage.text_with_header for passage in question.passages]
        signals = collect_signals([encoder, BM25Scorer()], question.text, texts)
        # The default does not use BM25, the last signal.
        default_scores = default_stack().combine(signals[:, :-1])
        scores = {
            "fitted": fitted_denoiser.stack.combine(signals),
            "default": default_scores,
            "cosine": signals[:, 0],
        }
        scored_question = ScoredQuestion(question, scores)
        is_kept = rule.choose(scores["fitted"], texts)
        scored_questions.append(scored_question)
        gold_lost.append(1 - scored_question.gold_share(is_kept))
        text_kept.append(scored_question.text_share(is_kept))
    return HeldOutResult(scored_questions, np.array(gold_lost), np.array(text_kept))


def bootstrap_mean(values: Floats, coverage: float = 0.9) -> tuple[float, float]:
    """The bootstrap interval of the mean over questions that has ``coverage`` of the resamples."""
    rng = np.random.default_rng(0)
    sample_indices = rng.integers(0, len(values), (RESAMPLES, len(values)))
    means = values[sample_indices].mean(1)
    tail = (1 - coverage) / 2
    low, high = np.quantile(means, [tail, (1 + coverage) / 2])
    return float(low), float(high)


def report_held_out(
    report: FigureReport,
    name: str,
    fitted_denoiser: FittedDenoiser,
    questions: Sequence[Question],
    encoder: SentenceEncoder,
) -> HeldOutResult:
    """Report what a denoiser that was calibrated on a set does on other questions of the set."""
    result = measure_held_out(fitted_denoiser, questions, encoder)
    mean_lost = float(result.gold_lost.mean())
    low, high = bootstrap_mean(result.gold_lost)
    report.row(
        f"{name}: gold lost at a stated risk of .1",
        mean_lost,
        "share",
        interval=(low, high),
    )
    is_held = mean_lost <= LOST_LIMIT or low <= DEFAULT_RISK <= high
    report.row(
        f"{name}: lost at most .12, or .1 in its 90 % interval",
        float(is_held),
        "1 or 0",
        at_least=1,
    )
    report.row(
        f"{name}: text kept",
        float(result.text_kept.mean()),
        "share",
        interval=bootstrap_interval(result.text_kept),
    )
    for gold_share in GOLD_TARGETS:
        for scorer_name in SCORERS:
            required_text = result.required_text(scorer_name, gold_share)
            value, low, high = percentile_interval(required_text)
            measure = f"{name}: text for {gold_share:g} of the gold, {scorer_name}"
            report.row(measure, value, "share", interval=(low, high))
    return result
