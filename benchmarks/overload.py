"""The service at four times its capacity: what it answers in time, and how soon it refuses the rest.

Every tenth request is a megabyte that takes longer than the time limit.
"""

from __future__ import annotations

import asyncio
import os
import random
import time
from collections.abc import Sequence

# Before anything loads NumPy; the services inherit it.
os.environ.setdefault("OMP_NUM_THREADS", "1")

import httpx
import numpy as np
from _served import DENOISE, TEXTS, draw_request, start_service
from harness import Benchmark

SECONDS = 40
QUICK_SECONDS = 6
WORKER_COUNT = 2
LIMIT_IN_REQUESTS = 20  # the time limit, in ordinary requests one after the other
ANSWERED, REFUSED, IDLE = "answered", "refused", "idle"
OUTCOMES = {200: ANSWERED, 503: REFUSED}
TOO_LONG = 900_000  # characters; they take longer than the time limit


def main() -> None:
    bench = Benchmark("overload", __doc__)
    report_goodput(bench, QUICK_SECONDS if bench.quick else SECONDS)
    bench.finish()


def report_goodput(bench: Benchmark, seconds: float) -> None:
    """Ask at four times the capacity, every tenth request a megabyte that takes longer than the limit."""
    rng = random.Random(bench.seed)
    flags = ("--workers", str(WORKER_COUNT), "--max-characters", "2000000")
    with start_service(*flags) as (url, _):
        capacity = asyncio.run(measure_capacity(url, rng, seconds / 2))
    limit = LIMIT_IN_REQUESTS / capacity
    with (
        start_service(*flags, "--timeout", str(limit)) as (url, _),
        start_service("--workers", "1") as (idle_url, _),
    ):
        # It estimates waiting from requests that it has answered.
        asyncio.run(measure_capacity(url, rng, seconds / 12))
        times = asyncio.run(overload(url, idle_url, rng, 4 * capacity, seconds))
    in_time_count = sum(elapsed <= limit for elapsed in times[ANSWERED])
    goodput = in_time_count / seconds / capacity
    refusal_ms = percentile_ms(times[REFUSED])
    idle_ms = percentile_ms(times[IDLE])
    longer_ms = max(0.0, refusal_ms - idle_ms)
    bench.row("capacity", capacity, "1/s")
    bench.row("answered in time over capacity", goodput, "ratio", at_least=0.8)
    bench.row("refusal, 99th percentile", refusal_ms, "ms")
    bench.row("an idle service, 99th percentile", idle_ms, "ms")
    measure = "refusal less an idle service's reply, 99th percentiles"
    bench.row(measure, longer_ms, "ms", at_most=20)


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
) -> dict[str, list[float]]:
    """Return the seconds of ordinary requests by outcome, and of an idle service's `/livez` asked meanwhile."""
    times: dict[str, list[float]] = {ANSWERED: [], REFUSED: [], IDLE: []}
    long_text = TEXTS["runs of backticks"](TOO_LONG)
    long_body = {"query": "Which one?", "passages": [long_text]}
    limits = httpx.Limits(max_connections=1000)
    async with httpx.AsyncClient(base_url=url, timeout=60, limits=limits) as client:

        async def ask(number: int) -> None:
            if number % 10 == 0:
                await client.post(DENOISE, json=long_body)
                return
            body = draw_request(rng, 10, 30)
            start_time = time.perf_counter()
            reply = await client.post(DENOISE, json=body)
            outcome = OUTCOMES.get(reply.status_code)
            if outcome is not None:
                times[outcome].append(time.perf_counter() - start_time)
            if number % 10 == 1:
                start_time = time.perf_counter()
                await client.get(f"{idle_url}/livez")
                times[IDLE].append(time.perf_counter() - start_time)

        tasks = []
        start_time = time.perf_counter()
        for number in range(int(rate * seconds)):
            pause = start_time + number / rate - time.perf_counter()
            await asyncio.sleep(max(0.0, pause))
            tasks.append(asyncio.create_task(ask(number)))
        await asyncio.gather(*tasks)
    return times


if __name__ == "__main__":
    main()
