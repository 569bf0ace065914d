"""A stack: several signals of relevance, standardised and added by one linear model.

A probe, an embedding and words each see what the others miss. The stack is fitted on lists of labelled
passages so that relevant ones come first (softmax over each question's list), and saved as plain JSON.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

import numpy as np
from numpy.typing import ArrayLike, NDArray

from denoise_core.errors import InputError
from denoise_core.protocols import ScoredTexts, Scorer, WindowedScorer

Floats = NDArray[np.float32]


@runtime_checkable
class SignalSource(Protocol):
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
            raise InputError(
                f"a stack needs one weight, mean and deviation for each of {list(self.names)}"
            )
        if (
            not all(np.isfinite([*self.weight, *self.mean, *self.deviation]))
            or min(self.deviation) <= 0
        ):
            raise InputError(
                "a stack's numbers must be finite and its deviations above 0"
            )

    def combine(self, signals: ArrayLike) -> Floats:
        """Signals ``(n, k)`` to scores ``(n,)``."""
        x = np.asarray(signals, dtype=np.float64)
        if x.ndim != 2 or x.shape[1] != len(self.names):
            raise InputError(
                f"expected signals of shape (n, {len(self.names)}) for {self.names}, got {x.shape}"
            )
        return np.asarray(
            (x - self.mean) / self.deviation @ np.array(self.weight), dtype=np.float32
        )

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON: each field as a list."""
        return {n: list(getattr(self, n)) for n in self.__slots__}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Stack:
        """Raises `InputError` for missing fields or values that are no numbers."""
        try:
            numbers = [
                tuple(float(v) for v in data[n])
                for n in ("weight", "mean", "deviation")
            ]
            return cls(tuple(str(n) for n in data["names"]), *numbers)
        except (KeyError, TypeError, ValueError) as error:
            raise InputError(
                f"not a stack: {error!r}; expected names, weight, mean and deviation"
            ) from error


class StackedScorer:
    """Scores by a `Stack` over any mix of scorers and `Signals`, in the order of ``stack.names``."""

    listwise = True  # as soon as one of its parts is

    def __init__(self, parts: Sequence[Scorer | SignalSource], stack: Stack) -> None:
        wanted = sum(len(p.names) if isinstance(p, SignalSource) else 1 for p in parts)
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
        return self.score_with_windows(query, texts).scores

    def score_with_windows(self, query: str, texts: Sequence[str]) -> ScoredTexts:
        """`score`, and in how many windows its parts read each text, where they say so."""
        windows = [1] * len(texts)
        signals = collect_signals(self.parts, query, texts, self.stack, windows)
        return ScoredTexts(self.stack.combine(signals), tuple(windows))


def collect_signals(
    parts: Sequence[Scorer | SignalSource],
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
        width = len(part.names) if isinstance(part, SignalSource) else 1
        if stack is not None and not any(stack.weight[at : at + width]):
            columns.append(
                np.tile(
                    np.array(stack.mean[at : at + width], dtype=np.float32),
                    (len(texts), 1),
                )
            )
        elif isinstance(part, SignalSource):
            columns.append(part.signals(query, texts))
        elif isinstance(part, WindowedScorer):
            found = part.score_with_windows(query, texts)
            columns.append(found.scores[:, None])
            if windows is not None:
                windows[:] = map(max, windows, found.window_counts)
        else:
            columns.append(part.score(query, texts)[:, None])
        at += width
    return np.concatenate(columns, axis=1).astype(np.float32)
