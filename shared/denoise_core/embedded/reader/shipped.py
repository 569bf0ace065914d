"""The reader that ships, loaded once in a process."""

from __future__ import annotations

from collections.abc import Sequence
from importlib.resources import as_file, files
from typing import Any

from denoise_core.embedded.minilm import minilm
from denoise_core.embedded.reader.calibration import Calibration
from denoise_core.embedded.reader.forward import load
from denoise_core.embedded.reader.span_reader import Found, SpanReader
from denoise_core.embedded.reader.windows import tokens
from denoise_core.running.caches.once import Once
from denoise_core.types import Passage

_loaded: Once[SpanReader] = Once(keep=None)


class _Shipped(SpanReader):
    """Pickled or copied, it is the shared one of that process."""

    def __reduce__(self) -> tuple[Any, ...]:
        return span_reader, ()


def span_reader() -> SpanReader:
    """The shared reader; threads that ask at the same time wait for one load.

    Raises `MissingExtra` without the extra ``embedded``.
    """

    def fresh() -> SpanReader:
        with as_file(files("denoise_core.embedded") / "data" / "reader") as folder:
            network = load(minilm(), folder / "reader.safetensors")
            calibration = Calibration.load(folder / "calibration.json")
        return _Shipped(network, tokens(), calibration=calibration)

    return _loaded("reader", fresh)


def answer(query: str, passages: Sequence[Passage]) -> Found | None:
    """Where the passages answer the question, by the reader that ships; None when they seem not to."""
    return span_reader().answer(query, passages)
