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
        InputError: Signals that are not finite, or nothing to learn from.
    """
    signal_values = np.asarray(signals, dtype=np.float64)
    is_gold = np.asarray(labels, dtype=np.bool_)
    if not np.isfinite(signal_values).all():
        raise InputError("signals must be finite")
    signal_mean = signal_values.mean(0)
    signal_deviation = np.maximum(signal_values.std(0), MIN_DEVIATION)
    rows_of_group: dict[Hashable, list[int]] = {}
    for row_number, question_group in enumerate(groups):
        rows_of_group.setdefault(question_group, []).append(row_number)
    row_lists = []
    for question_rows in rows_of_group.values():
        gold_count = is_gold[question_rows].sum()
        if 0 < gold_count < len(question_rows):
            row_lists.append(question_rows)
    if not row_lists:
        raise InputError("no question has both a relevant and an irrelevant passage")
    list_rows = np.concatenate(row_lists)
    standard_signals = (signal_values[list_rows] - signal_mean) / signal_deviation
    signal_weights = _fit_weights(
        standard_signals, is_gold[list_rows], list(map(len, row_lists))
    )
    return Stack(
        tuple(names),
        tuple(signal_weights.tolist()),
        tuple(signal_mean.tolist()),
        tuple(signal_deviation.tolist()),
    )


def _fit_weights(
    standard_signals: NDArray[np.float64],
    is_gold: NDArray[np.bool_],
    row_counts: Sequence[int],
) -> NDArray[np.float64]:
    """Minimise the listwise softmax loss; rows are list by list, of these sizes."""
    list_sizes = np.array(row_counts)
    list_starts = np.cumsum(list_sizes) - list_sizes
    list_of_row = np.repeat(np.arange(len(row_counts)), list_sizes)
    gold_counts = np.add.reduceat(is_gold.astype(np.float64), list_starts)
    gold_target = is_gold / gold_counts[list_of_row] / len(row_counts)
    target_features = gold_target @ standard_signals

    def loss_and_gradient(
        trial_weights: NDArray[np.float64],
    ) -> tuple[float, NDArray[np.float64]]:
        list_logits = standard_signals @ trial_weights
        list_logits -= np.maximum.reduceat(list_logits, list_starts)[list_of_row]
        logit_exponentials = np.exp(list_logits)
        list_totals = np.add.reduceat(logit_exponentials, list_starts)[list_of_row]
        log_likelihood = float(gold_target @ (list_logits - np.log(list_totals)))
        total_loss = RIDGE * float(trial_weights @ trial_weights) - log_likelihood
        expected_features = (
            (logit_exponentials / list_totals) @ standard_signals / len(row_counts)
        )
        return (
            total_loss,
            2 * RIDGE * trial_weights + expected_features - target_features,
        )

    optimize = require("scipy.optimize", extra="evaluate")
    signal_count = standard_signals.shape[1]
    best_solution = optimize.minimize(
        loss_and_gradient,
        np.full(signal_count, 0.1),
        jac=True,
        method="L-BFGS-B",
        bounds=[(0.0, None)] * signal_count,
    )
    return np.asarray(best_solution.x, dtype=np.float64)
