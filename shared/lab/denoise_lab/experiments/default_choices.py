"""What the benchmarks of the default share: the sets' reported halves, and what each scorer keeps of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from denoise_core.embedded import default_scale, default_stack
from denoise_core.embedded.encoder import SentenceEncoder
from denoise_core.end.selection import DEFAULT_RISK
from denoise_core.question import Question
from denoise_core.scorers.bm25 import BM25Scorer
from denoise_lab.experiments import BenchmarkOptions
from denoise_lab.experiments.real_sets import quick_questions
from denoise_lab.split import NQ, POISONED_SETS, SETS, read_halves

QUESTION_LIMIT = 80  # of each half of a set
Mask = NDArray[np.bool_]


@dataclass(frozen=True)
class ScoredQuestion:
    """One question with its passages' scores by scorer, shapes ``(passages,)``; masks have the same shape."""

    question: Question
    scores: Mapping[str, NDArray[np.float32]]

    @property
    def labels(self) -> Mask:
        """Whether each passage is relevant."""
        return np.array(self.question.labels)

    @property
    def text_lengths(self) -> NDArray[np.float64]:
        """Characters of each passage."""
        lengths = [len(passage.text_with_header) for passage in self.question.passages]
        return np.array(lengths, dtype=np.float64)

    def gold_share(self, is_kept: Mask) -> float:
        """The share of the relevant passages that are kept."""
        return float(is_kept[self.labels].mean())

    def text_share(self, is_kept: Mask) -> float:
        """The share of the text that is kept."""
        kept_length = self.text_lengths[is_kept].sum()
        full_length = max(1.0, self.text_lengths.sum())
        return float(kept_length / full_length)

    def choose_auto(self, risk: float = DEFAULT_RISK) -> Mask:
        """What the default keeps by ``keep="auto"``."""
        rule = default_scale().rule(risk)
        return rule.choose(self.scores["default"], [""] * len(self.text_lengths))

    def choose_top(self, scorer_name: str, count: int) -> Mask:
        """The best ``count`` passages by a scorer."""
        is_kept = np.zeros(len(self.text_lengths), dtype=np.bool_)
        ranking = np.argsort(-self.scores[scorer_name], kind="stable")
        is_kept[ranking[:count]] = True
        return is_kept


def read_benchmark_sets(
    options: BenchmarkOptions,
    names: Sequence[str] = (*SETS, *POISONED_SETS),
    for_fitting: bool = False,
    limit: int = QUESTION_LIMIT,
) -> dict[str, list[Question]]:
    """Return the sets' halves that nothing was fitted on (or the others), at most ``limit`` questions each."""
    if options.quick:
        return {NQ: quick_questions()}
    if options.data is None:
        raise SystemExit("this benchmark needs real data: pass --data FOLDER")
    sets = {}
    for name in names:
        fitting_half, reported_half = read_halves(options.data, name, limit)
        sets[name] = reported_half
        if for_fitting:
            sets[name] = fitting_half
    return sets


def score_questions(
    questions: Sequence[Question], encoder: SentenceEncoder
) -> list[ScoredQuestion]:
    """Score each question's passages by the default, cosine, BM25 and the order of retrieval."""
    scored_questions = []
    for question in questions:
        texts = [passage.text_with_header for passage in question.passages]
        signals = encoder.signals(question.text, texts)
        scores = {
            "default": default_stack().combine(signals),
            "cosine": signals[:, 0],
            "BM25": BM25Scorer().score(question.text, texts),
            "first": -np.arange(len(texts), dtype=np.float32),
        }
        scored_questions.append(ScoredQuestion(question, scores))
    return scored_questions
