"""``rag-denoise-lab``: the papers' tables on your model, and END's test set."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Literal

import typer
from rich.console import Console

from denoise_core.cli import escape_control
from denoise_core.cli import main as run_command
from denoise_core.cli.evaluate import (
    ANSWERS_FILE,
    open_ledger,
    parse_columns,
    show_plan,
)
from denoise_core.cli.options import (
    BudgetOption,
    ColumnsOption,
    DryRunOption,
    GradingOption,
    make_command,
)
from denoise_core.cli.terminal import print_line, print_table, progress_bar
from denoise_core.errors import InputError
from denoise_lab.noisy_retrieval import NoisyRetrieval, write_noisy_retrieval
from denoise_lab.protocols.choose import ProtocolRequest, choose_tables
from denoise_lab.protocols.measure import ProtocolTable, measure_tables
from denoise_lab.protocols.model_study import (
    STUDY_QUESTIONS,
    ModelStudy,
    read_study_sets,
    save_study,
)
from denoise_lab.protocols.table import (
    PAGE,
    RESULTS,
    TABLES,
    describe_table,
    format_rows,
    save_tables,
)

# Cases at a time by default: with a server, and with a model on this machine.
SERVED_WORKERS, LOCAL_WORKERS = 8, 1

app = make_command("Runs the papers' tables on your model, and makes END's test set.")


@app.command()
def protocol(
    paper: Annotated[
        Literal["s2a", "end", "augmenter"],
        typer.Argument(help="The paper whose tables to make."),
    ],
    data: Annotated[
        Path | None,
        typer.Argument(
            help="Your questions; for 'end' a text that serves as prose. Default: the data that ships."
        ),
    ] = None,
    llm: Annotated[
        str,
        typer.Option(
            help="The model: http://host:port/v1#name, or a folder or hub name to load here."
        ),
    ] = "none",
    columns: ColumnsOption = None,
    limit: Annotated[
        int | None,
        typer.Option("-n", min=1, help="Ask at most this many questions of each kind."),
    ] = None,
    right: GradingOption = "contains",
    model: Annotated[
        str | None,
        typer.Option(
            help="For 'end': measure layers, prompts, controls, tasks and answers of this local model "
            "(a folder or a name). DATA is then a file of labelled questions or a folder of sets, "
            "and -n is how many to fit on."
        ),
    ] = None,
    layer: Annotated[
        list[int] | None,
        typer.Option(help="With --model: read only this layer; repeat for several."),
    ] = None,
    probe: Annotated[
        Path | None, typer.Option(help="For 'end': the folder of a fitted probe.")
    ] = None,
    extended: Annotated[
        bool, typer.Option("--extended", help="For 'end': use twice as much prose.")
    ] = False,
    seed: Annotated[int, typer.Option(help="Seed for generated questions.")] = 0,
    workers: Annotated[
        int | None,
        typer.Option(
            min=1, help="Cases at a time. Default: 8 with a server, 1 on this machine."
        ),
    ] = None,
    budget: BudgetOption = None,
    dry_run: DryRunOption = False,
    out: Annotated[
        Path,
        typer.Option(
            "--out",
            "-o",
            help="Folder to write report.html, tables.md and results.json to.",
        ),
    ] = Path("denoise-evaluation"),
) -> None:
    """Make the tables of a paper on your model, next to the paper's figures.

    Every reply is saved to answers.jsonl in --out before it is used, so a run that was killed resumes there.

    **Example**

    rag-denoise-lab protocol s2a --llm http://localhost:8000/v1#my-model --dry-run
    """
    if out.exists() and not out.is_dir():
        raise InputError(f"--out {out}: expected a folder, or a name that is free")
    if model is not None:
        if paper != "end" or llm != "none":
            raise InputError("--model belongs to the protocol 'end', without --llm")
        return _study_model(model, data, limit or STUDY_QUESTIONS, layer, out)
    if llm == "none":
        raise InputError(
            f"protocol {paper} asks a model: name one with --llm, such as http://localhost:8000/v1#name"
        )
    is_served = llm.startswith(("http://", "https://"))
    request = ProtocolRequest(
        paper,
        data,
        limit,
        right,
        seed,
        extended,
        probe,
        model=None if is_served else llm,
        columns=parse_columns(columns or []) or None,
    )
    default_workers = SERVED_WORKERS if is_served else LOCAL_WORKERS
    ledger = open_ledger(llm, out / ANSWERS_FILE, budget, dry_run)
    table_specs = choose_tables(request, ledger)
    with progress_bar(Console(stderr=True), "asking") as report_progress:
        tables = measure_tables(
            table_specs,
            ledger,
            workers=workers or default_workers,
            progress=report_progress,
        )
    if dry_run:
        return show_plan(Console(highlight=False), ledger)
    _show_tables(tables, llm, out)


def _show_tables(tables: Sequence[ProtocolTable], llm: str, out: Path) -> None:
    """Print the tables and write them to ``out``. Raises `InputError` if no case was answered."""
    console = Console(highlight=False)
    for table in tables:
        print_table(console, format_rows(table), table.title)
        for line in [*describe_table(table), ""]:
            print_line(console, line)
    save_tables(tables, llm, out)
    error_console = Console(stderr=True)
    print_line(error_console, f"\nwritten to {out}: {PAGE}, {TABLES}, {RESULTS}")
    rows = [row for table in tables for row in table.lines]
    if all(row.failed == row.cases for row in rows):
        raise InputError(
            f"no case was answered; the first failure: {rows[0].first_error}"
        )


def _study_model(
    model: str, data: Path | None, count: int, layers: list[int] | None, out: Path
) -> None:
    """Print END's tables on a local model one by one; keep hidden states in ``out``."""
    console = Console(highlight=False)
    error_console = Console(stderr=True)
    out.mkdir(parents=True, exist_ok=True)

    def report_progress(stage: str, done: int, total: int) -> None:
        print_line(error_console, f"{stage}: {done} of {total} questions")

    study = ModelStudy(
        model,
        read_study_sets(data, count),
        out / "states",
        layers=layers,
        answer_count=count,
        progress=report_progress,
    )
    tables = []
    for table in study.measure_tables():
        tables.append(table)
        print_table(console, table.format_cells(), table.title)
    paths = save_study(study, tables, model, out)
    file_names = ", ".join(path.name for path in paths)
    print_line(error_console, f"\nwritten to {out}: {file_names}")


@app.command("noisy-retrieval")
def noisy_retrieval(
    haystack: Annotated[
        Path, typer.Argument(help="A UTF-8 text file; the prose is drawn from it.")
    ],
    out: Annotated[
        Path, typer.Option("--out", "-o", help="The JSON Lines file to write.")
    ],
    level: Annotated[
        int,
        typer.Option(
            min=0, max=4, help="How many of 5 attributes a distractor shares."
        ),
    ] = 4,
    questions: Annotated[
        int, typer.Option("--questions", "-n", min=1, help="How many questions.")
    ] = 100,
    extended: Annotated[
        bool,
        typer.Option("--extended", help="Use twice as much prose: about 8,000 tokens."),
    ] = False,
    seed: Annotated[int, typer.Option(help="The same seed gives the same set.")] = 0,
) -> None:
    """Make a NoisyRetrieval set: one password among twelve look-alikes, inside prose (END paper, section 3.1.1).

    The commands 'rag-denoise fit' and 'rag-denoise evaluate' read the file.
    """
    write_noisy_retrieval(
        out, haystack, NoisyRetrieval(level, extended), questions, seed=seed
    )
    typer.echo(
        escape_control(f"wrote {questions} questions of level {level} to {out}"),
        err=True,
    )


def main() -> None:
    """Run the command; errors and exit codes are those of ``rag-denoise``."""
    run_command("rag-denoise-lab", app)
