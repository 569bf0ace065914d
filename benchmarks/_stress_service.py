"""The service at four times its capacity, and over texts of every form: what `stress.py` measures of it."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Sequence
from dataclasses import dataclass, field

import httpx
import numpy as np
from _served import draw_request, start_service
from growing_texts import TEXTS
from harness import Benchmark

from denoise_core.end import ENDDenoiser
from denoise_core.scorers import BM25Scorer
from denoise_core.service import Service, ServiceLimits
from denoise_core.service.app import make_app

WORKER_COUNT = 2
LIMIT_IN_REQUESTS = 20  # the time limit, in ordinary requests one after the other
TOO_LONG = 900_000  # characters; they take longer than the time limit
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


# -- four times the capacity -----------------------------------------------------------


@dataclass
class OverloadTimes:
    """Seconds of replies under overload.

    Attributes:
        answered_seconds: Of ordinary requests that were answered.
        refused_seconds: Of ordinary requests that were refused with 503.
        idle_seconds: Of an idle service's `/livez`, asked by the same client meanwhile.
    """

    answered_seconds: list[float] = field(default_factory=list)
    refused_seconds: list[float] = field(default_factory=list)
    idle_seconds: list[float] = field(default_factory=list)


def report_goodput(bench: Benchmark, seconds: float) -> None:
    """Ask at four times the capacity, every tenth request a megabyte that takes longer than the limit."""
    rng = random.Random(bench.options.seed)
    flags = ("--workers", str(WORKER_COUNT), "--max-characters", "2000000")
    with start_service(*flags) as (url, _):
        capacity = asyncio.run(measure_capacity(url, rng, seconds / 6))
    limit = LIMIT_IN_REQUESTS / capacity
    with (
        start_service(*flags, "--timeout", str(limit)) as (url, _),
        start_service("--workers", "1") as (idle_url, _),
    ):
        # It estimates waiting from requests that it has answered.
        asyncio.run(measure_capacity(url, rng, seconds / 12))
        times = asyncio.run(overload(url, idle_url, rng, 4 * capacity, seconds))
    in_time_count = sum(elapsed <= limit for elapsed in times.answered_seconds)
    goodput = in_time_count / seconds / capacity
    refusal_ms = percentile_ms(times.refused_seconds)
    idle_ms = percentile_ms(times.idle_seconds)
    bench.row("capacity", capacity, "1/s")
    rows = bench.under("overload: ")
    rows.row("answered in time over capacity", goodput, "ratio", at_least=0.8)
    rows.row("refusal, 99th percentile", refusal_ms, "ms")
    rows.row("an idle service, 99th percentile", idle_ms, "ms")
    rows.row(
        "refusal less an idle service's reply, 99th percentiles",
        max(0.0, refusal_ms - idle_ms),
        "ms",
        at_most=20,
    )


def percentile_ms(seconds: Sequence[float]) -> float:
    """Return the 99th percentile in milliseconds, 0 of none."""
    if not seconds:
        return 0.0
    return 1000 * float(np.percentile(seconds, 99))


async def measure_capacity(url: str, rng: random.Random, seconds: float) -> float:
    """Return the requests a second of as many clients as there are workers."""
    answered_count = 0
    end_time = time.perf_counter() + seconds

    async def ask_on(client: httpx.AsyncClient) -> None:
        nonlocal answered_count
        while time.perf_counter() < end_time:
            reply = await client.post(DENOISE, json=draw_request(rng, 10, 30))
            answered_count += reply.status_code == 200

    async with httpx.AsyncClient(base_url=url, timeout=60) as client:
        await asyncio.gather(*(ask_on(client) for _ in range(WORKER_COUNT)))
    return answered_count / seconds


async def overload(
    url: str, idle_url: str, rng: random.Random, rate: float, seconds: float
) -> OverloadTimes:
    times = OverloadTimes()
    long_text = TEXTS["runs of backticks"](TOO_LONG)
    long_body = {"query": "Which one?", "passages": [long_text]}
    bodies = [draw_request(rng, 10, 30) for _ in range(200)]
    limits = httpx.Limits(max_connections=1000)
    async with httpx.AsyncClient(base_url=url, timeout=60, limits=limits) as client:

        async def ask(number: int) -> None:
            if number % 10 == 0:
                await client.post(DENOISE, json=long_body)
                return
            body = bodies[number % len(bodies)]
            # The number keeps it out of every cache.
            body = {**body, "query": f"{body['query']} {number}"}
            start_time = time.perf_counter()
            reply = await client.post(DENOISE, json=body)
            elapsed = time.perf_counter() - start_time
            if reply.status_code == 200:
                times.answered_seconds.append(elapsed)
            elif reply.status_code == 503:
                times.refused_seconds.append(elapsed)
            if number % 10 == 1:
                start_time = time.perf_counter()
                await client.get(f"{idle_url}/livez")
                times.idle_seconds.append(time.perf_counter() - start_time)

        tasks = []
        start_time = time.perf_counter()
        for number in range(int(rate * seconds)):
            pause = start_time + number / rate - time.perf_counter()
            await asyncio.sleep(max(0.0, pause))
            tasks.append(asyncio.create_task(ask(number)))
        await asyncio.gather(*tasks)
    return times
