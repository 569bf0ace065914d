"""Random runs with faults, outages of remote parts, and the service over texts of every form: what is lost, not
reported or left behind, and what takes long.
"""

from __future__ import annotations

import asyncio
import logging
import random
import threading
import time
from collections.abc import Sequence
from operator import itemgetter

import httpx
import numpy as np
from _served import DENOISE, TEXTS
from harness import Benchmark
from numpy.typing import ArrayLike
from outage_matrix import BOUNDARIES, run_outages
from stress_runs import KINDS, Run, Tally, run_async, run_sync

from denoise_core.end import ENDDenoiser
from denoise_core.scorers import BM25Scorer
from denoise_core.service import Service, ServiceLimits
from denoise_core.service.app import make_app

FAILURES = (
    "lost",
    "unreported",
    "law broken",
    "budget over",
    "tasks left",
    "threads left",
)
FREE_BYTES = 10_000  # of a reply, beside three times the request
FORM_SIZES = (10_000, 100_000, 1_000_000)  # characters
BATCH_SIZE = 100  # random runs, sync and then async
CONCURRENT_RUNS = 20
THREADS_SECONDS = 20  # in which threads may end


def main() -> None:
    bench = Benchmark("stress", __doc__)
    logging.getLogger("denoise").setLevel(logging.CRITICAL)
    if bench.quick:
        report_text_forms(bench, (1_000, 4_000))
        report_outages(bench, case_count=3)
        report_random_runs(bench, run_count=400)
    else:
        report_text_forms(bench, FORM_SIZES)
        report_outages(bench, case_count=20)
        report_random_runs(bench, run_count=100_000)
    bench.finish()


def fit_slope(sizes: Sequence[int], values: ArrayLike) -> float:
    """Return the slope of the values over the sizes, both in logarithms."""
    slope, _ = np.polyfit(np.log(sizes), np.log(values), 1)
    return float(slope)


# -- the service over texts of every form ----------------------------------------------


def report_text_forms(bench: Benchmark, sizes: Sequence[int]) -> None:
    """Add the worst form of text by CPU time and by bytes of the reply over size; BM25 scores."""
    limits = ServiceLimits(max_characters=2_000_000, timeout=600)
    denoiser = ENDDenoiser(BM25Scorer(), keep=5, chunker="auto")
    service = Service(denoiser, limits=limits)
    figures = []
    for form, make_text in TEXTS.items():
        texts = [make_text(size) for size in sizes]
        time_slope, byte_slope, ratio = asyncio.run(measure_texts(service, texts))
        figures.append((form, time_slope, byte_slope, ratio))
    for position, measure, at_most in (
        (1, "slope of processor time", 1.15),
        (2, "slope of the reply's bytes", 1.15),
        (3, "reply less 10 kB, over request", 3.0),
    ):
        worst = max(figures, key=itemgetter(position))
        title = f"{measure}, the worst of {len(TEXTS)} forms ({worst[0]})"
        bench.row(title, worst[position], "ratio", at_most=at_most)


async def measure_texts(
    service: Service, texts: Sequence[str]
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
    sizes = [len(text) for text in texts]
    return fit_slope(sizes, seconds), fit_slope(sizes, reply_bytes), max(ratios)


def report_outages(bench: Benchmark, case_count: int) -> None:
    """Kill, hang and flap each remote part; a call that is lost or stuck raises."""
    for boundary in BOUNDARIES:
        _, recovery_seconds = run_outages(boundary, case_count)
        bench.row(
            f"outages of a {boundary}: slowest recovery of {case_count}",
            max(recovery_seconds),
            "s",
            at_most=10,
        )


def report_random_runs(bench: Benchmark, run_count: int) -> None:
    tally = Tally()
    rng = random.Random(bench.seed)
    thread_count = threading.active_count()
    while tally.runs < run_count:
        for _ in range(BATCH_SIZE):
            run_sync(Run.draw(rng), tally)
        runs = [Run.draw(rng) for _ in range(BATCH_SIZE)]
        asyncio.run(run_concurrently(runs, tally))
    deadline = time.monotonic() + THREADS_SECONDS
    while threading.active_count() > thread_count and time.monotonic() < deadline:
        time.sleep(0.2)
    tally.wrong["threads left"] = max(0, threading.active_count() - thread_count)
    bench.row("random runs", tally.runs, "runs", at_least=run_count)
    least = min(20, len(KINDS))
    bench.row("kinds of fault injected", len(tally.faults), "kinds", at_least=least)
    for failure in FAILURES:
        bench.row(failure, tally.wrong[failure], "runs", at_most=0)
    for line in tally.examples[:5]:
        print(line)


async def run_concurrently(runs: Sequence[Run], tally: Tally) -> None:
    for start in range(0, len(runs), CONCURRENT_RUNS):
        batch = runs[start : start + CONCURRENT_RUNS]
        await asyncio.gather(*(run_async(run, tally) for run in batch))
    await asyncio.sleep(0)
    other_tasks = asyncio.all_tasks() - {asyncio.current_task()}
    tally.wrong["tasks left"] += len(other_tasks)


if __name__ == "__main__":
    main()
