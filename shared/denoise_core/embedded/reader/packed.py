"""Weights as they ship: matrices in 8 bit with one scale for each row, vectors in half precision.

Half the room of half precision. What a weight loses is at most 1/254 of the largest of its row; training and
computing know nothing of it.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from denoise_core._optional import require

Floats = NDArray[np.float32]

_SCALE = ".scale"


def pack(weights: Mapping[str, NDArray[Any]]) -> dict[str, NDArray[Any]]:
    """What a file holds: ``name`` (int8, rows x columns) and ``name.scale`` (float32, rows) for each matrix,
    ``name`` in half precision for anything else."""
    out: dict[str, NDArray[Any]] = {}
    for name, value in weights.items():
        if value.ndim != 2:
            out[name] = value.astype(np.float16)
            continue
        whole = value.astype(np.float32)
        scale = np.maximum(np.abs(whole).max(axis=1), np.finfo(np.float32).tiny) / 127
        out[name] = np.rint(whole / scale[:, None]).astype(np.int8)
        out[name + _SCALE] = scale.astype(np.float32)
    return out


def unpack(held: Mapping[str, NDArray[Any]]) -> dict[str, Floats]:
    """The weights again, in single precision."""
    return {
        name: value.astype(np.float32) * held[name + _SCALE][:, None]
        if value.dtype == np.int8
        else value.astype(np.float32)
        for name, value in held.items()
        if not name.endswith(_SCALE)
    }


def load_packed(path: Path) -> dict[str, Floats]:
    """The weights of a file that holds what `pack` gave."""
    read = require("safetensors.numpy", extra="embedded").load_file
    return unpack(read(path))
