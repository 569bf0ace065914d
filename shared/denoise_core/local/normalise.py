"""The final norm of a model with its gain forced to one, as arithmetic on arrays.

A probe fitted on such states can be exported as a standard classification checkpoint, whose head reads
normed states; the gain is left out because it belongs to the last layer, not to the one that is read.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal, cast, get_args

import numpy as np
from numpy.typing import NDArray

from denoise_core.errors import InputError

Kind = Literal["none", "rms", "layer"]


def kind_of(name: str) -> Kind:
    """``name`` as a kind. Raises `InputError` for another word."""
    if name not in get_args(Kind):
        raise InputError(f"normalisation={name!r}: expected 'none', 'rms' or 'layer'")
    return cast(Kind, name)


@dataclass(frozen=True, slots=True)
class Norm:
    """``rms`` divides by the root mean square, ``layer`` subtracts the mean and divides by the deviation."""

    kind: Kind = "none"
    epsilon: float = 0.0

    def __call__(self, states: NDArray[np.floating[Any]]) -> NDArray[np.float32]:
        """float32 states of the same shape, each normed along the last axis."""
        x = np.asarray(states, dtype=np.float32)
        if self.kind == "none":
            return x
        if self.kind == "layer":
            x = x - x.mean(axis=-1, keepdims=True)
        # The mean square of massive activations can pass float32's accuracy, so it is summed in float64.
        square = np.mean(np.square(x, dtype=np.float64), axis=-1, keepdims=True)
        return np.asarray(x / np.sqrt(square + self.epsilon), dtype=np.float32)
