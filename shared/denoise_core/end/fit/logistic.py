"""Many ridge-penalised logistic regressions on the same rows, solved side by side.

A sweep of nine penalties over five folds is 45 fits. One after the other they read the matrix some 45 x 60
times; side by side each step is one matrix product for all of them, which costs about as much as for one.
The optimum is that of scikit-learn's ``LogisticRegression(C=..., class_weight="balanced")``.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

Floats: TypeAlias = NDArray[np.float32]
Mask: TypeAlias = NDArray[np.bool_]

_MEMORY = 8  # pairs that L-BFGS remembers
_HALVINGS = 12  # of a step that does not go down


@dataclass(frozen=True, slots=True)
class Task:
    """One regression: penalty ``C`` (larger is freer) on the rows where ``rows`` is True."""

    C: float
    rows: Mask


def solve(
    x: Floats, y: Mask, tasks: Sequence[Task], *, tolerance: float = 1e-4, iterations: int = 200
) -> tuple[Floats, Floats]:
    """Weights ``(d, k)`` and biases ``(k,)`` of the ``k`` tasks, for rows ``x`` ``(n, d)`` and labels ``y``.

    Both classes weigh the same in each task; the bias is not penalised. A task is done when no entry of
    its mean gradient passes ``tolerance``, or after ``iterations`` steps.
    """
    importance = np.stack([_balanced(y, t.rows) * t.C for t in tasks], axis=1)
    live = _Columns.start(x.shape[1], importance)
    theta = np.zeros((x.shape[1] + 1, len(tasks)), dtype=np.float32)
    sign = np.where(y, 1.0, -1.0).astype(np.float32)[:, None]
    for _ in range(iterations):
        live.gradient(x, sign)
        going = live.slope() > tolerance
        if not going.all():
            theta[:, live.which[~going]] = live.theta[:, ~going]
            if not going.any():
                return theta[:-1], theta[-1]
            live = live.only(going)
        live.step(x, sign)
    theta[:, live.which] = live.theta
    return theta[:-1], theta[-1]


def _balanced(y: Mask, rows: Mask) -> Floats:
    """scikit-learn's balanced weights within ``rows``, 0 elsewhere."""
    n, positive = rows.sum(), (rows & y).sum()
    weights = np.where(y, n / (2 * max(positive, 1)), n / (2 * max(n - positive, 1))) * rows
    return np.asarray(weights, dtype=np.float32)


@dataclass(slots=True)
class _Columns:
    """The tasks still under way, one column each. The last row of ``theta`` is the bias."""

    which: NDArray[np.intp]
    importance: Floats  # (n, k): C times the row's weight
    theta: Floats  # (d + 1, k)
    logits: Floats  # (n, k)
    grad: Floats
    steps: list[Floats] = field(default_factory=list)  # each (d + 1, k), oldest first
    turns: list[Floats] = field(default_factory=list)  # change of the gradient over that step
    before: tuple[Floats, Floats] | None = None  # theta and gradient before the last step

    @classmethod
    def start(cls, d: int, importance: Floats) -> _Columns:
        n, k = importance.shape
        zero = np.zeros((d + 1, k), dtype=np.float32)
        return cls(np.arange(k), importance, zero, np.zeros((n, k), dtype=np.float32), zero.copy())

    def only(self, keep: Mask) -> _Columns:
        before = None if self.before is None else (self.before[0][:, keep], self.before[1][:, keep])
        return _Columns(
            self.which[keep],
            self.importance[:, keep],
            self.theta[:, keep],
            self.logits[:, keep],
            self.grad[:, keep],
            [s[:, keep] for s in self.steps],
            [t[:, keep] for t in self.turns],
            before,
        )

    def gradient(self, x: Floats, sign: Floats) -> None:
        error = -sign * self.importance * _sigmoid(-sign * self.logits)
        slope = np.concatenate([x.T @ error + self.theta[:-1], error.sum(0, keepdims=True)])
        self.grad = np.asarray(slope, dtype=self.theta.dtype)
        if self.before is not None:
            self.steps.append(self.theta - self.before[0])
            self.turns.append(self.grad - self.before[1])
            del self.steps[:-_MEMORY], self.turns[:-_MEMORY]

    def slope(self) -> Floats:
        """Largest entry of each task's gradient, over its total row weight."""
        return np.asarray(np.abs(self.grad).max(0) / self.importance.sum(0), dtype=np.float32)

    def step(self, x: Floats, sign: Floats) -> None:
        direction = self._direction()
        along = x @ direction[:-1] + direction[-1]
        falls = (direction * self.grad).sum(0)
        wd, dd = (self.theta[:-1] * direction[:-1]).sum(0), (direction[:-1] ** 2).sum(0)
        here = self._loss(self.logits, sign)
        length = np.ones_like(falls) if self.steps else 1 / np.maximum(1e-12, np.abs(self.grad).max(0))
        for _ in range(_HALVINGS):
            ridge = length * wd + 0.5 * length**2 * dd
            there = self._loss(self.logits + length * along, sign) + ridge
            too_far = there > here + 1e-4 * length * falls + 1e-6 * np.abs(here)  # the last: float32's rounding
            if not too_far.any():
                break
            length = np.where(too_far, length / 2, length)
        length = length.astype(np.float32)
        self.before = (self.theta, self.grad)
        self.theta = self.theta + length * direction
        self.logits = self.logits + length * along

    def _loss(self, logits: Floats, sign: Floats) -> NDArray[np.float64]:
        each = self.importance * np.logaddexp(np.float32(0), -sign * logits)
        return np.asarray(each.sum(0), dtype=np.float64)

    def _direction(self) -> Floats:
        """L-BFGS's two loops, for each column on its own."""
        q = self.grad.copy()
        pairs = [(s, t, (s * t).sum(0)) for s, t in zip(self.steps, self.turns)]
        pairs = [(s, t, np.where(curve > 1e-12, 1 / np.maximum(curve, 1e-12), 0.0)) for s, t, curve in pairs]
        alphas = []
        for s, t, rho in reversed(pairs):
            alpha = (rho * (s * q).sum(0)).astype(np.float32)
            q -= alpha * t
            alphas.append(alpha)
        if pairs:
            s, t, rho = pairs[-1]
            scale = np.where(rho > 0, 1 / np.maximum(1e-30, rho * (t * t).sum(0)), 1.0)
            q *= scale.astype(np.float32)
        for (s, t, rho), alpha in zip(pairs, reversed(alphas)):
            q += s * (alpha - (rho * (t * q).sum(0)).astype(np.float32))
        return -q


def _sigmoid(z: Floats) -> Floats:
    return np.asarray(0.5 * (1 + np.tanh(0.5 * z)), dtype=np.float32)
