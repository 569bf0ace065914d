"""Recall: the fraction of the gold passages that a scorer keeps.

Layers are chosen by it, and scorers are compared by it.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Sequence
from typing import TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from denoise_core.end.selection import fraction_count
from denoise_core.errors import InputError

Groups: TypeAlias = Sequence[Hashable] | NDArray[np.generic]

# Of the paper's layer study, apart from the single best chunk.
RECALL_FRACTIONS = (0.2, 0.3, 0.5, 0.6)


def recall_at(
    scores: ArrayLike, gold: ArrayLike, groups: Groups, fraction: float
) -> NDArray[np.float64]:
    """Fraction of each question's gold among its best ``ceil(fraction * n)`` passages.

    Ties count by chance, so that the order in which a set lists its passages cannot
    help or hurt.

    Args:
        scores: ``(n,)``, one per passage.
        gold: ``(n,)``, whether each is relevant.
        groups: ``(n,)``, the question of each.
        fraction: Fraction of the passages kept.

    Returns:
        One value per question with gold, in the order of their first passages.
    """
    question_recalls = []
    for question_scores, is_gold in _questions_with_gold(scores, gold, groups):
        higher_counts = question_scores[None, :] > question_scores[:, None]
        equal_counts = question_scores[None, :] == question_scores[:, None]
        kept_count = fraction_count(fraction, len(question_scores))
        kept_places = kept_count - higher_counts.sum(1)
        place_share = kept_places / equal_counts.sum(1)
        keep_chance = np.clip(place_share, 0, 1)
        question_recalls.append(float(keep_chance[is_gold].mean()))
    return np.array(question_recalls)


def top1_accuracy(
    scores: ArrayLike, gold: ArrayLike, groups: Groups
) -> NDArray[np.float64]:
    """The chance that each question's best passage is gold.

    1 or 0, or between for ties at the top; questions without gold are left out.
    """
    question_accuracies = []
    for question_scores, is_gold in _questions_with_gold(scores, gold, groups):
        is_best = question_scores == question_scores.max()
        question_accuracies.append(float(is_gold[is_best].mean()))
    return np.array(question_accuracies)


def recall_table(
    scores: ArrayLike, gold: ArrayLike, groups: Groups
) -> dict[str, NDArray[np.float64]]:
    """One value per question with gold: "top 1", and recall at "20 %" ... "60 %"."""
    recall_values = {"top 1": top1_accuracy(scores, gold, groups)}
    for fraction in RECALL_FRACTIONS:
        recall_values[f"{100 * fraction:g} %"] = recall_at(
            scores, gold, groups, fraction
        )
    return recall_values


def _questions_with_gold(
    scores: ArrayLike, gold: ArrayLike, groups: Groups
) -> Iterator[tuple[NDArray[np.float32], NDArray[np.bool_]]]:
    """Scores and labels of each question that has gold."""
    all_scores = np.asarray(scores, dtype=np.float32)
    is_gold = np.asarray(gold, dtype=np.bool_)
    if not len(all_scores) == len(is_gold) == len(groups):
        raise InputError(
            f"{len(all_scores)} scores, {len(is_gold)} labels, {len(groups)} groups: "
            "expected as many of each"
        )
    rows_of_group: dict[Hashable, list[int]] = {}
    for row_number, group in enumerate(groups):
        rows_of_group.setdefault(group, []).append(row_number)
    for question_rows in rows_of_group.values():
        row_labels = is_gold[question_rows]
        if row_labels.any():
            yield all_scores[question_rows], row_labels
