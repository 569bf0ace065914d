"""The reader that ships as benchmarks ask it: each window of a question is read once."""

from __future__ import annotations

from denoise_core.embedded import span_reader
from denoise_core.embedded.reader.span_reader import SpanReader
from denoise_lab.span_reader.measure import Kept

ABOUT = "as it ships"


def bench_reader() -> tuple[SpanReader, Kept]:
    """The reader, and what it keeps of rows it has read: to be told to forget when a question is done."""
    shipped = span_reader()
    kept = Kept(shipped.network)
    return SpanReader(kept, shipped.tokens, floor=shipped.floor), kept
