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
    for score in scores:
        for kind in (ALL, score.kind):
            cases = groups[score.system, score.judge, kind]
            cases[score.case].append(score)
    cells = []
    for (system, judge, kind), cases in groups.items():
        means = []
        unknown = 0
        all_tokens = []
        for case_scores in cases.values():
            values = []
            for score in case_scores:
                all_tokens.append(score.tokens)
                if score.value is None:
                    unknown += 1
                else:
                    values.append(score.value)
            if values:
                case_mean = sum(values) / len(values)
                means.append(case_mean)
        mean = None
        interval = None
        if means:
            mean = sum(means) / len(means)
            interval = bootstrap_interval(means)
        tokens = sum(all_tokens) / len(all_tokens)
        cell = Cell(
            system,
            judge,
            kind,
            mean,
            interval,
            len(means),
            unknown,
            tokens,
        )
        cells.append(cell)
    return cells


def markdown(cells: Sequence[Cell], judge: str) -> str:
    """One judge's table: a line for each system, a column for each type."""
    kinds: list[str] = []
    systems: list[str] = []
    judge_cells = {}
    for cell in cells:
        if cell.judge != judge:
            continue
        if cell.kind not in kinds:
            kinds.append(cell.kind)
        if cell.system not in systems:
            systems.append(cell.system)
        judge_cells[cell.system, cell.kind] = cell
    lines = [
        f"| {judge} | " + " | ".join(kinds) + " | unknown | tokens |",
        "|---" * (len(kinds) + 3) + "|",
    ]
    for system in systems:
        line = f"| {system} | "
        texts = [_shown(judge_cells.get((system, kind))) for kind in kinds]
        line += " | ".join(texts)
        total = judge_cells[system, ALL]
        line += f" | {total.unknown} | {total.tokens:.0f} |"
        lines.append(line)
    return "\n".join(lines) + "\n"


def _shown(cell: Cell | None) -> str:
    if cell is None or cell.mean is None or cell.interval is None:
        return "-"
    low, high = cell.interval
    return f"{cell.mean:.3g} [{low:.3g}, {high:.3g}]"
