"""The reader and the judge that ship, loaded once in a process from files that are known by their sha256."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from importlib.resources import files
from typing import Any

from denoise_core._optional import require
from denoise_core.embedded.minilm import minilm, weights
from denoise_core.embedded.reader.forward import Network
from denoise_core.embedded.reader.judge import Calibration, Point, ShippedJudge
from denoise_core.embedded.reader.span_reader import Found, SpanReader
from denoise_core.embedded.reader.windows import tokens
from denoise_core.errors import InputError
from denoise_core.running.caches.once import Once
from denoise_core.types import Passage

DIGESTS = {
    "reader.safetensors": "4995079004bd93615d31e2a4fe715992be166525e535dc5b29008f43a3753bd8",
    "claims.safetensors": "6e919f8f1394dbd54a9c0c2d74f56888eb68b576caf8234e242a4b7934af0aa7",
    "calibration.json": "3de4f7fc3927df379db9969d22cb588ab5c4458d688fd2d135710102f59856d9",
}

_loaded: Once[_Parts] = Once(keep=None)


class _Parts:
    """The networks, which share MiniLM's word pieces, and the calibration."""

    def __init__(self) -> None:
        loads = require("safetensors.numpy", extra="embedded")
        base = weights(minilm())
        self.calibration = Calibration.read(shipped("calibration.json").decode("utf-8"))
        network = Network(base, loads.load(shipped("reader.safetensors")))
        self.reader = _Shipped(network, tokens(), floor=self.calibration.floor)
        self.claims = Network(base, loads.load(shipped("claims.safetensors")))


class _Shipped(SpanReader):
    """Pickled or copied, it is the shared one of that process."""

    def __reduce__(self) -> tuple[Any, ...]:
        return span_reader, ()


class _ShippedJudge(ShippedJudge):
    """Pickled or copied, it is the one of that process at the same operating point."""

    def __reduce__(self) -> tuple[Any, ...]:
        return judge, (self.point,)


def shipped(name: str) -> bytes:
    """The bytes of a file that ships. Raises `InputError` when they are not the ones that this version knows."""
    data = (files("denoise_core.embedded") / "data" / "reader" / name).read_bytes()
    found = hashlib.sha256(data).hexdigest()
    if found != DIGESTS[name]:
        raise InputError(
            f"{name} of the shipped reader was changed: expected sha256 {DIGESTS[name]}, got {found}; "
            "run: pip install --force-reinstall --no-deps rag-denoise"
        )
    return data


def span_reader() -> SpanReader:
    """The shared reader; threads that ask at the same time wait for one load.

    Raises `MissingExtra` without the extra ``embedded``.
    """
    return _loaded("parts", _Parts).reader


def judge(point: Point = "even") -> ShippedJudge:
    """The judge that ships at an operating point: ``lenient``, ``even`` or ``strict``; see `ShippedJudge`.

    Raises `MissingExtra` without the extra ``embedded``.
    """
    parts = _loaded("parts", _Parts)
    return _ShippedJudge(parts.reader, parts.claims, parts.calibration, point)


def answer(query: str, passages: Sequence[Passage]) -> Found | None:
    """Where the passages answer the question, by the reader that ships; None when they seem not to."""
    return span_reader().answer(query, passages)
