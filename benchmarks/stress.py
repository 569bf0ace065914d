"""Random runs with faults, outages of remote parts, whole calls over ever longer texts, and the service over texts
of every form: what is lost, not reported or left behind, and what takes long.
"""

from __future__ import annotations

import asyncio
import gc
import logging
import random
import sys
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from _stress_calls import calls
from harness import Benchmark, arguments

sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "support"))

from _stress_service import report_text_forms
from outage_matrix import BOUNDARIES, run_outages
from stress_runs import KINDS, Run, Tally, run_async, run_sync

FAILURES = (
    "lost",
    "unreported",
    "law broken",
    "budget over",
    "tasks left",
    "threads left",
)
FORM_SIZES = (10_000, 100_000, 1_000_000)  # characters, as are the next ones
CALL_SIZES = (62_500, 125_000, 250_000, 500_000, 1_000_000)
BATCH_SIZE = 100  # random runs, sync and then async
CONCURRENT_RUNS = 20
THREADS_SECONDS = 20  # in which threads may end


def main(argv: list[str] | None = None) -> Benchmark:
    options = arguments(__doc__ or "", argv)
    logging.getLogger("denoise").setLevel(logging.CRITICAL)
    bench = Benchmark("stress", options)
    if options.quick:
        report_slopes(bench, CALL_SIZES[:3], repeats=1)
        report_text_forms(bench, (1_000, 4_000))
        report_outages(bench, case_count=3)
        report_random_runs(bench, run_count=400)
    else:
        report_slopes(bench, CALL_SIZES, repeats=3)
        report_text_forms(bench, FORM_SIZES)
        report_outages(bench, case_count=20)
        report_random_runs(bench, run_count=100_000)
    return bench.finish()


def report_slopes(bench: Benchmark, sizes: Sequence[int], repeats: int) -> None:
    """Add the slope of the time of each whole call over the size of its text, both in logarithms."""
    for name, make_call in calls().items():
        seconds = []
        for size in sizes:
            seconds.append(least_seconds(make_call(size), repeats))
        log_seconds = np.log(np.maximum(seconds, 1e-6))
        slope = float(np.polyfit(np.log(sizes), log_seconds, 1)[0])
        bench.row(
            f"slope of time, {name}, to {sizes[-1]:,} characters",
            slope,
            "log/log",
            at_most=1.2,
        )
        bench.row(f"time, {name}, {sizes[-1]:,} characters", seconds[-1], "s")


def least_seconds(call: Callable[[], Any], repeats: int) -> float:
    """Return the least CPU time of the call; as in timeit, garbage is not collected meanwhile."""
    seconds = []
    gc.disable()
    for _ in range(repeats):
        start_time = time.thread_time()
        call()
        seconds.append(time.thread_time() - start_time)
    gc.enable()
    return min(seconds)


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
    rng = random.Random(bench.options.seed)
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
    bench.row("faults injected", sum(tally.faults.values()), "faults")
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
