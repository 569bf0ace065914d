"""What every benchmark shares: its arguments, its rows, its table and its results file.

A benchmark is a script with a ``main``::

    from harness import Benchmark

    def main() -> None:
        bench = Benchmark("selection", "gold kept at a given share")  # --data --quick --seed
        bench.mean("gold kept, NQ, 30 %, BM25", kept["BM25"])     # a value a question; bootstrap interval
        bench.share("answers right", hits, total, at_least=0.9)   # a count; Wilson interval
        bench.right("called absent", is_called_absent)            # a boolean a question; Wilson interval
        bench.row("seconds a question", 0.03, "s", at_most=0.1)   # any other figure
        bench.finish()

    if __name__ == "__main__":
        main()

``bench.under("NQ: ")`` is the same benchmark with a prefix for each measure. ``finish`` prints the table and
writes ``benchmarks/results/NAME.json``. A quick run has no targets and writes ``NAME.quick.json`` into the
working folder, so that nobody takes it for a result.
"""

from __future__ import annotations

import argparse
import contextlib
import copy
import datetime
import importlib.metadata
import json
import os
import platform
import random
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from rich.console import Console

from denoise_core._files import write_whole
from denoise_core.cli.terminal import print_table
from denoise_core.evaluate.metrics import bootstrap_interval, wilson_interval
from denoise_lab.experiments import read_data_set

__all__ = ["Benchmark", "Row", "cpu_seconds", "json_lines", "read_data_set"]

RESULTS = Path(__file__).parent / "results"
PACKAGES = (
    "rag-denoise",
    "numpy",
    "torch",
    "transformers",
    "scikit-learn",
    "langchain-core",
    "llama-index-core",
)


@dataclass(frozen=True)
class Row:
    """One figure. ``target`` is None for a figure that is only reported; then ``holds`` is None too."""

    measure: str
    value: float
    unit: str
    target: str | None = None
    holds: bool | None = None
    interval: tuple[float, float] | None = None  # 95 %, ends included


def json_lines(path: Path) -> list[dict[str, Any]]:
    """Read a JSON Lines file."""
    if not path.is_file():
        raise SystemExit(
            f"{path} is not there: --data must name the folder that holds it"
        )
    lines = path.read_text("utf-8").splitlines()
    return [json.loads(line) for line in lines if line.strip()]


def cpu_seconds(call: Callable[[], object]) -> float:
    """Return the seconds of this process's CPU time that a call takes."""
    start_time = time.process_time()
    call()
    return time.process_time() - start_time


class Benchmark:
    """The rows of one benchmark.

    Attributes:
        data: The folder of real data sets, or None.
        quick: Whether this is the small form, which tests run and which measures nothing.
        seed: Of everything that is drawn at random.
        given: All arguments, with those of ``parsers`` (``add_help=False``), which only this benchmark takes.
        about: What else a reader must know, such as the model.
    """

    prefix = ""  # of each measure

    def __init__(
        self,
        name: str,
        description: str | None,
        *parsers: argparse.ArgumentParser,
    ) -> None:
        parser = argparse.ArgumentParser(description=description, parents=parsers)
        parser.add_argument(
            "--data",
            type=Path,
            help="folder with the real data sets (*.jsonl.gz)",
        )
        parser.add_argument(
            "--quick",
            action="store_true",
            help="small form: shows that it runs, measures nothing",
        )
        parser.add_argument("--seed", type=int, default=0)
        self.given = parser.parse_args()
        self.data: Path | None = self.given.data
        self.quick: bool = self.given.quick
        self.seed: int = self.given.seed
        self.name = name
        self.has_targets = not self.quick
        self.rows: list[Row] = []
        self.about: dict[str, str] = {}
        random.seed(self.seed)

    @property
    def folder(self) -> Path:
        """``data``, for a benchmark that needs it; without it the benchmark ends."""
        if self.data is None:
            raise SystemExit("this benchmark needs real data: pass --data FOLDER")
        return self.data

    def under(self, prefix: str = "", *, has_targets: bool = True) -> Benchmark:
        """Return the same benchmark with a longer prefix; without targets its rows are only reported."""
        view = copy.copy(self)
        view.prefix += prefix
        view.has_targets &= has_targets
        return view

    def row(
        self,
        measure: str,
        value: float,
        unit: str,
        *,
        at_least: float | None = None,
        at_most: float | None = None,
        interval: tuple[float, float] | None = None,
    ) -> Row:
        """Add a figure with its 95 % interval and its target, if it has them."""
        target = None
        holds = None
        if self.has_targets and at_least is not None:
            target = f">= {at_least:g}"
            holds = bool(value >= at_least)
        elif self.has_targets and at_most is not None:
            target = f"<= {at_most:g}"
            holds = bool(value <= at_most)
        if interval is not None:
            interval = (float(interval[0]), float(interval[1]))
        row = Row(self.prefix + measure, float(value), unit, target, holds, interval)
        self.rows.append(row)
        return row

    def share(
        self,
        measure: str,
        hits: float,
        total: int,
        **target: float | None,
    ) -> Row:
        """Add ``hits / total`` with Wilson's interval; 0 with the interval (0, 1) for a total of 0."""
        value = 0.0
        interval = (0.0, 1.0)
        if total:
            value = hits / total
            interval = wilson_interval(round(hits), total)
        return self.row(measure, value, "share", interval=interval, **target)

    def right(
        self,
        measure: str,
        values: Sequence[bool],
        **target: float | None,
    ) -> Row:
        """Add the share of questions whose value is true."""
        return self.share(measure, sum(values), len(values), **target)

    def mean(
        self,
        measure: str,
        values: ArrayLike,
        unit: str = "share",
        **target: float | None,
    ) -> Row:
        """Add the mean over questions with a bootstrap interval."""
        value = float(np.mean(np.asarray(values)))
        interval = bootstrap_interval(values)
        return self.row(measure, value, unit, interval=interval, **target)

    def finish(self) -> None:
        """Print the table and write the results file."""
        self._print_table()
        path = RESULTS / f"{self.name}.json"
        if self.quick:
            path = Path.cwd() / f"{self.name}.quick.json"
        text = json.dumps(self._record(), indent=1, ensure_ascii=False)
        write_whole(path, text + "\n")

    def _record(self) -> dict[str, Any]:
        record: dict[str, Any] = {
            "benchmark": self.name,
            "date": datetime.datetime.now(datetime.UTC).date().isoformat(),
            "seed": self.seed,
            "quick": self.quick,
            "machine": f"{platform.machine()}, {os.cpu_count()} cores",
            "python": platform.python_version(),
            "versions": _package_versions(),
        }
        if self.about:
            record["about"] = self.about
        record["rows"] = [asdict(row) for row in self.rows]
        return record

    def _print_table(self) -> None:
        title = self.name
        if self.quick:
            title += " (quick form: not a measurement)"
        table = [["measure", "value", "unit", "95 %", "target", "holds"]]
        for row in self.rows:
            value = f"{row.value:.4g}"
            interval = ""
            if row.interval:
                interval = f"{row.interval[0]:.3g} to {row.interval[1]:.3g}"
            holds = {None: "", True: "yes", False: "NO"}[row.holds]
            target = row.target or ""
            table.append([row.measure, value, row.unit, interval, target, holds])
        print_table(Console(width=max(100, Console().width)), table, title)


def _package_versions() -> dict[str, str]:
    versions = {}
    for package in PACKAGES:
        with contextlib.suppress(importlib.metadata.PackageNotFoundError):
            versions[package] = importlib.metadata.version(package)
    return versions
