"""One table of a paper: every system answers every case, a judge marks the answers, and columns hold means.

All three papers use `denoise_lab.s2a.cases.Case`. The model is called through a
`comparison.reply_log.ReplyLog`, so a run that was killed resumes without repeating a call,
and its figures do not depend on when it was killed.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import as_completed
from dataclasses import dataclass, field
from functools import partial

from denoise_core._optional import render_html
from denoise_core.errors import format_error, is_user_error
from denoise_core.evaluate.comparison.figures import (
    MeanInterval,
    mean_interval,
    mean_usage,
)
from denoise_core.protocols import LLM
from denoise_core.runtime.effects import Flow
from denoise_core.runtime.flow import run
from denoise_core.runtime.thread_pool import DaemonThreadPool
from denoise_core.types import Usage
from denoise_lab.protocols.papers import ALL, Paper
from denoise_lab.s2a.cases import Case
from denoise_lab.s2a.judges import Judge


@dataclass(frozen=True, slots=True)
class SystemReply:
    """A system's answer; ``fell_back`` says that its method failed and it answered from the unchanged text."""

    text: str
    fell_back: bool = False


System = Callable[[Case], Flow[SystemReply]]


@dataclass(frozen=True, slots=True)
class Sheet:
    """A table to be filled. ``measure`` is in percent; ``kinds`` of the cases are its columns, in their order.

    ``notes`` name the data and the judge behind the figures.
    """

    name: str
    title: str
    measure: str
    cases: Sequence[Case]
    systems: Mapping[str, System]
    judge: Judge
    paper: Paper
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Line:
    """One system. ``cells`` by column, in percent, with 95 % intervals over cases; ``paper`` the paper's, where it
    has one. ``failed`` cases enter no mean, nor do those whose verdict is ``unknown``. Tokens are means a case.
    """

    system: str
    cells: Mapping[str, MeanInterval]
    paper: Mapping[str, float]
    cases: int
    failed: int
    first_error: str | None
    unknown: int
    fell_back: int
    input_tokens: float | None
    output_tokens: float | None


@dataclass(frozen=True, slots=True)
class Table:
    """What came out of a `Sheet`."""

    name: str
    title: str
    measure: str
    columns: tuple[str, ...]
    lines: tuple[Line, ...]
    source: str
    notes: tuple[str, ...] = ()

    def __repr__(self) -> str:
        cases = max((line.cases for line in self.lines), default=0)
        return f"Table({self.title!r}: {len(self.lines)} systems, {cases} cases, {self.measure})"

    def _repr_html_(self) -> str | None:
        return render_html("denoise_lab.protocols.table", self)

    def line(self, system: str) -> Line:
        """Raises `KeyError` for a system that is none."""
        found = next((line for line in self.lines if line.system == system), None)
        if found is None:
            raise KeyError(system)
        return found


@dataclass(frozen=True, slots=True)
class Result:
    """One case by one system; ``value`` None is unknown, or failed where there is an ``error``."""

    value: float | None
    usage: Usage = field(default_factory=lambda: Usage(0, 0))
    fell_back: bool = False
    error: str | None = None


def run_sheets(
    sheets: Sequence[Sheet],
    llm: LLM,
    *,
    workers: int = 1,
    progress: Callable[[int, int], None] | None = None,
) -> tuple[Table, ...]:
    """Ask every system of every sheet every case; ``workers`` cases at a time, in any order, with the same
    figures.

    What fails on a case is counted and named, and the rest goes on; mistakes (a refused key, a missing extra)
    raise. ``progress`` hears of cases done, and of all.
    """
    jobs = [
        (n, name, c)
        for n, sheet in enumerate(sheets)
        for name in sheet.systems
        for c in sheet.cases
    ]
    found: dict[tuple[int, str, str], Result] = {}
    pool = DaemonThreadPool(workers)
    waiting = {
        pool.submit(
            partial(_result, sheets[n].systems[name], case, sheets[n].judge, llm)
        ): (n, name, case.id)
        for n, name, case in jobs
    }
    try:
        for done, future in enumerate(as_completed(waiting), 1):
            found[waiting[future]] = future.result()
            if progress is not None:
                progress(done, len(jobs))
    finally:  # after a mistake or Ctrl-C nothing new begins
        pool.close()
    return tuple(
        table_of(
            sheet,
            {s: [found[n, s, c.id] for c in sheet.cases] for s in sheet.systems},
        )
        for n, sheet in enumerate(sheets)
    )


def table_of(sheet: Sheet, results: Mapping[str, Sequence[Result]]) -> Table:
    """The table of results, for each system in the order of the sheet's cases."""
    kinds = list(dict.fromkeys(c.kind for c in sheet.cases))
    columns = (ALL, *kinds) if len(kinds) > 1 else (ALL,)
    lines = tuple(_line(sheet, s, rows, columns) for s, rows in results.items())
    return Table(
        sheet.name,
        sheet.title,
        sheet.measure,
        columns,
        lines,
        sheet.paper.source,
        sheet.notes,
    )


def _line(
    sheet: Sheet,
    system: str,
    rows: Sequence[Result],
    columns: Sequence[str],
) -> Line:
    cells = {}
    for column in columns:
        own = [
            r.value
            for r, c in zip(rows, sheet.cases, strict=True)
            if column in (ALL, c.kind)
        ]
        mean = mean_interval([v for v in own if v is not None])
        if mean is not None:
            cells[column] = MeanInterval(
                100 * mean.value, 100 * mean.low, 100 * mean.high, mean.count
            )
    done = [r for r in rows if r.error is None]
    errors = [r.error for r in rows if r.error is not None]
    return Line(
        system,
        cells,
        {c: v for c, v in sheet.paper.figures.get(system, {}).items() if c in columns},
        len(rows),
        len(errors),
        errors[0] if errors else None,
        sum(r.value is None for r in done),
        sum(r.fell_back for r in done),
        **mean_usage([r.usage for r in done]),
    )


def _result(system: System, case: Case, judge: Judge, llm: LLM) -> Result:
    try:
        answer, trace = run(system(case), llm=llm)
        value, _ = run(judge.judge(case, answer.text), llm=llm)
    except (
        Exception
    ) as error:  # a model that fails on one case is counted, a mistake raises
        if is_user_error(error):
            raise
        return Result(None, error=format_error(error))
    return Result(value, trace.usage, answer.fell_back)
