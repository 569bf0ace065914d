"""What every benchmark here shares: its arguments, its rows, its table and its results file.

A benchmark is a script with a ``main``::

    from harness import Benchmark, arguments

    def main(argv: list[str] | None = None) -> Benchmark:
        options = arguments("gold kept at a given share", argv)          # --data --quick --seed
        bench = Benchmark("selection", options)
        bench.row("gold kept, NQ, 30 %, BM25", 0.72, "share", interval=(0.65, 0.78))
        bench.row("gold kept, NQ, 30 %, default", 0.99, "share", at_least=0.98)
        return bench.finish()

    if __name__ == "__main__":
        main()

``finish`` prints the table and writes ``benchmarks/results/NAME.json``; quick runs write
``NAME.quick.json`` into a temporary folder instead, so that they never pass for results.
"""

from __future__ import annotations

import argparse
import contextlib
import datetime
import gzip
import importlib.metadata
import json
import os
import platform
import random
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

RESULTS = Path(__file__).parent / "results"
PACKAGES = ("rag-denoise", "numpy", "torch", "transformers", "scikit-learn", "langchain-core", "llama-index-core")


@dataclass(frozen=True)
class Options:
    """``data`` is the folder of real data sets or None; ``quick`` is the small form that tests run."""

    data: Path | None
    quick: bool
    seed: int


@dataclass(frozen=True)
class Row:
    """One figure. ``target`` is None for a figure that is only reported; then ``holds`` is None too."""

    measure: str
    value: float
    unit: str
    target: str | None = None
    holds: bool | None = None
    interval: tuple[float, float] | None = None  # 95 %, ends included


def arguments(description: str, argv: Sequence[str] | None = None) -> Options:
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--data", type=Path, help="folder with the real data sets (*.jsonl.gz)")
    parser.add_argument("--quick", action="store_true", help="small form: shows that it runs, measures nothing")
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args(argv)
    return Options(given.data, given.quick, given.seed)


def read(data: Path | None, name: str) -> list[dict[str, Any]]:
    """The records of ``data/name.jsonl.gz``; ends the benchmark with a sentence when it is not there."""
    if data is None:
        raise SystemExit(f"this benchmark needs real data: pass --data FOLDER (with {name}.jsonl.gz in it)")
    path = data / f"{name}.jsonl.gz"
    if not path.is_file():
        raise SystemExit(f"{path} is not there: --data must name the folder that holds {name}.jsonl.gz")
    with gzip.open(path, "rt", encoding="utf-8") as lines:
        return [json.loads(line) for line in lines]


class Benchmark:
    def __init__(self, name: str, options: Options) -> None:
        self.name = name
        self.options = options
        self.rows: list[Row] = []
        self.about: dict[str, str] = {}  # what else a reader of the results must know: model, decoding, ...
        random.seed(options.seed)

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
        """Add a figure, with its target if it has one."""
        target, holds = None, None
        if at_least is not None:
            target, holds = f">= {at_least:g}", bool(value >= at_least)
        elif at_most is not None:
            target, holds = f"<= {at_most:g}", bool(value <= at_most)
        ends = None if interval is None else (float(interval[0]), float(interval[1]))
        row = Row(measure, float(value), unit, target, holds, ends)
        self.rows.append(row)
        return row

    def finish(self) -> Benchmark:
        self._print()
        folder = Path(tempfile.gettempdir()) if self.options.quick else RESULTS
        folder.mkdir(exist_ok=True)
        path = folder / f"{self.name}{'.quick' if self.options.quick else ''}.json"
        scratch = path.with_suffix(".part")
        scratch.write_text(json.dumps(self._record(), indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
        os.replace(scratch, path)
        return self

    def _record(self) -> dict[str, Any]:
        return {
            "benchmark": self.name,
            "date": datetime.datetime.now(datetime.UTC).date().isoformat(),
            "seed": self.options.seed,
            "quick": self.options.quick,
            "machine": f"{platform.machine()}, {os.cpu_count()} cores",
            "python": platform.python_version(),
            "versions": dict(_versions()),
            **({"about": self.about} if self.about else {}),
            "rows": [asdict(r) for r in self.rows],
        }

    def _print(self) -> None:
        from rich.console import Console
        from rich.table import Table

        table = Table(title=self.name + (" (quick form: not a measurement)" if self.options.quick else ""))
        table.add_column("measure")
        table.add_column("value", justify="right")
        table.add_column("unit")
        table.add_column("95 %")
        table.add_column("target")
        table.add_column("holds")
        for r in self.rows:
            ends = f"{r.interval[0]:.3g} to {r.interval[1]:.3g}" if r.interval else ""
            holds = {None: "", True: "yes", False: "NO"}[r.holds]
            table.add_row(r.measure, f"{r.value:.4g}", r.unit, ends, r.target or "", holds)
        Console(width=max(100, Console().width)).print(table)


def _versions() -> Iterator[tuple[str, str]]:
    for package in PACKAGES:
        with contextlib.suppress(importlib.metadata.PackageNotFoundError):
            yield package, importlib.metadata.version(package)
