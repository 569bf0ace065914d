"""The weights of a stack of signals, from labelled passages: `denoise_core.scorers.stack` scores by them."""

from __future__ import annotations

from collections.abc import Hashable, Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray

from denoise_core._optional import require
from denoise_core.errors import InputError
from denoise_core.scorers.stack import Stack

RIDGE = 1e-3  # keeps the weights of signals that say the same from running apart


def fit_stack(
    names: Sequence[str],
    signals: ArrayLike,
    labels: ArrayLike,
    groups: Sequence[Hashable],
) -> Stack:
    """A stack from signals ``(n, k)``, labels ``(n,)`` (True: relevant) and the question of each row.

    No weight is below 0. A signal of relevance that counts against it would only tell how the irrelevant
    passages of the fitting data were found (BM25, for distractors mined by BM25), and be wrong elsewhere.

    Scores of a fitted part (a probe) must come from folds that did not see the row's question, else the
    stack trusts it too much. Questions without a relevant and an irrelevant row teach nothing and are left
    out. Raises `InputError` for sizes that disagree, signals that are not finite, or nothing to learn from.
    """
    optimize = require("scipy.optimize", extra="end")
    x, y = np.asarray(signals, dtype=np.float64), np.asarray(labels, dtype=np.bool_)
    if x.ndim != 2 or x.shape != (len(y), len(names)) or len(groups) != len(y):
        raise InputError(
            f"expected signals of shape (n, {len(names)}) with n labels and n groups, got {x.shape}, {len(y)} "
            f"labels and {len(groups)} groups"
        )
    if not np.isfinite(x).all():
        raise InputError("signals must be finite")
    mean, deviation = x.mean(0), np.maximum(x.std(0), 1e-9)
    z = (x - mean) / deviation
    rows: dict[Hashable, list[int]] = {}
    for i, group in enumerate(groups):
        rows.setdefault(group, []).append(i)
    lists = [i for i in rows.values() if 0 < y[i].sum() < len(i)]
    if not lists:
        raise InputError("no question has both a relevant and an irrelevant passage")
    # All lists at once: rows list by list, and where each list begins.
    order = np.concatenate(lists)
    sizes = np.array([len(i) for i in lists])
    starts, owner = np.cumsum(sizes) - sizes, np.repeat(np.arange(len(lists)), sizes)
    z, relevant = z[order], y[order]
    share = (
        relevant
        / np.add.reduceat(relevant.astype(np.float64), starts)[owner]
        / len(lists)
    )
    target = share @ z

    def loss(weight: NDArray[np.float64]) -> tuple[float, NDArray[np.float64]]:
        logits = z @ weight
        logits = logits - np.maximum.reduceat(logits, starts)[owner]
        chance = np.exp(logits)
        total = np.add.reduceat(chance, starts)
        value = RIDGE * float(weight @ weight) - float(
            share @ (logits - np.log(total)[owner])
        )
        slope = 2 * RIDGE * weight + (chance / total[owner]) @ z / len(lists) - target
        return value, slope

    start, bounds = np.full(len(names), 0.1), [(0.0, None)] * len(names)
    found = optimize.minimize(loss, start, jac=True, method="L-BFGS-B", bounds=bounds)
    return Stack(
        tuple(names),
        tuple(map(float, found.x)),
        tuple(map(float, mean)),
        tuple(map(float, deviation)),
    )
