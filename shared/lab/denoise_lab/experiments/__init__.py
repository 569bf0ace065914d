"""What the benchmarks of the repository share. What they report to is a `Bench`."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any, Protocol


class Options(Protocol):
    """``data`` is the folder of real data sets or None; ``quick`` is the small form that measures nothing."""

    @property
    def data(self) -> Path | None: ...

    @property
    def quick(self) -> bool: ...

    @property
    def seed(self) -> int: ...


class Bench(Protocol):
    """Where figures go. ``about`` is what else a reader of them must know."""

    about: dict[str, str]

    @property
    def options(self) -> Options: ...

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


def read(data: Path | None, name: str) -> list[dict[str, Any]]:
    """The records of ``data/name.jsonl.gz``; ends the benchmark with a sentence when it is not there."""
    if data is None:
        raise SystemExit(
            f"this benchmark needs real data: pass --data FOLDER (with {name}.jsonl.gz in it)"
        )
    path = data / f"{name}.jsonl.gz"
    if not path.is_file():
        raise SystemExit(
            f"{path} is not there: --data must name the folder that holds {name}.jsonl.gz"
        )
    with gzip.open(path, "rt", encoding="utf-8") as lines:
        return [json.loads(line) for line in lines]
