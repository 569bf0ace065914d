"""Random runs with faults, outages of remote parts, whole calls over ever longer texts, the service over texts of
every form and under four times its capacity: what is lost, not reported or left behind, and what takes long.
"""

from __future__ import annotations

import asyncio
import gc
import logging
import random
import sys
import threading
import time
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from _stress_calls import calls
from harness import Benchmark, arguments

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "tests" / "support"))

from _stress_service import measure_goodput, measure_shapes  # noqa: E402
from outage_matrix import BOUNDARIES, run_outages  # noqa: E402
from stress_runs import KINDS, Run, Tally, run_async, run_sync  # noqa: E402

FULL, QUICK = 100_000, 400
WRONG = (
    "lost",
    "unreported",
    "law broken",
    "budget over",
    "tasks left",
    "threads left",
)
SHAPE_SIZES = (10_000, 100_000, 1_000_000)
SIZES = (62_500, 125_000, 250_000, 500_000, 1_000_000)


def main(argv: list[str] | None = None) -> Benchmark:
    options = arguments(__doc__ or "", argv)
    logging.getLogger("denoise").setLevel(logging.CRITICAL)
    bench = Benchmark("stress", options)
    _slopes(
        bench, SIZES[:3] if options.quick else SIZES, repeats=1 if options.quick else 3
    )
    measure_shapes(bench, (1_000, 4_000) if options.quick else SHAPE_SIZES)
    measure_goodput(bench, 6 if options.quick else 60)
    measure_outages(bench, 3 if options.quick else 20)
    _random_runs(bench, QUICK if options.quick else FULL)
    return bench.finish()


def measure_outages(bench: Benchmark, cases: int) -> None:
    """Kills, hangs and flaps of each remote part; a lost call or one that is stuck raises."""
    for boundary in BOUNDARIES:
        _, recoveries = run_outages(boundary, cases)
        bench.row(
            f"outages of a {boundary}: slowest recovery of {cases}",
            max(recoveries),
            "s",
            at_most=10,
        )


def _random_runs(bench: Benchmark, runs: int) -> None:
    tally = Tally()
    drawn = random.Random(bench.options.seed)
    threads_before = threading.active_count()
    while tally.runs < runs:
        for _ in range(min(100, runs - tally.runs)):
            run_sync(Run.draw(drawn), tally)
        batch = [Run.draw(drawn) for _ in range(min(100, runs - tally.runs))]
        asyncio.run(_many(batch, tally))
    deadline = time.monotonic() + 20
    while threading.active_count() > threads_before and time.monotonic() < deadline:
        time.sleep(0.2)
    tally.wrong["threads left"] = max(0, threading.active_count() - threads_before)
    bench.row(
        "random runs",
        tally.runs,
        "runs",
        at_least=runs,
    )
    for part, number in sorted(tally.parts.items()):
        bench.row(f"runs, {part}", number, "runs")
    least = min(20, len(KINDS))
    bench.row(
        "kinds of fault injected",
        len(tally.faults),
        "kinds",
        at_least=least,
    )
    bench.row("faults injected", sum(tally.faults.values()), "faults")
    for name in WRONG:
        bench.row(
            name,
            tally.wrong[name],
            "runs",
            at_most=0,
        )
    for line in tally.examples[:5]:
        print(line)


async def _many(some: Sequence[Run], tally: Tally) -> None:
    for at in range(0, len(some), 20):
        await asyncio.gather(*(run_async(r, tally) for r in some[at : at + 20]))
    await asyncio.sleep(0)
    left = [t for t in asyncio.all_tasks() if t is not asyncio.current_task()]
    tally.wrong["tasks left"] += len(left)


def _slopes(bench: Benchmark, sizes: Sequence[int], repeats: int) -> None:
    for name, make in calls().items():
        best = []
        for size in sizes:
            call = make(size)
            taken = []
            gc.disable()  # as timeit does: the collector walks all that the process holds
            for _ in range(repeats):
                began = time.thread_time()
                call()
                taken.append(time.thread_time() - began)
            gc.enable()
            best.append(min(taken))
        slope = float(np.polyfit(np.log(sizes), np.log(np.maximum(best, 1e-6)), 1)[0])
        bench.row(
            f"slope of time, {name}, to {sizes[-1]:,} characters",
            slope,
            "log/log",
            at_most=1.2,
        )
        bench.row(f"time, {name}, {sizes[-1]:,} characters", best[-1], "s")


if __name__ == "__main__":
    main()
