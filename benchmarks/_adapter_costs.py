"""What an adapter costs over the core, and to import: measured the same way for both frameworks."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from typing import Any

from harness import Benchmark

IMPORT_SECONDS = 0.05


def paired_ms(base: Callable[[], Any], work: Callable[[], Any], rounds: int) -> tuple[float, float]:
    """Milliseconds of this thread's processor time: the least that ``base`` took, and what the least of ``work``
    is beyond it. Both in turns; the least of many, for what else the machine does only adds to a reading."""
    alone, both = [], []
    for _ in range(rounds):
        at = time.thread_time_ns()
        base()
        between = time.thread_time_ns()
        work()
        alone.append(between - at)
        both.append(time.thread_time_ns() - between)
    return min(alone) / 1e6, (min(both) - min(alone)) / 1e6


def import_rows(bench: Benchmark, base: str, what: str, ours: Mapping[str, str], free: str = "") -> None:
    """Processor seconds of importing in a fresh interpreter, with bytecode in place.

    Of each the quickest of rounds in turns, since other work on the machine only adds. ``ours`` counts beyond
    ``base``, which ``what`` names; ``free`` has no target.
    """
    rounds = 1 if bench.options.quick else 9
    statements = {what: base, **{name: f"{base}; {code}" for name, code in ours.items()}}
    times: dict[str, list[float]] = {name: [] for name in statements}
    with tempfile.TemporaryDirectory() as cache:
        env = {**os.environ, "PYTHONPYCACHEPREFIX": cache, "PYTHONDONTWRITEBYTECODE": ""}
        for turn in range(rounds + 1):
            for name, statement in statements.items():
                code = f"import time; t = time.process_time(); {statement}; print(time.process_time() - t)"
                run = [sys.executable, "-c", code]
                done = subprocess.run(run, capture_output=True, text=True, check=True, env=env)
                if turn or bench.options.quick:  # the first turn compiles
                    times[name].append(float(done.stdout))
    quickest = {name: min(found) for name, found in times.items()}
    base_seconds = quickest.pop(what)
    bench.row(f"import {what}", base_seconds, "CPU s")
    for name, seconds in quickest.items():
        goal = None if bench.options.quick or name == free else IMPORT_SECONDS
        bench.row(f"import {name}, beyond these", seconds - base_seconds, "CPU s", at_most=goal)
