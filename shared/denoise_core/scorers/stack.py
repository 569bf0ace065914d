"""A stack: several signals of relevance, standardised and added by one linear model.

A probe, an embedding and words each see what the others miss. A stack is fitted on lists
of labelled passages so that relevant ones come first (softmax over each question's list;
`denoise_core.end.fit.stack`), and saved as plain JSON.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, TypeAlias, runtime_checkable

import numpy as np
from numpy.typing import ArrayLike, NDArray

from denoise_core.errors import InputError
from denoise_core.protocols import Scorer

Floats = NDArray[np.float32]


@runtime_checkable
class SignalSource(Protocol):
    """Gives several scores from one reading of the texts."""

    @property
    def names(self) -> Sequence[str]:
        """Names of the signals."""
        ...

    def signals(self, query: str, texts: Sequence[str]) -> Floats:
        """float32 ``(len(texts), len(names))``, higher is better in each column."""
        ...


StackPart: TypeAlias = Scorer | SignalSource


@dataclass(frozen=True, slots=True)
class Stack:
    """``score = sum(weight * (signal - mean) / deviation)`` over the signals in ``names``.

    ``mean`` and ``deviation`` are those of the fitting data, so a passage's score does not
    depend on the other passages, as far as its signals do not.
    """

    names: tuple[str, ...]
    weight: tuple[float, ...]
    mean: tuple[float, ...]
    deviation: tuple[float, ...]

    def __post_init__(self) -> None:
        field_lengths = set(
            map(len, (self.names, self.weight, self.mean, self.deviation))
        )
        if len(field_lengths) != 1:
            raise InputError(
                "a stack needs one weight, mean and deviation for each of "
                f"{list(self.names)}"
            )
        signal_values = [*self.weight, *self.mean, *self.deviation]
        are_finite = np.isfinite(signal_values).all()
        if not are_finite or min(self.deviation) <= 0:
            raise InputError(
                "a stack's numbers must be finite and its deviations above 0"
            )

    def combine(self, signals: ArrayLike) -> Floats:
        """Signals ``(n, k)`` to scores ``(n,)``."""
        signal_values = np.asarray(signals, dtype=np.float64)
        if signal_values.ndim != 2 or signal_values.shape[1] != len(self.names):
            raise InputError(
                f"expected signals of shape (n, {len(self.names)}) for {self.names}, got "
                f"{signal_values.shape}"
            )
        centred_signals = signal_values - self.mean
        standard_signals = centred_signals / self.deviation
        weight_vector = np.array(self.weight)
        weighted_sums = standard_signals @ weight_vector
        return np.asarray(weighted_sums, dtype=np.float32)

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON: each field as a list."""
        return {name: list(getattr(self, name)) for name in self.__slots__}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Stack:
        """Raises `InputError` for missing fields or values that are not numbers."""
        try:
            return cls(
                tuple(map(str, data["names"])),
                tuple(map(float, data["weight"])),
                tuple(map(float, data["mean"])),
                tuple(map(float, data["deviation"])),
            )
        except (KeyError, TypeError, ValueError) as error:
            raise InputError(
                f"not a stack: {error!r}; expected names, weight, mean and deviation"
            ) from error


class StackedScorer:
    """Scores by a `Stack` over scorers and signal sources, in its ``names``' order."""

    listwise = True  # as soon as one of its parts is

    def __init__(self, parts: Sequence[StackPart], stack: Stack) -> None:
        signal_counts = map(_signal_count, parts)
        width = sum(signal_counts)
        if width != len(stack.names):
            raise InputError(
                f"these parts give {width} signals, the stack takes {len(stack.names)}: "
                f"{stack.names}"
            )
        self.parts = tuple(parts)
        self.stack = stack

    def score(self, query: str, texts: Sequence[str]) -> Floats:
        """Sums of standardised signals, float32 ``(len(texts),)``.

        About 0 for an average passage. A part whose weights are all 0 is not asked.
        """
        signals = collect_signals(self.parts, query, texts, self.stack)
        return self.stack.combine(signals)


def collect_signals(
    parts: Sequence[StackPart],
    query: str,
    texts: Sequence[str],
    stack: Stack | None = None,
) -> Floats:
    """All signals of the parts.

    Args:
        parts: In the order of the stack's signals.
        query: The question.
        texts: What to score.
        stack: A part to which it gives no weight is not asked; its columns are means.

    Returns:
        float32 ``(len(texts), k)``.
    """
    signal_columns = []
    first_column = 0
    for stack_part in parts:
        end_column = first_column + _signal_count(stack_part)
        own_columns = slice(first_column, end_column)
        first_column = end_column
        if stack is not None and not any(stack.weight[own_columns]):
            mean_signals = np.array(stack.mean[own_columns], dtype=np.float32)
            part_columns = np.tile(mean_signals, (len(texts), 1))
        elif isinstance(stack_part, SignalSource):
            part_columns = stack_part.signals(query, texts)
        else:
            part_scores = stack_part.score(query, texts)
            part_columns = part_scores[:, None]
        signal_columns.append(part_columns)
    all_columns = np.concatenate(signal_columns, axis=1)
    return all_columns.astype(np.float32)


def _signal_count(stack_part: StackPart) -> int:
    if isinstance(stack_part, SignalSource):
        return len(stack_part.names)
    return 1
