"""What came out: means over cases, seeds averaged first, by type, with 95 % intervals; tables and plots."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from denoise_core.evaluate.metrics import bootstrap_interval
from denoise_lab.s2a.run import Score

ALL = "all"
"""The row that holds every type."""


@dataclass(frozen=True, slots=True)
class Cell:
    """The mean of a system under a judge on a type of case.

    ``interval`` is a 95 % bootstrap over cases; ``cases`` have at least one known verdict, ``unknown`` counts
    verdicts (case and seed) that are not known and enter no mean. ``mean`` is None without a known case.
    """

    system: str
    judge: str
    kind: str
    mean: float | None
    interval: tuple[float, float] | None
    cases: int
    unknown: int
    tokens: float


def table(scores: Iterable[Score]) -> list[Cell]:
    """A cell for each system, judge and type, and for all types together, in the order of the scores."""
    groups: dict[tuple[str, str, str], dict[str, list[Score]]] = defaultdict(
        lambda: defaultdict(list)
    )
    for s in scores:
        for kind in (ALL, s.kind):
            groups[s.system, s.judge, kind][s.case].append(s)
    cells = []
    for (system, judge, kind), cases in groups.items():
        known = [
            [s.value for s in of_case if s.value is not None]
            for of_case in cases.values()
        ]
        means = [sum(values) / len(values) for values in known if values]
        everything = [s for of_case in cases.values() for s in of_case]
        cells.append(
            Cell(
                system,
                judge,
                kind,
                sum(means) / len(means) if means else None,
                bootstrap_interval(means) if means else None,
                len(means),
                sum(s.value is None for s in everything),
                sum(s.tokens for s in everything) / len(everything),
            )
        )
    return cells


def markdown(cells: Sequence[Cell], judge: str) -> str:
    """One judge's table: a line for each system, a column for each type."""
    own = [c for c in cells if c.judge == judge]
    kinds = list(dict.fromkeys(c.kind for c in own))
    found = {(c.system, c.kind): c for c in own}
    lines = [
        f"| {judge} | " + " | ".join(kinds) + " | unknown | tokens |",
        "|---" * (len(kinds) + 3) + "|",
    ]
    for system in dict.fromkeys(c.system for c in own):
        shown = [_shown(found.get((system, kind))) for kind in kinds]
        total = found[system, ALL]
        lines.append(
            f"| {system} | "
            + " | ".join(shown)
            + f" | {total.unknown} | {total.tokens:.0f} |"
        )
    return "\n".join(lines) + "\n"


def _shown(cell: Cell | None) -> str:
    if cell is None or cell.mean is None or cell.interval is None:
        return "-"
    return f"{cell.mean:.3g} [{cell.interval[0]:.3g}, {cell.interval[1]:.3g}]"
