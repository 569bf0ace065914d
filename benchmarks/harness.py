"""What every benchmark here shares: its arguments, its rows, its table and its results file.

A benchmark is a script with a ``main``::

    from harness import Benchmark, arguments

    def main(argv: list[str] | None = None) -> Benchmark:
        options = arguments("gold kept at a given share", argv)          # --data --quick --seed
        bench = Benchmark("selection", options)
        bench.mean("gold kept, NQ, 30 %, BM25", kept["BM25"])                # each question's value; bootstrap
        bench.share("answers right", hits, n, at_least=0.9)                   # a count; Wilson
        bench.gain("default less BM25", kept["default"], kept["BM25"])        # paired; bootstrap
        bench.row("seconds a question", 0.03, "s", at_most=0.1)               # any other figure
        return bench.finish()

    if __name__ == "__main__":
        main()

``bench.under("NQ: ")`` is the same benchmark with words before each measure. ``finish`` prints the table and
writes ``benchmarks/results/NAME.json``; quick runs have no targets and write ``NAME.quick.json`` into the
working folder instead, so that they never pass for results.
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
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from rich.console import Console

from denoise_core._files import write_whole
from denoise_core.cli.terminal import print_table
from denoise_core.evaluate.metrics import bootstrap_interval, wilson_interval
from denoise_lab.experiments import read_data_set

__all__ = ["Benchmark", "Options", "Row", "arguments", "json_lines", "read_data_set"]

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
class Options:
    """``data`` is the folder of real data sets or None; ``quick`` is the small form that tests run."""

    data: Path | None
    quick: bool
    seed: int
    given: argparse.Namespace = field(  # what else a benchmark takes
        default_factory=argparse.Namespace
    )

    @property
    def folder(self) -> Path:
        """``data``, of a benchmark that needs it."""
        if self.data is None:
            raise SystemExit("this benchmark needs real data: pass --data FOLDER")
        return self.data


@dataclass(frozen=True)
class Row:
    """One figure. ``target`` is None for a figure that is only reported; then ``holds`` is None too."""

    measure: str
    value: float
    unit: str
    target: str | None = None
    holds: bool | None = None
    interval: tuple[float, float] | None = None  # 95 %, ends included


def arguments(
    description: str,
    argv: Sequence[str] | None = None,
    *own: argparse.ArgumentParser,
) -> Options:
    """What was asked for; ``own`` are parsers without help of a benchmark's own arguments."""
    parser = argparse.ArgumentParser(description=description, parents=own)
    parser.add_argument(
        "--data", type=Path, help="folder with the real data sets (*.jsonl.gz)"
    )
    parser.add_argument(
        "--quick",
        action="store_true",
        help="small form: shows that it runs, measures nothing",
    )
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args(argv)
    return Options(given.data, given.quick, given.seed, given)


def json_lines(path: Path) -> list[dict[str, Any]]:
    """The records of a file that has one a line."""
    if not path.is_file():
        raise SystemExit(
            f"{path} is not there: --data must name the folder that holds it"
        )
    lines = path.read_text("utf-8").splitlines()
    return [json.loads(line) for line in lines if line.strip()]


class Benchmark:
    prefix = ""  # of each measure

    def __init__(self, name: str, options: Options) -> None:
        self.has_targets = not options.quick
        self.name = name
        self.options = options
        self.rows: list[Row] = []
        self.about: dict[
            str, str
        ] = {}  # what else a reader of the results must know: model, decoding, ...
        random.seed(options.seed)

    def under(self, prefix: str = "", *, has_targets: bool = True) -> Benchmark:
        """The same benchmark with ``prefix`` before each measure; without targets, rows are only reported."""
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
        """Add a figure, with its target if it has one."""
        target, holds = None, None
        if not self.has_targets:
            at_least = at_most = None
        if at_least is not None:
            target, holds = f">= {at_least:g}", bool(value >= at_least)
        elif at_most is not None:
            target, holds = f"<= {at_most:g}", bool(value <= at_most)
        ends = None if interval is None else (float(interval[0]), float(interval[1]))
        row = Row(self.prefix + measure, float(value), unit, target, holds, ends)
        self.rows.append(row)
        return row

    def share(
        self,
        measure: str,
        hits: float,
        n: int,
        unit: str = "share",
        **target: float | None,
    ) -> Row:
        """``hits`` of ``n``, with Wilson's interval; 0 in (0, 1) when nothing was counted."""
        ends = wilson_interval(round(hits), n) if n else (0.0, 1.0)
        return self.row(
            measure,
            hits / n if n else 0.0,
            unit,
            interval=ends,
            **target,
        )

    def right(
        self,
        measure: str,
        values: Sequence[bool],
        unit: str = "share",
        **target: float | None,
    ) -> Row:
        """As `share`, of one yes or no for each question."""
        return self.share(
            measure,
            int(sum(values)),
            len(values),
            unit,
            **target,
        )

    def mean(
        self,
        measure: str,
        values: ArrayLike,
        unit: str = "share",
        **target: float | None,
    ) -> Row:
        """The mean over questions, with a bootstrap's interval."""
        return self.row(
            measure,
            float(np.mean(np.asarray(values))),
            unit,
            interval=bootstrap_interval(values),
            **target,
        )

    def gain(
        self,
        measure: str,
        better: ArrayLike,
        worse: ArrayLike,
        unit: str = "share",
        **target: float | None,
    ) -> Row:
        """The mean difference on the same questions."""
        less = np.asarray(better, dtype=np.float64) - np.asarray(
            worse, dtype=np.float64
        )
        return self.mean(
            measure,
            less,
            unit,
            **target,
        )

    def finish(self) -> Benchmark:
        self._print()
        record_json = json.dumps(self._record(), indent=1, ensure_ascii=False)
        path = RESULTS / f"{self.name}.json"
        if self.options.quick:
            path = Path.cwd() / f"{self.name}.quick.json"
        write_whole(path, record_json + "\n")
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
        title = self.name
        if self.options.quick:
            title += " (quick form: not a measurement)"
        table = [["measure", "value", "unit", "95 %", "target", "holds"]]
        for r in self.rows:
            ends = f"{r.interval[0]:.3g} to {r.interval[1]:.3g}" if r.interval else ""
            holds = {None: "", True: "yes", False: "NO"}[r.holds]
            table.append(
                [r.measure, f"{r.value:.4g}", r.unit, ends, r.target or "", holds]
            )
        print_table(Console(width=max(100, Console().width)), table, title)


def _versions() -> Iterator[tuple[str, str]]:
    for package in PACKAGES:
        with contextlib.suppress(importlib.metadata.PackageNotFoundError):
            yield package, importlib.metadata.version(package)
