"""The service at four times its capacity, and over texts of every form: what `stress.py` measures of it."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Sequence

import httpx
import numpy as np
from _served import draw_request, started
from growing_texts import TEXTS
from harness import Benchmark

from denoise_core.end import ENDDenoiser
from denoise_core.scorers import BM25Scorer
from denoise_core.service import Service, ServiceLimits
from denoise_core.service.app import make_app

WORKERS = 2
LIMIT_IN_REQUESTS = (
    20  # the limit of a request, in ordinary ones done one after the other
)
PATH = "/v1/denoise"


def measure_shapes(bench: Benchmark, sizes: Sequence[int]) -> None:
    """Processor time and bytes of the reply over size, for each form of text; BM25 scores."""
    limits = ServiceLimits(max_characters=2_000_000, timeout=600)
    service = Service(ENDDenoiser(BM25Scorer(), keep=5, chunker="auto"), limits=limits)
    worst: dict[str, tuple[float, str]] = {}
    for name, make in TEXTS.items():
        texts = [make(size) for size in sizes]
        seconds, reply_bytes, ratios = asyncio.run(_ask_each(service, texts))
        figures = {
            "slope of processor time": _slope(sizes, seconds),
            "slope of the reply's bytes": _slope(sizes, reply_bytes),
            "reply less 10 kB, over request": max(ratios),
        }
        for measure, value in figures.items():
            worst[measure] = max(worst.get(measure, (0.0, "")), (value, name))
    for measure, (value, name) in worst.items():
        bench.row(
            f"{measure}, the worst of {len(TEXTS)} forms ({name})",
            value,
            "ratio",
            at_most=3.0 if measure.startswith("reply") else 1.15,
        )


async def _ask_each(service: Service, texts: Sequence[str]) -> tuple[list[float], ...]:
    seconds, reply_bytes, ratios = [], [], []
    transport = httpx.ASGITransport(make_app(service))
    async with httpx.AsyncClient(
        transport=transport, base_url="http://localhost", timeout=None
    ) as client:
        for text in texts:
            body = {"query": "Which item is one of two?", "passages": [text]}
            began = time.process_time()
            reply = await client.post(PATH, json=body)
            seconds.append(time.process_time() - began)
            reply.raise_for_status()
            size = len(reply.content)
            request_size = len(reply.request.content)
            reply_bytes.append(float(size))
            ratios.append((size - 10_000) / request_size)
    return seconds, reply_bytes, ratios


def _slope(sizes: Sequence[int], values: Sequence[float]) -> float:
    return float(np.polyfit(np.log(sizes), np.log(values), 1)[0])


def measure_goodput(bench: Benchmark, seconds: float) -> None:
    """At four times the capacity, every tenth request a megabyte that takes longer than the limit."""
    drawn = random.Random(bench.options.seed)
    flags = f"--workers {WORKERS} --max-characters 2000000".split()
    with started(*flags) as (url, _):
        capacity = asyncio.run(_capacity(url, drawn, seconds / 6))
    limit = LIMIT_IN_REQUESTS / capacity
    with (
        started(*flags, "--timeout", str(limit)) as (url, _),
        started("--workers", "1") as (idle_url, _),
    ):
        asyncio.run(_capacity(url, drawn, seconds / 12))  # it has measured some
        found, idle_times = asyncio.run(
            _overload(url, idle_url, drawn, 4 * capacity, seconds)
        )
    good = [f for f in found if f[:2] == (False, 200) and f[2] <= limit]
    refused = [f[2] for f in found if f[:2] == (False, 503)]
    bench.row("capacity", capacity, "1/s")
    bench.row(
        "overload: answered in time over capacity",
        len(good) / seconds / capacity,
        "ratio",
        at_least=0.8,
    )
    p99 = float(np.percentile(refused, 99)) if refused else 0.0
    idle_p99 = float(np.percentile(idle_times, 99))
    bench.row("overload: refusal, 99th percentile", 1000 * p99, "ms")
    bench.row("overload: an idle service, 99th percentile", 1000 * idle_p99, "ms")
    bench.row(
        "overload: refusal less an idle service's reply, 99th percentiles",
        1000 * max(0.0, p99 - idle_p99),
        "ms",
        at_most=20,
    )


async def _capacity(url: str, drawn: random.Random, seconds: float) -> float:
    """Requests a second of as many clients as there are workers."""
    answered = 0
    end_time = time.perf_counter() + seconds

    async def ask(client: httpx.AsyncClient) -> None:
        nonlocal answered
        while time.perf_counter() < end_time:
            reply = await client.post(PATH, json=draw_request(drawn, 10, 30))
            answered += reply.status_code == 200

    async with httpx.AsyncClient(base_url=url, timeout=60) as client:
        await asyncio.gather(*(ask(client) for _ in range(WORKERS)))
    return answered / seconds


async def _overload(
    url: str, idle_url: str, drawn: random.Random, rate: float, seconds: float
) -> tuple[list[tuple[bool, int, float]], list[float]]:
    """For each request: whether it is too long, its status, and the seconds it took.

    Also the seconds of `/livez` of an idle service, which the same client asks meanwhile.
    """
    found: list[tuple[bool, int, float]] = []
    idle_times: list[float] = []
    too_long = {
        "query": "Which one?",
        "passages": [TEXTS["runs of backticks"](900_000)],
    }
    bodies = [draw_request(drawn, 10, 30) for _ in range(200)]
    many = httpx.Limits(max_connections=1000)
    async with httpx.AsyncClient(base_url=url, timeout=60, limits=many) as client:

        async def ask(number: int) -> None:
            is_too_long = number % 10 == 0
            body = too_long if is_too_long else bodies[number % 200]
            if not is_too_long:  # none is read from a cache
                body = {**body, "query": f"{body['query']} {number}"}
            began = time.perf_counter()
            reply = await client.post(PATH, json=body)
            taken = time.perf_counter() - began
            found.append((is_too_long, reply.status_code, taken))
            if number % 10 == 1:
                began = time.perf_counter()
                await client.get(f"{idle_url}/livez")
                idle_times.append(time.perf_counter() - began)

        tasks, began = [], time.perf_counter()
        for number in range(int(rate * seconds)):
            pause = began + number / rate - time.perf_counter()
            await asyncio.sleep(max(0.0, pause))
            tasks.append(asyncio.create_task(ask(number)))
        await asyncio.gather(*tasks)
    return found, idle_times
