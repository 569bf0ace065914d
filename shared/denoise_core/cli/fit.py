"""``rag-denoise fit``: a denoiser of the user's own, from passages that people or a model have labelled."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from denoise_core.cli import options as o
from denoise_core.cli.evaluate import load_cases, open_ledger, show_plan
from denoise_core.cli.options import app
from denoise_core.cli.run import parse_keep
from denoise_core.cli.terminal import print_line, print_table, progress_bar
from denoise_core.embedded.fitted import (
    FittedDenoiser,
    check_output_folder,
    fit_denoiser,
)
from denoise_core.errors import InputError
from denoise_core.evaluate.comparison import ReplyLog
from denoise_core.evaluate.comparison.cases import label_cases
from denoise_core.evaluate.datasets import EvaluationCases, read_questions
from denoise_core.question import Question
from denoise_core.s2a.llm_labels import write_labels


@app.command()
def fit(
    data: Annotated[
        Path,
        typer.Argument(
            help="JSON lines, each {'question': ..., 'passages': [...], 'labels': [...]}; a passage is a text or "
            "an object with 'text', a label is true or 1 for a passage that helps to answer. With --label-with "
            "labels may be missing, with --documents passages too: then a .txt file of questions will do."
        ),
    ],
    out: Annotated[
        Path, typer.Option("--out", "-o", help="Folder for the denoiser.")
    ] = Path("denoiser"),
    documents: o.DocumentsOption = None,
    k: o.TopKOption = 20,
    limit: o.LimitOption = None,
    label_with: o.LabelOption = None,
    columns: o.ColumnsOption = None,
    budget: o.BudgetOption = None,
    price: o.PriceOption = None,
    dry_run: o.DryRunOption = False,
    model: Annotated[
        str | None,
        typer.Option(help="Fit a probe on this model too, by name or folder."),
    ] = None,
    keep: Annotated[
        str | None, typer.Option(help="What you will keep: layers are compared there.")
    ] = None,
    calibrate: Annotated[
        Path | None, typer.Option(help="Other questions to calibrate --keep auto on.")
    ] = None,
    risk: Annotated[
        float | None,
        typer.Option(help="What share of them --keep auto may lose: 0.05."),
    ] = None,
    overwrite: Annotated[
        bool, typer.Option("--overwrite", help="Replace an earlier fit in --out.")
    ] = False,
) -> None:
    """Fit a denoiser on labelled passages of your own, and say in words whether it is better than cosine.

    Prints how much of the text it needs to keep 90, 95 and 99 % of the relevant passages, beside the default,
    cosine, BM25 and a fit that never saw the questions, and warns where one of these is as good. Use the folder
    by: rag-denoise run --denoiser FOLDER, or denoise_core.load_denoiser(FOLDER).

    With --label-with a model selects the passages that are needed. The price is said first, calls are kept beside
    DATA and never made twice, and labels too (.labels.jsonl): correct them there and run it again.
    """
    console = Console(stderr=True)
    check_output_folder(out, overwrite=overwrite)
    if label_with is None and documents is None:
        questions = _read(console, data)[:limit]
    else:
        ask = None
        if label_with is not None:
            ask = partial(
                open_ledger, label_with, data.with_suffix(".calls.jsonl"), budget, price
            )
        find = partial(load_cases, console, data, documents, columns, k, limit)
        questions = _labelled(
            console, find, data.with_suffix(".labels.jsonl"), ask, dry_run
        )
    with progress_bar(console, "reading") as hear:
        fitted = fit_denoiser(
            questions,
            model,
            keep="auto" if keep is None else parse_keep(keep),
            calibration=() if calibrate is None else _read(console, calibrate),
            risk=risk,
            progress=hear,
        )
    fitted.save(out, overwrite=overwrite)
    _report(Console(), fitted, out)
    for warning in fitted.evaluation.warnings:
        print_line(console, f"warning: {warning}", "yellow")


app.command(
    "calibrate",
    help="Calibrate a denoiser on questions of your own, labelled by people or by your model.",
)(fit)


def _labelled(
    console: Console,
    find: Callable[[], EvaluationCases],
    path: Path,
    ask: Callable[..., ReplyLog] | None,
    dry_run: bool,
) -> Sequence[Question]:
    """The questions with labels: those in ``path`` where it is there, else made now, and written there."""
    if path.exists():
        print_line(
            console, f"labels are those in {path}; delete it to have them made anew"
        )
        return _read(console, path)
    cases = find()
    if ask is not None:
        planned = ask(True)
        label_cases(cases, planned, "")
        show_plan(console, planned, dry_run)
        if dry_run:
            raise typer.Exit
        with progress_bar(console, "labelling") as hear:
            cases = label_cases(cases, ask(False), "the model", progress=hear)
    known = [c.question for c in cases.cases if c.question.gold]
    if ask is None and len(known) < len(cases.cases):
        raise InputError(
            "some questions have no labels: name a model with --label-with, or add 'labels'"
        )
    for reason, n in Counter(
        bad.reason for bad in (*cases.rejected_records, *cases.warnings)
    ).items():
        print_line(console, f"left out, {n} times: {reason}", "yellow")
    written = write_labels(known, path)
    print_line(
        console,
        f"labels of {len(known)} questions are in {written}: correct them there, or in {path.name}.html",
    )
    return known


def _read(console: Console, data: Path) -> Sequence[Question]:
    loaded = read_questions(data, skip_bad=True)
    for bad in loaded.rejected_records:
        print_line(
            console,
            f"left out: {data}, record {bad.line_number}: {bad.reason}",
            "yellow",
        )
    return loaded.questions


def _report(console: Console, fitted: FittedDenoiser, out: Path) -> None:
    print_table(console, fitted.evaluation.table_rows())
    weights = ", ".join(
        f"{n} {w:.2f}"
        for n, w in zip(fitted.stack.names, fitted.stack.weight, strict=True)
    )
    risks = ", ".join(f"{100 * r:g} %" for r in sorted(fitted.scale.margins))
    for line in (
        f"weights: {weights}",
        str(fitted.evaluation),
        f"keep='auto' is calibrated on {fitted.scale.questions} questions, for losing at most: {risks}",
        f"saved to {out}; use it: rag-denoise run --denoiser {out}, or load_denoiser({str(out)!r})",
    ):
        print_line(console, line)
