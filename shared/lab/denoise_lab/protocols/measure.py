"""Measure one table of a paper: every system answers every case, a judge scores the answers, cells hold means.

All three papers use `denoise_lab.s2a.cases.Case`. The model is called through a
`comparison.reply_log.ReplyLog`, so a run that was killed resumes without repeating a call,
and its figures do not depend on when it was killed.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, as_completed
from dataclasses import dataclass, field
from functools import partial

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
from denoise_lab.protocols.papers import ALL, PaperFigures
from denoise_lab.s2a.cases import Case
from denoise_lab.s2a.judges import Judge


@dataclass(frozen=True, slots=True)
class SystemReply:
    """A system's answer to one case.

    Attributes:
        text: The answer.
        fell_back: The system's method failed, and it answered from the unchanged text.
    """

    text: str
    fell_back: bool = False


AnswerSystem = Callable[[Case], Flow[SystemReply]]


@dataclass(frozen=True, slots=True)
class TableSpec:
    """What a table measures, before any model is asked.

    Attributes:
        name: Name in files.
        title: Title for readers.
        measure: What the cells are, in percent.
        cases: The questions. Their kinds, in order, are the table's columns.
        systems: The ways to answer, by name: the table's rows.
        judge: Scores each answer.
        paper: The paper's figures.
        notes: The data and the judge behind the figures, one sentence each.
    """

    name: str
    title: str
    measure: str
    cases: Sequence[Case]
    systems: Mapping[str, AnswerSystem]
    judge: Judge
    paper: PaperFigures
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class TableRow:
    """The figures of one system.

    Attributes:
        system: Its name.
        cells: By column the mean in percent, with its 95 % interval over cases. Failed cases
            and cases with an unknown verdict are in no mean.
        paper: By column the paper's figure in percent, where it has one.
        cases: Number of cases that were asked.
        failed: Number of cases on which the system or the judge failed.
        first_error: The first failure, or None.
        unknown: Number of answers that the judge could not score.
        fell_back: Number of cases answered from the unchanged text.
        input_tokens: Mean per case, None if the model does not report it.
        output_tokens: Mean per case, None if the model does not report it.
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
class ProtocolTable:
    """A measured table; ``lines`` has one `TableRow` per system, ``source`` names the paper's figures."""

    name: str
    title: str
    measure: str
    columns: tuple[str, ...]
    lines: tuple[TableRow, ...]
    source: str
    notes: tuple[str, ...] = ()

    def line(self, system: str) -> TableRow:
        """Return the row of a system. Raises `KeyError` if the table has none of that name."""
        for row in self.lines:
            if row.system == system:
                return row
        raise KeyError(system)


@dataclass(frozen=True, slots=True)
class CaseResult:
    """The score of one system on one case; ``value`` None is unknown, or failed if there is an ``error``."""

    value: float | None
    usage: Usage = field(default_factory=lambda: Usage(0, 0))
    fell_back: bool = False
    error: str | None = None


# Number of the table, name of the system, number of the case: a user's file may repeat a case's id.
JobKey = tuple[int, str, int]


def measure_tables(
    table_specs: Sequence[TableSpec],
    llm: LLM,
    *,
    workers: int = 1,
    progress: Callable[[int, int], None] | None = None,
) -> tuple[ProtocolTable, ...]:
    """Ask every system of every table every case.

    A failure on a case is counted and named, and the other cases go on; mistakes of the user
    (a refused key, a missing extra) raise.

    Args:
        table_specs: The tables.
        llm: The model that systems and judges ask, unless they have one of their own.
        workers: Cases at a time. The figures do not depend on it.
        progress: Called with the number of cases done and of all cases.
    """
    pool = DaemonThreadPool(workers)
    pending = _submit_cases(pool, table_specs, llm)
    case_results: dict[JobKey, CaseResult] = {}
    try:
        for done_count, future in enumerate(as_completed(pending), 1):
            case_results[pending[future]] = future.result()
            if progress is not None:
                progress(done_count, len(pending))
    finally:  # after a mistake or Ctrl-C nothing new begins
        pool.close()
    tables = []
    for spec_number, table_spec in enumerate(table_specs):
        results_by_system = {}
        for system_name in table_spec.systems:
            system_results = []
            for case_number in range(len(table_spec.cases)):
                job_key = (spec_number, system_name, case_number)
                system_results.append(case_results[job_key])
            results_by_system[system_name] = system_results
        tables.append(_fill_table(table_spec, results_by_system))
    return tuple(tables)


def _submit_cases(
    pool: DaemonThreadPool, table_specs: Sequence[TableSpec], llm: LLM
) -> dict[Future[CaseResult], JobKey]:
    pending: dict[Future[CaseResult], JobKey] = {}
    for spec_number, table_spec in enumerate(table_specs):
        for system_name, system in table_spec.systems.items():
            for case_number, case in enumerate(table_spec.cases):
                job = partial(_measure_case, system, case, table_spec.judge, llm)
                pending[pool.submit(job)] = (spec_number, system_name, case_number)
    return pending


def _fill_table(
    table_spec: TableSpec, results_by_system: Mapping[str, Sequence[CaseResult]]
) -> ProtocolTable:
    """Make the table of results; each system's are in the order of the cases."""
    kinds = dict.fromkeys(case.kind for case in table_spec.cases)
    columns: tuple[str, ...] = (ALL,)
    if len(kinds) > 1:
        columns = (ALL, *kinds)
    rows = []
    for system_name, case_results in results_by_system.items():
        rows.append(_fill_row(table_spec, system_name, case_results, columns))
    return ProtocolTable(
        table_spec.name,
        table_spec.title,
        table_spec.measure,
        columns,
        tuple(rows),
        table_spec.paper.source,
        table_spec.notes,
    )


def _fill_row(
    table_spec: TableSpec,
    system_name: str,
    case_results: Sequence[CaseResult],
    columns: Sequence[str],
) -> TableRow:
    paper_figures = table_spec.paper.figures.get(system_name, {})
    shown_figures = {
        column: figure for column, figure in paper_figures.items() if column in columns
    }
    done_results = [result for result in case_results if result.error is None]
    errors = [result.error for result in case_results if result.error is not None]
    return TableRow(
        system_name,
        _fill_cells(table_spec, case_results, columns),
        shown_figures,
        len(case_results),
        len(errors),
        next(iter(errors), None),
        sum(result.value is None for result in done_results),
        sum(result.fell_back for result in done_results),
        **mean_usage([result.usage for result in done_results]),
    )


def _fill_cells(
    table_spec: TableSpec, case_results: Sequence[CaseResult], columns: Sequence[str]
) -> dict[str, MeanInterval]:
    """Mean and interval of each column in percent, over the cases with a known verdict."""
    cells = {}
    for column in columns:
        values = []
        for result, case in zip(case_results, table_spec.cases, strict=True):
            if column in (ALL, case.kind) and result.value is not None:
                values.append(result.value)
        mean = mean_interval(values)
        if mean is not None:
            cells[column] = MeanInterval(
                100 * mean.value, 100 * mean.low, 100 * mean.high, mean.count
            )
    return cells


def _measure_case(
    system: AnswerSystem, case: Case, judge: Judge, llm: LLM
) -> CaseResult:
    try:
        reply, trace = run(system(case), llm=llm)
        value, _ = run(judge.judge(case, reply.text), llm=llm)
    # A model that fails on one case is counted, a mistake of the user raises.
    except Exception as error:
        if is_user_error(error):
            raise
        return CaseResult(None, error=format_error(error))
    return CaseResult(value, trace.usage, reply.fell_back)
