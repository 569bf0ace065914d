"""Fit the weights of a stack of signals on labelled passages.

`denoise_core.scorers.stack` scores with them.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray

from denoise_core._optional import require
from denoise_core.errors import InputError
from denoise_core.scorers.stack import Stack

RIDGE = 1e-3  # keeps the weights of redundant signals from diverging
MIN_DEVIATION = 1e-9


def fit_stack(
    names: Sequence[str],
    signals: ArrayLike,
    labels: ArrayLike,
    groups: Sequence[Hashable],
) -> Stack:
    """Fit a stack so that relevant passages come first (listwise softmax).

    No weight is below 0. A signal of relevance with a negative weight would only reflect
    how the irrelevant passages of the fitting data were found (BM25, for distractors
    mined by BM25), and be wrong elsewhere.

    Args:
        names: The ``k`` signals.
        signals: ``(n, k)``. Scores of a fitted part (a probe) must be from folds that
            did not see the row's question, else the stack trusts it too much.
        labels: ``(n,)``, True for relevant.
        groups: The question of each row. Questions without a relevant and an irrelevant
            row are left out.

    Raises:
        InputError: Sizes that disagree, signals that are not finite, or nothing to
            learn from.
    """
    values = np.asarray(signals, dtype=np.float64)
    is_gold = np.asarray(labels, dtype=np.bool_)
    if values.shape != (len(is_gold), len(names)) or len(groups) != len(is_gold):
        raise InputError(
            f"expected signals of shape (n, {len(names)}) with n labels and n groups, "
            f"got {values.shape}, {len(is_gold)} labels and {len(groups)} groups"
        )
    if not np.isfinite(values).all():
        raise InputError("signals must be finite")
    mean = values.mean(0)
    deviation = np.maximum(values.std(0), MIN_DEVIATION)
    rows_of_group: dict[Hashable, list[int]] = {}
    for row, group in enumerate(groups):
        rows_of_group.setdefault(group, []).append(row)
    row_lists = [r for r in rows_of_group.values() if 0 < is_gold[r].sum() < len(r)]
    if not row_lists:
        raise InputError("no question has both a relevant and an irrelevant passage")
    rows = np.concatenate(row_lists)
    features = (values[rows] - mean) / deviation
    weights = _fit_weights(features, is_gold[rows], list(map(len, row_lists)))
    return Stack(
        tuple(names),
        tuple(weights.tolist()),
        tuple(mean.tolist()),
        tuple(deviation.tolist()),
    )


def _fit_weights(
    features: NDArray[np.float64], is_gold: NDArray[np.bool_], sizes: Sequence[int]
) -> NDArray[np.float64]:
    """Minimise the listwise softmax loss; rows are list by list, of these sizes."""
    list_sizes = np.array(sizes)
    starts = np.cumsum(list_sizes) - list_sizes
    list_of_row = np.repeat(np.arange(len(sizes)), list_sizes)
    gold_counts = np.add.reduceat(is_gold.astype(np.float64), starts)
    target = is_gold / gold_counts[list_of_row] / len(sizes)
    target_features = target @ features

    def loss_and_gradient(
        weight: NDArray[np.float64],
    ) -> tuple[float, NDArray[np.float64]]:
        logits = features @ weight
        logits -= np.maximum.reduceat(logits, starts)[list_of_row]
        exponentials = np.exp(logits)
        totals = np.add.reduceat(exponentials, starts)[list_of_row]
        log_likelihood = float(target @ (logits - np.log(totals)))
        loss = RIDGE * float(weight @ weight) - log_likelihood
        expected_features = (exponentials / totals) @ features / len(sizes)
        return loss, 2 * RIDGE * weight + expected_features - target_features

    optimize = require("scipy.optimize", extra="end")
    count = features.shape[1]
    solution = optimize.minimize(
        loss_and_gradient,
        np.full(count, 0.1),
        jac=True,
        method="L-BFGS-B",
        bounds=[(0.0, None)] * count,
    )
    return np.asarray(solution.x, dtype=np.float64)
