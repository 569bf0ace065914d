"""Scorers and denoisers side by side on labelled questions: what survives, what is left out, how long it takes."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from denoise_core.errors import InputError
from denoise_core.evaluate.answers import holds_answer
from denoise_core.evaluate.metrics import bootstrap, recall_at
from denoise_core.protocols import Denoiser, Scorer
from denoise_core.question import Question


@dataclass(frozen=True, slots=True)
class ScorerRow:
    """One scorer at one kept share. ``gold_kept`` is the mean over questions, ``interval`` its 95 % interval."""

    name: str
    share: float
    gold_kept: float
    interval: tuple[float, float]
    seconds: float  # for each question


@dataclass(frozen=True, slots=True)
class DenoiserRow:
    """One denoiser. Shares are means over questions; ``answer_kept`` is None when no question has answers.

    ``gold_kept``: relevant passages of which something is kept. ``answer_kept``: questions whose kept text
    holds an answer, among those whose passages do. ``characters_kept``: of all passages' text.
    """

    name: str
    gold_kept: float
    interval: tuple[float, float]
    answer_kept: float | None
    characters_kept: float
    seconds: float  # for each question


def compare_scorers(
    scorers: Mapping[str, Scorer], questions: Sequence[Question], *, shares: Sequence[float] = (0.3, 0.1)
) -> tuple[ScorerRow, ...]:
    """Every scorer on the same questions at the same kept shares, ties counted by chance.

    Questions without a relevant passage are left out. Raises `InputError` when none is left.
    """
    used = _with_gold(questions)
    labels = np.concatenate([q.labels for q in used])
    groups = np.repeat(np.arange(len(used)), [len(q.passages) for q in used])
    rows = []
    for name, scorer in scorers.items():
        started = time.perf_counter()
        scores = np.concatenate([scorer.score(q.text, [p.text for p in q.passages]) for q in used])
        seconds = (time.perf_counter() - started) / len(used)
        for share in shares:
            kept = recall_at(scores, labels, groups, share)
            rows.append(ScorerRow(name, share, float(kept.mean()), bootstrap(kept), seconds))
    return tuple(rows)


def compare_denoisers(
    denoisers: Mapping[str, Denoiser | None], questions: Sequence[Question]
) -> tuple[DenoiserRow, ...]:
    """Every denoiser on the same questions; None stands for no denoising, everything in.

    Questions without a relevant passage are left out. Raises `InputError` when none is left.
    """
    used = _with_gold(questions)
    return tuple(_row(name, denoiser, used) for name, denoiser in denoisers.items())


def _row(name: str, denoiser: Denoiser | None, questions: Sequence[Question]) -> DenoiserRow:
    gold: list[float] = []
    answered: list[float] = []
    characters: list[float] = []
    started = time.perf_counter()
    for q in questions:
        kept = q.passages if denoiser is None else denoiser.denoise(q.text, q.passages).passages
        gold.append(len({p.id for p in kept} & q.gold) / len(q.gold))
        whole = " \n ".join(p.text for p in q.passages)
        characters.append(sum(len(p.text) for p in kept) / max(1, sum(len(p.text) for p in q.passages)))
        if holds_answer(whole, q.answers):
            answered.append(float(holds_answer(" \n ".join(p.text for p in kept), q.answers)))
    seconds = (time.perf_counter() - started) / len(questions)
    found: NDArray[np.float64] = np.array(gold)
    return DenoiserRow(
        name,
        float(found.mean()),
        bootstrap(found),
        float(np.mean(answered)) if answered else None,
        float(np.mean(characters)),
        seconds,
    )


def _with_gold(questions: Sequence[Question]) -> list[Question]:
    used = [q for q in questions if q.gold]
    if not used:
        raise InputError("no question has a relevant passage: there is nothing to lose, so nothing to measure")
    return used
