"""Random runs with faults, pumped calls, stalls of the event loop and attacks: what is lost, unreported or
left behind.

make bench ONLY=stress                             100,000 runs and everything else
python benchmarks/stress.py --tally F --seed S     only runs, counted in folder F; again with another seed for more
python benchmarks/stress.py --sum F                everything else, and all runs that were counted in F
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import json
import logging
import random
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from _stress_calls import calls
from harness import Benchmark, Options

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "tests" / "support"))

from attack_harness import attacks, tried  # noqa: E402
from pumped_patterns import ALL, pumped  # noqa: E402
from stress_faults import KINDS  # noqa: E402
from stress_runs import Run, Tally, run_async, run_sync  # noqa: E402

FULL, QUICK = 100_000, 400
WRONG = (
    "lost",
    "unreported",
    "law broken",
    "budget over",
    "tasks left",
    "threads left",
)
SIZES = (62_500, 125_000, 250_000, 500_000, 1_000_000)


def main(argv: list[str] | None = None) -> Benchmark:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--runs", type=int, default=0)
    parser.add_argument(
        "--minutes",
        type=float,
        default=600,
        help="stop the random runs then, and count what was run",
    )
    parser.add_argument(
        "--tally", type=Path, help="only the random runs, counted in this folder"
    )
    parser.add_argument(
        "--sum", type=Path, help="count the runs of every --tally to this folder"
    )
    given = parser.parse_args(argv)
    logging.getLogger("denoise").setLevel(logging.CRITICAL)
    bench = Benchmark("stress", Options(given.data, given.quick, given.seed))
    runs = given.runs or (QUICK if given.quick else FULL)
    if given.tally is not None:
        counted = _random_runs(runs, given.seed, given.minutes * 60)
        given.tally.mkdir(parents=True, exist_ok=True)
        (given.tally / f"{given.seed}.json").write_text(
            json.dumps(asdict(counted)), "utf-8"
        )
        print(counted)
        return bench
    _slopes(bench, SIZES[:3] if given.quick else SIZES, repeats=1 if given.quick else 3)
    _stall(bench, 50_000 if given.quick else 200_000)
    _attacks(bench)
    _patterns(bench, 10 if given.quick else None)
    if given.sum is None:
        _told(bench, [_random_runs(runs, given.seed, given.minutes * 60)])
    else:
        files = sorted(given.sum.glob("*.json"))
        _told(bench, [Counted(**json.loads(p.read_text("utf-8"))) for p in files])
    return bench.finish()


@dataclass
class Counted:
    """What came of the random runs of one seed."""

    seed: int
    runs: int
    seconds: float
    faults: dict[str, int]
    parts: dict[str, int]
    wrong: dict[str, int]
    examples: list[str] = field(default_factory=list)


def _random_runs(runs: int, seed: int, limit: float) -> Counted:
    tally, drawn = Tally(), random.Random(seed)
    before = threading.active_count()
    began = time.perf_counter()
    while tally.runs < runs and time.perf_counter() - began < limit:
        for _ in range(min(100, runs - tally.runs)):
            run_sync(Run.draw(drawn), tally)
        asyncio.run(
            _many([Run.draw(drawn) for _ in range(min(100, runs - tally.runs))], tally)
        )
    seconds = time.perf_counter() - began
    deadline = time.monotonic() + 20
    while threading.active_count() > before and time.monotonic() < deadline:
        time.sleep(0.2)
    tally.wrong["threads left"] = max(0, threading.active_count() - before)
    wrong = {name: tally.wrong[name] for name in WRONG}
    return Counted(
        seed,
        tally.runs,
        seconds,
        dict(tally.faults),
        dict(tally.parts),
        wrong,
        tally.examples[:20],
    )


def _told(bench: Benchmark, counted: Sequence[Counted]) -> None:
    if len({c.seed for c in counted}) < len(counted) or not counted:
        raise SystemExit("expected runs of one seed or several, each once")
    runs = sum(c.runs for c in counted)
    faults = sum((Counter(c.faults) for c in counted), Counter[str]())
    parts = sum((Counter(c.parts) for c in counted), Counter[str]())
    bench.about["random runs"] = "; ".join(
        f"seed {c.seed}: {c.runs} in {c.seconds / 60:.0f} min" for c in counted
    )
    bench.row(
        "random runs", runs, "runs", at_least=None if bench.options.quick else FULL
    )
    for part, number in sorted(parts.items()):
        bench.row(f"runs, {part}", number, "runs")
    bench.row(
        "kinds of fault injected", len(faults), "kinds", at_least=min(20, len(KINDS))
    )
    bench.row("faults injected", sum(faults.values()), "faults")
    for name in WRONG:
        bench.row(name, sum(c.wrong[name] for c in counted), "runs", at_most=0)
    bench.row("runs in a second", runs / sum(c.seconds for c in counted), "1/s")
    for line in [e for c in counted for e in c.examples][:5]:
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


def _patterns(bench: Benchmark, most: int | None) -> None:
    found = [pumped(one) for one in ALL[:most]]
    slow = [problem for _, problem in found if problem]
    bench.row("regular expressions", len(found), "patterns")
    bench.row(
        "strings they were pumped with", sum(strings for strings, _ in found), "strings"
    )
    bench.row(
        "regular expressions slower than in proportion",
        len(slow),
        "patterns",
        at_most=0,
    )
    for problem in slow:
        print(problem)


def _stall(bench: Benchmark, size: int) -> None:
    """The longest time between two ticks of an event loop while everything runs on it with much evidence."""
    from denoise_core import Passage
    from denoise_core.augmenter import Augmenter
    from denoise_core.end import ENDDenoiser
    from denoise_core.s2a import S2ADenoiser
    from denoise_core.scorers import BM25Scorer
    from denoise_core.testing import FunctionLLM, ListRetriever

    text = "The tower is 330 m tall and stands in Paris since 1889. " * (size // 1100)
    evidence = [Passage(text, str(n)) for n in range(20)]
    worst: dict[str, float] = {}

    async def watched(name: str, call: Callable[[], Any]) -> None:
        gaps, over = [0.0], asyncio.Event()

        async def tick() -> None:
            last = time.perf_counter()
            while not over.is_set():
                await asyncio.sleep(0)
                now = time.perf_counter()
                gaps.append(now - last)
                last = now

        ticking = asyncio.create_task(tick())
        await asyncio.sleep(0.01)
        await call()
        over.set()
        await ticking
        worst[name] = max(gaps) * 1000

    loop = Augmenter(
        FunctionLLM(lambda m: "The tower is 330 m tall [1]."), ListRetriever(evidence)
    )
    end = ENDDenoiser(BM25Scorer(), keep=0.5)
    s2a = S2ADenoiser(FunctionLLM(lambda m: "1"), variant="select")
    for name, call in (
        ("END", lambda: end.adenoise("How tall?", evidence)),
        ("S2A", lambda: s2a.adenoise("How tall?", evidence)),
        ("Augmenter", lambda: loop.aanswer("How tall is the tower?")),
    ):
        asyncio.run(watched(name, call))
        bench.row(
            f"worst stall of the event loop, {name}, {size:,} characters",
            worst[name],
            "ms",
            at_most=50,
        )


def _attacks(bench: Benchmark) -> None:
    leaks, happened, runs = [], Counter[str](), 0
    given = attacks()
    for attack in given:
        for method in attack["methods"]:
            outcome = tried(attack, method)
            runs += 1
            leaks += outcome.leaks
            happened.update(outcome.can_happen)
    bench.row("attacks", len(given), "attacks")
    bench.row("attacks by method", runs, "runs")
    bench.row("attacks: outside the documented table", len(leaks), "leaks", at_most=0)
    for what, count in sorted(happened.items()):
        bench.row(f"in the table: {what}", count, "runs")


if __name__ == "__main__":
    main()
