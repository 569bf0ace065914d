"""What the benchmarks of the repository share. They report their figures to a `FigureReport`."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Protocol

from denoise_core.evaluate.datasets import read_records


class BenchmarkOptions(Protocol):
    """Options of a benchmark: the folder of real data sets or None, the small form for tests, the seed."""

    @property
    def data(self) -> Path | None: ...

    @property
    def quick(self) -> bool: ...

    @property
    def seed(self) -> int: ...


class FigureReport(BenchmarkOptions, Protocol):
    """Where figures go; ``about`` is what a reader of them must know besides."""

    about: dict[str, str]

    def row(
        self,
        measure: str,
        value: float,
        unit: str,
        *,
        interval: tuple[float, float] | None = None,
        at_least: float | None = None,
    ) -> Any:
        """Add a figure."""
        ...


def read_data_set(data: Path | None, name: str) -> list[dict[str, Any]]:
    """Return the records of ``data/name.jsonl.gz``; ends the benchmark with a message if there is no such file."""
    if data is None:
        raise SystemExit(
            f"this benchmark needs real data: pass --data FOLDER (with {name}.jsonl.gz in it)"
        )
    path = data / f"{name}.jsonl.gz"
    if not path.is_file():
        raise SystemExit(
            f"{path} is not there: --data must name the folder that holds {name}.jsonl.gz"
        )
    return [record for _, record in read_records(path)]
