"""Experiments with the laboratory's reader: flows through it, END on its states, the loop's town, one pass.

The benchmarks of the repository run them; here is what they share. What they report to is a `Bench`.
"""

from __future__ import annotations

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

    def row(self, measure: str, value: float, unit: str, *, interval: tuple[float, float] | None = None) -> Any:
        """Add a figure."""
        ...

    def page(self, title: str, body: str) -> str:
        """A table as a page that says what was measured with what."""
        ...

    def file(self, ending: str) -> Path:
        """Where a table or picture goes."""
        ...
