"""``rag-denoise-lab``: the papers' tables on a model of the user's, and the set of one of them."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import typer
from rich.console import Console

from denoise_core.cli import escape_control
from denoise_core.cli import main as carried_out
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
    PriceOption,
    make_command,
)
from denoise_core.cli.terminal import print_line, print_table, progress_bar
from denoise_core.errors import InputError
from denoise_lab.noisy_retrieval import NoisyRetrieval, write_noisy_retrieval
from denoise_lab.protocols.choose import Asked, sheets_of
from denoise_lab.protocols.model_study import (
    STUDY_QUESTIONS,
    ModelStudy,
    question_sets,
    save_study,
)
from denoise_lab.protocols.sheet import run_sheets
from denoise_lab.protocols.table import PAGE, RESULTS, TABLES, rows_of, save, told

SERVED, LOCAL = (
    8,
    1,
)  # cases at a time, unless said otherwise: of a server, and of a model on this machine

app = make_command("What rag-denoise was made and measured with.")


@app.command()
def protocol(
    paper: Annotated[
        Literal["s2a", "end", "augmenter"], typer.Argument(help="Whose tables.")
    ],
    data: Annotated[
        Path | None,
        typer.Argument(
            help="Questions of your own, or for 'end' a text as prose; without, what ships."
        ),
    ] = None,
    llm: Annotated[
        str,
        typer.Option(
            help="The model: http://host:port/v1#name, or a folder or hub name for this machine."
        ),
    ] = "none",
    columns: ColumnsOption = None,
    limit: Annotated[
        int | None, typer.Option("-n", min=1, help="Fewer questions of each kind.")
    ] = None,
    right: GradingOption = "contains",
    model: Annotated[
        str | None,
        typer.Option(
            help="For 'end': layers, prompts, controls, tasks and answers of this local model, by folder or name. "
            "DATA is then a file of labelled questions or a folder of sets; -n counts those to fit on."
        ),
    ] = None,
    layer: Annotated[
        list[int] | None,
        typer.Option(help="With --model: only these layers, each with a --layer."),
    ] = None,
    probe: Annotated[
        Path | None, typer.Option(help="For 'end': the probe in this folder.")
    ] = None,
    extended: Annotated[
        bool, typer.Option("--extended", help="For 'end': twice the prose.")
    ] = False,
    seed: Annotated[int, typer.Option(help="Of questions that are made.")] = 0,
    workers: Annotated[
        int | None,
        typer.Option(min=1, help="Cases at a time: 8 of a server, 1 on this machine."),
    ] = None,
    budget: BudgetOption = None,
    price: PriceOption = None,
    dry_run: DryRunOption = False,
    out: Annotated[
        Path,
        typer.Option(
            "--out", "-o", help="Folder for report.html, tables.md and results.json."
        ),
    ] = Path("denoise-evaluation"),
) -> None:
    """The tables of a paper on a model of yours, the paper's figures beside.

    Every reply stands in answers.jsonl of --out before it is used: a run that was killed goes on there.

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
    ledger = open_ledger(llm, out / ANSWERS_FILE, budget, price, dry_run)
    served = llm.startswith(("http://", "https://"))
    local, named = None if served else llm, parse_columns(columns or [])
    asked = Asked(
        paper, data, limit, right, seed, extended, probe, local, columns=named or None
    )
    sheets = sheets_of(asked, ledger)
    aside = Console(stderr=True)
    at_once = workers or (SERVED if served else LOCAL)
    with progress_bar(aside, "asking") as hear:
        tables = run_sheets(sheets, ledger, workers=at_once, progress=hear)
    console = Console(highlight=False)
    if dry_run:
        return show_plan(console, ledger)
    for table in tables:
        print_table(console, rows_of(table), table.title)
        for line in [*told(table), ""]:
            print_line(console, line)
    save(tables, llm, out)
    print_line(aside, f"\nwritten to {out}: {PAGE}, {TABLES}, {RESULTS}")
    if all(line.failed == line.cases for table in tables for line in table.lines):
        raise InputError(
            f"no case was answered; the first failure: {tables[0].lines[0].first_error}"
        )


def _study_model(
    model: str, data: Path | None, count: int, layers: list[int] | None, out: Path
) -> None:
    """END's tables on a local model, printed one by one; states are kept in ``out``."""
    console = Console(highlight=False)
    aside = Console(stderr=True)
    out.mkdir(parents=True, exist_ok=True)

    def report_progress(stage: str, done: int, of: int) -> None:
        print_line(aside, f"{stage}: {done} of {of} questions")

    study = ModelStudy(
        model,
        question_sets(data, count),
        out / "states",
        layers=layers,
        answer_count=count,
        progress=report_progress,
    )
    tables = []
    for table in study.tables():
        tables.append(table)
        print_table(console, table.cells(), table.title)
    paths = save_study(study, tables, model, out)
    print_line(aside, f"\nwritten to {out}: {', '.join(path.name for path in paths)}")


@app.command("noisy-retrieval")
def noisy_retrieval(
    haystack: Annotated[
        Path, typer.Argument(help="A text file in UTF-8 that the prose is drawn from.")
    ],
    out: Annotated[Path, typer.Option("--out", "-o", help="JSON lines file to write.")],
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
        bool, typer.Option("--extended", help="Twice the prose: about 8,000 tokens.")
    ] = False,
    seed: Annotated[int, typer.Option(help="The same seed gives the same set.")] = 0,
) -> None:
    """Make a NoisyRetrieval set: one password among twelve look-alikes, inside prose (END paper, section 3.1.1).

    The file is what 'rag-denoise fit' and 'rag-denoise evaluate' read.
    """
    write_noisy_retrieval(
        out, haystack, NoisyRetrieval(level, extended), questions, seed=seed
    )
    typer.echo(
        escape_control(f"wrote {questions} questions of level {level} to {out}"),
        err=True,
    )


def main() -> None:
    """Run the command, ended as ``rag-denoise`` is."""
    carried_out("rag-denoise-lab", app)
