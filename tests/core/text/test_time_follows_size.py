"""The processor time of chunking, compiled code included, grows as the text does: of 50 kB and of 500 kB."""

import gc
import math
import time

import pytest
from growing_texts import TEXTS

from denoise_core.text import structural
from denoise_core.text.structural import chunk_text

SIZES = (50_000, 500_000)


def processor_seconds(text):
    seconds = []
    for _ in range(3):
        structural._chunk_string.cache_clear()
        gc.collect()
        start_time = time.process_time()
        chunked = chunk_text(text)
        for chunk in chunked.chunks:
            chunked.chunk_context_and_text(chunk)
        seconds.append(time.process_time() - start_time)
    return min(seconds)


@pytest.mark.parametrize("name", TEXTS)
def test_time_is_linear(name):
    """A quadratic step doubles the exponent; a fifth is left to caches and the collector."""
    small, large = [processor_seconds(TEXTS[name](size)) for size in SIZES]
    exponent = math.log10(max(large, 0.05) / max(small, 0.005))
    assert exponent < 1.2
