"""The service over texts of every form: what `stress.py` measures of it."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence

import httpx
import numpy as np
from growing_texts import TEXTS
from harness import Benchmark

from denoise_core.end import ENDDenoiser
from denoise_core.scorers import BM25Scorer
from denoise_core.service import Service, ServiceLimits
from denoise_core.service.app import make_app

FREE_BYTES = 10_000  # of a reply, beside three times the request
DENOISE = "/v1/denoise"
MAX_BY_MEASURE = {
    "slope of processor time": 1.15,
    "slope of the reply's bytes": 1.15,
    "reply less 10 kB, over request": 3.0,
}


# -- texts of every form ---------------------------------------------------------------


def report_text_forms(bench: Benchmark, sizes: Sequence[int]) -> None:
    """Add the worst form of text by CPU time and by bytes of the reply over size; BM25 scores."""
    limits = ServiceLimits(max_characters=2_000_000, timeout=600)
    denoiser = ENDDenoiser(BM25Scorer(), keep=5, chunker="auto")
    service = Service(denoiser, limits=limits)
    figures: dict[str, dict[str, float]] = {measure: {} for measure in MAX_BY_MEASURE}
    for form, make_text in TEXTS.items():
        texts = [make_text(size) for size in sizes]
        form_figures = asyncio.run(measure_texts(service, sizes, texts))
        for measure, value in zip(figures, form_figures, strict=True):
            figures[measure][form] = value
    for measure, by_form in figures.items():
        form = max(by_form, key=by_form.__getitem__)
        title = f"{measure}, the worst of {len(TEXTS)} forms ({form})"
        bench.row(title, by_form[form], "ratio", at_most=MAX_BY_MEASURE[measure])


async def measure_texts(
    service: Service, sizes: Sequence[int], texts: Sequence[str]
) -> tuple[float, float, float]:
    """Return the slopes of CPU time and of reply bytes over size, and the largest reply over its request."""
    seconds = []
    reply_bytes = []
    ratios = []
    transport = httpx.ASGITransport(make_app(service))
    async with httpx.AsyncClient(
        transport=transport, base_url="http://localhost", timeout=None
    ) as client:
        for text in texts:
            body = {"query": "Which item is one of two?", "passages": [text]}
            start_time = time.process_time()
            reply = await client.post(DENOISE, json=body)
            seconds.append(time.process_time() - start_time)
            reply.raise_for_status()
            reply_bytes.append(len(reply.content))
            request_bytes = len(reply.request.content)
            ratios.append((len(reply.content) - FREE_BYTES) / request_bytes)
    return fit_slope(sizes, seconds), fit_slope(sizes, reply_bytes), max(ratios)


def fit_slope(sizes: Sequence[int], values: Sequence[float]) -> float:
    """Return the slope of the values over the sizes, both in logarithms."""
    return float(np.polyfit(np.log(sizes), np.log(values), 1)[0])
