"""A stack: several signals of relevance, standardised and added by one linear model.

A probe, an embedding and words each see what the others miss. The stack is fitted on lists of labelled
passages so that relevant ones come first (softmax over each question's list), and saved as plain JSON.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

import numpy as np
from numpy.typing import ArrayLike, NDArray

from denoise_core._optional import require
from denoise_core.errors import InputError
from denoise_core.protocols import ReportsParts, Scored, Scorer

Floats = NDArray[np.float32]

RIDGE = 1e-3  # keeps the weights of signals that say the same from running apart


@runtime_checkable
class Signals(Protocol):
    """Something that gives several scores from one reading of the texts."""

    @property
    def names(self) -> Sequence[str]: ...

    def signals(self, query: str, texts: Sequence[str]) -> Floats:
        """float32 of shape ``(len(texts), len(names))``, higher is better in each column."""
        ...


@dataclass(frozen=True, slots=True)
class Stack:
    """``score = sum(weight * (signal - mean) / deviation)`` over the signals in ``names``.

    ``mean`` and ``deviation`` are those of the fitting data, so a passage's score does not change with the
    passages beside it, as far as its signals do not.
    """

    names: tuple[str, ...]
    weight: tuple[float, ...]
    mean: tuple[float, ...]
    deviation: tuple[float, ...]

    def __post_init__(self) -> None:
        sizes = {len(self.names), len(self.weight), len(self.mean), len(self.deviation)}
        if len(sizes) != 1:
            raise InputError(f"a stack needs one weight, mean and deviation for each of {list(self.names)}")
        if not all(np.isfinite([*self.weight, *self.mean, *self.deviation])) or min(self.deviation) <= 0:
            raise InputError("a stack's numbers must be finite and its deviations above 0")

    def combine(self, signals: ArrayLike) -> Floats:
        """Signals ``(n, k)`` to scores ``(n,)``."""
        x = np.asarray(signals, dtype=np.float64)
        if x.ndim != 2 or x.shape[1] != len(self.names):
            raise InputError(f"expected signals of shape (n, {len(self.names)}) for {self.names}, got {x.shape}")
        return np.asarray((x - self.mean) / self.deviation @ np.array(self.weight), dtype=np.float32)

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON: each field as a list."""
        return {n: list(getattr(self, n)) for n in self.__slots__}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Stack:
        """Raises `InputError` for missing fields or values that are no numbers."""
        try:
            numbers = [tuple(float(v) for v in data[n]) for n in ("weight", "mean", "deviation")]
            return cls(tuple(str(n) for n in data["names"]), *numbers)
        except (KeyError, TypeError, ValueError) as error:
            raise InputError(f"not a stack: {error!r}; expected names, weight, mean and deviation") from error


class StackedScorer:
    """Scores by a `Stack` over any mix of scorers and `Signals`, in the order of ``stack.names``."""

    listwise = True  # as soon as one of its parts is

    def __init__(self, parts: Sequence[Scorer | Signals], stack: Stack) -> None:
        wanted = sum(len(p.names) if isinstance(p, Signals) else 1 for p in parts)
        if wanted != len(stack.names):
            raise InputError(
                f"these parts give {wanted} signals, the stack takes {len(stack.names)}: {stack.names}"
            )
        self.parts = tuple(parts)
        self.stack = stack

    def score(self, query: str, texts: Sequence[str]) -> Floats:
        """Sums of standardised signals, float32 ``(len(texts),)``; about 0 for an average passage.

        A part whose weights are all 0 is not asked.
        """
        return self.scored(query, texts).scores

    def scored(self, query: str, texts: Sequence[str]) -> Scored:
        """`score`, and in how many windows its parts read each text, where they say so."""
        windows = [1] * len(texts)
        signals = collect(self.parts, query, texts, self.stack, windows)
        return Scored(self.stack.combine(signals), tuple(windows))


def collect(
    parts: Sequence[Scorer | Signals],
    query: str,
    texts: Sequence[str],
    stack: Stack | None = None,
    windows: list[int] | None = None,
) -> Floats:
    """All signals of the parts side by side, ``(len(texts), k)``; means where ``stack`` gives a part no weight.

    ``windows`` has one entry a text, and is raised to the number of parts in which a scorer read the text.
    """
    columns: list[Floats] = []
    at = 0
    for part in parts:
        width = len(part.names) if isinstance(part, Signals) else 1
        if stack is not None and not any(stack.weight[at : at + width]):
            columns.append(np.tile(np.array(stack.mean[at : at + width], dtype=np.float32), (len(texts), 1)))
        elif isinstance(part, Signals):
            columns.append(part.signals(query, texts))
        elif isinstance(part, ReportsParts):
            found = part.scored(query, texts)
            columns.append(found.scores[:, None])
            if windows is not None:
                windows[:] = map(max, windows, found.parts)
        else:
            columns.append(part.score(query, texts)[:, None])
        at += width
    return np.concatenate(columns, axis=1).astype(np.float32)


def fit_stack(names: Sequence[str], signals: ArrayLike, labels: ArrayLike, groups: Sequence[Hashable]) -> Stack:
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
    share = relevant / np.add.reduceat(relevant.astype(np.float64), starts)[owner] / len(lists)
    target = share @ z

    def loss(weight: NDArray[np.float64]) -> tuple[float, NDArray[np.float64]]:
        logits = z @ weight
        logits = logits - np.maximum.reduceat(logits, starts)[owner]
        chance = np.exp(logits)
        total = np.add.reduceat(chance, starts)
        value = RIDGE * float(weight @ weight) - float(share @ (logits - np.log(total)[owner]))
        slope = 2 * RIDGE * weight + (chance / total[owner]) @ z / len(lists) - target
        return value, slope

    start, bounds = np.full(len(names), 0.1), [(0.0, None)] * len(names)
    found = optimize.minimize(loss, start, jac=True, method="L-BFGS-B", bounds=bounds)
    return Stack(tuple(names), tuple(map(float, found.x)), tuple(map(float, mean)), tuple(map(float, deviation)))
