"""How much of the gold is kept at a share: what layers are chosen by, and what scorers are compared by."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray

from denoise_core.end.selection import fraction_count
from denoise_core.errors import InputError

RECALL_FRACTIONS = (
    0.2,
    0.3,
    0.5,
    0.6,
)  # those of the paper's layer study, beside the single best chunk


def recall_at(
    scores: ArrayLike,
    gold: ArrayLike,
    groups: Sequence[Hashable] | NDArray[np.generic],
    fraction: float,
) -> NDArray[np.float64]:
    """Share of each question's gold passages among its best ``ceil(share * n)`` passages.

    ``scores`` and ``gold`` have one entry a passage, ``groups`` its question. One value for each question
    that has gold, in the order of their first rows. Ties count by chance, so that the order in which a set
    lists its passages cannot help or hurt.
    """
    recalls = []
    for own, relevant in _questions_with_gold(scores, gold, groups):
        above = (own[None, :] > own[:, None]).sum(1)
        level = (own[None, :] == own[:, None]).sum(1)
        kept = np.clip((fraction_count(fraction, len(own)) - above) / level, 0, 1)
        recalls.append(float(kept[relevant].mean()))
    return np.array(recalls)


def top1_accuracy(
    scores: ArrayLike, gold: ArrayLike, groups: Sequence[Hashable] | NDArray[np.generic]
) -> NDArray[np.float64]:
    """The chance that each question's best passage is gold: 1 or 0, or between for ties at the top.

    Questions without gold are left out.
    """
    questions = _questions_with_gold(scores, gold, groups)
    return np.array(
        [float(relevant[own == own.max()].mean()) for own, relevant in questions]
    )


def recall_table(
    scores: ArrayLike, gold: ArrayLike, groups: Sequence[Hashable] | NDArray[np.generic]
) -> dict[str, NDArray[np.float64]]:
    """Values of each question with gold: "top 1" (`top_one`) and "20 %" ... "60 %" (`recall_at`)."""
    table = {"top 1": top1_accuracy(scores, gold, groups)}
    return table | {
        f"{100 * share:g} %": recall_at(scores, gold, groups, share)
        for share in RECALL_FRACTIONS
    }


def _questions_with_gold(
    scores: ArrayLike, gold: ArrayLike, groups: Sequence[Hashable] | NDArray[np.generic]
) -> Iterator[tuple[NDArray[np.float32], NDArray[np.bool_]]]:
    """Scores and labels of each question that has gold."""
    values, relevant = (
        np.asarray(scores, dtype=np.float32),
        np.asarray(gold, dtype=np.bool_),
    )
    if not len(values) == len(relevant) == len(groups):
        raise InputError(
            f"{len(values)} scores, {len(relevant)} labels, {len(groups)} groups: expected as many of each"
        )
    rows: dict[Hashable, list[int]] = {}
    for i, group in enumerate(groups):
        rows.setdefault(group, []).append(i)
    return ((values[i], relevant[i]) for i in rows.values() if relevant[i].any())
