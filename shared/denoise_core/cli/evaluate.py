"""``rag-denoise evaluate``: strategies compared on the user's own questions."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from tempfile import TemporaryFile
from typing import Annotated, Any

import typer
from rich.console import Console

from denoise_core._files import write_whole
from denoise_core.cli import options
from denoise_core.cli.options import app
from denoise_core.cli.read import read_passages
from denoise_core.cli.terminal import (
    print_line,
    print_table,
    print_warnings,
    progress_bar,
)
from denoise_core.embedded.sample import sample_questions
from denoise_core.errors import InputError
from denoise_core.evaluate.comparison import (
    Evaluation,
    LLMAnswerer,
    ReplyLog,
    Strategy,
    evaluate,
    read_cases,
)
from denoise_core.evaluate.comparison.answering import (
    LLMGrader,
    LoopAnswerer,
    llm_from_name,
)
from denoise_core.evaluate.comparison.cases import (
    DEFAULT_QUESTION_COUNT,
    build_search,
    generate_cases,
    label_cases,
)
from denoise_core.evaluate.comparison.evaluation import summary_lines, table_rows
from denoise_core.evaluate.comparison.setting import (
    SAME_BUDGET,
    SETTING_FILE,
    describe_use,
    read_setting,
)
from denoise_core.evaluate.datasets import EvaluationCases, case_from_question

PAGE_FILE = "report.html"
RESULTS_FILE = "results.json"
ANSWERS_FILE = "answers.jsonl"


@app.command("evaluate")
def evaluate_command(
    questions: Annotated[
        Path | None,
        typer.Argument(
            help="JSON lines with a 'question', and any of 'passages' (texts, or objects with 'text'), 'gold' and "
            "'answers'. Without it, questions are made from --documents, or the 40 included questions are used."
        ),
    ] = None,
    columns: options.ColumnsOption = None,
    documents: options.DocumentsOption = None,
    top_k: options.TopKOption = 20,
    limit: options.LimitOption = None,
    llm: options.LLMOption = None,
    label_with: options.LabelOption = None,
    s2a: Annotated[
        str | None,
        typer.Option(help="Also compare S2A with --llm: select or default."),
    ] = None,
    loop: Annotated[
        bool,
        typer.Option(
            "--loop", help="Also compare the loop of LLM-Augmenter with --llm."
        ),
    ] = False,
    budget: options.BudgetOption = None,
    dry_run: options.DryRunOption = False,
    cross_encoder: Annotated[
        str | None,
        typer.Option(help="Also compare this cross-encoder, a name or a folder."),
    ] = None,
    denoiser: Annotated[
        Path | None,
        typer.Option(
            help="Also compare this denoiser, a folder of 'fit' or a denoise.json."
        ),
    ] = None,
    grading: options.GradingOption = "contains",
    out: Annotated[
        Path, typer.Option("--out", "-o", help="The folder for the results.")
    ] = Path("denoise-evaluation"),
) -> None:
    """Does it help on your data? Compare the ways to denoise on your questions.

    Compares everything, the default, and the first few passages, BM25 and cosine with at most the default's
    tokens: whether what is needed is kept and, with --llm, how many answers from that are right. Prints a table,
    and writes a page, all figures, and the recommended setting for 'rag-denoise run --denoiser' and both
    frameworks. Ends with status 1 when --llm answered no question.

    **Examples**

    rag-denoise evaluate

    rag-denoise evaluate questions.jsonl --columns question=query --documents ./notes

    rag-denoise evaluate questions.jsonl --llm http://localhost:8000/v1#my-model --dry-run
    """
    _make_out(out, dry_run)
    _require_llm(
        llm, {"--s2a": s2a, "--loop": loop, "--right judge": grading == "judge"}
    )
    _require_llm(
        llm or label_with, {"--budget": budget is not None, "--dry-run": dry_run}
    )
    if llm is not None:
        llm_from_name(llm)  # so that a wrong name is an error before any work
    if label_with is not None and questions is None:
        raise InputError(
            "--label-with labels your questions: name their file; those that are made "
            "or that ship have labels"
        )
    error_console = Console(stderr=True)
    console = Console(highlight=False)
    strategies = _extra_strategies(s2a, cross_encoder, denoiser)
    # The models share a file of replies, and so the budget: what it tells was spent counts.
    open_log = partial(open_ledger, path=out / ANSWERS_FILE, budget=budget, dry=dry_run)
    label_log = None if label_with is None else open_log(label_with)
    with error_console.status("reading ..."):
        evaluation_cases = load_cases(
            error_console, questions, documents, columns, top_k, limit
        )
    if label_log is not None:
        evaluation_cases = label_with_model(error_console, evaluation_cases, label_log)
        if dry_run:
            show_plan(console, label_log)
    answerer = None
    answer_log = None
    grader: Any = grading
    if llm is not None:
        answer_log = open_log(llm)  # now: labelling spends a part of the budget
        answerer = LLMAnswerer(answer_log, llm)
        if grading == "judge":
            grader = LLMGrader(answer_log)
        if loop:
            strategies["loop"] = Strategy(
                "loop", {"kind": "everything"}, answerer=LoopAnswerer(answer_log, llm)
            )
    with progress_bar(error_console, "comparing") as on_progress:
        evaluation = evaluate(
            evaluation_cases,
            strategies,
            answerer=answerer,
            llm=answer_log,
            grader=grader,
            progress=on_progress,
        )
    if not dry_run:
        _write_evaluation(evaluation, out, console, error_console)
    elif answer_log is not None:
        show_plan(console, answer_log)


def _make_out(out: Path, dry_run: bool) -> None:
    """Make the folder, and a file in it: what cannot be written is an error before the work."""
    if out.exists() and not out.is_dir():
        raise InputError(f"--out {out}: expected a folder, or a name that is free")
    if not dry_run:
        out.mkdir(parents=True, exist_ok=True)
        TemporaryFile(dir=out).close()


def _require_llm(llm: str | None, needs_llm: Mapping[str, Any]) -> None:
    for option, is_given in needs_llm.items():
        if is_given and llm is None:
            raise InputError(
                f"{option} asks a model: name one with --llm, such as "
                "http://localhost:8000/v1#name"
            )


def _write_evaluation(
    evaluation: Evaluation,
    out: Path,
    console: Console,
    error_console: Console,
) -> None:
    setting_path = out / SETTING_FILE
    evaluation.save_page(out / PAGE_FILE)
    evaluation_json = json.dumps(
        evaluation.to_dict(), indent=1, ensure_ascii=False, allow_nan=False
    )
    write_whole(out / RESULTS_FILE, evaluation_json + "\n")
    evaluation.save_setting(setting_path)
    # The files first: printing may fail on a closed pipe.
    print_table(console, table_rows(evaluation))
    for text_line in summary_lines(evaluation):
        print_line(console, text_line)
    file_names = f"{PAGE_FILE}, {RESULTS_FILE}, {SETTING_FILE}"
    print_line(error_console, f"\nwritten to {out}: {file_names}")
    usage_text = describe_use(evaluation.recommendation.setting, setting_path)
    print_line(error_console, f"use it: {usage_text}")
    if evaluation.answer_failure is not None:
        raise typer.Exit(1)


def _extra_strategies(
    s2a: str | None, cross_encoder: str | None, denoiser: Path | None
) -> dict[str, Strategy | Mapping[str, Any]]:
    """The strategies that the user asks for, besides the standard ones."""
    strategies: dict[str, Strategy | Mapping[str, Any]] = {}
    if s2a is not None:
        strategies[f"S2A {s2a}"] = {"kind": "s2a", "variant": s2a}
    if cross_encoder is not None:
        strategies["cross-encoder"] = {
            "kind": "cross-encoder",
            "model": cross_encoder,
            "tokens": SAME_BUDGET,
        }
    if denoiser is not None and denoiser.is_dir():
        strategies["yours"] = {"kind": "fitted", "folder": str(denoiser)}
    elif denoiser is not None:
        strategies["yours"] = read_setting(denoiser)
    return strategies


def show_plan(console: Console, ledger: ReplyLog) -> None:
    """Print what the run would cost besides what was paid already."""
    planned_usage = ledger.planned_usage
    print_line(
        console,
        f"about {ledger.planned_calls:,} calls, {planned_usage.input_tokens:,} tokens to "
        f"read, {planned_usage.output_tokens:,} to write; no call was made, so warnings "
        "about replies mean nothing",
    )


def open_ledger(name: str, path: Path, budget: int | None, dry: bool) -> ReplyLog:
    """Return the model ``name``, whose replies are logged at ``path``."""
    return ReplyLog(llm_from_name(name), name, path, budget=budget, dry_run=dry)


def label_with_model(
    console: Console, cases: EvaluationCases, label_log: ReplyLog
) -> EvaluationCases:
    """Have a model label the cases without gold, with a progress bar."""
    with progress_bar(console, "labelling") as on_progress:
        return label_cases(cases, label_log, "the model", progress=on_progress)


def load_cases(
    console: Console,
    questions: Path | None,
    documents: Path | None,
    columns: Sequence[str] | None,
    top_k: int,
    limit: int | None,
) -> EvaluationCases:
    """Return evaluation cases.

    They are the questions of a file, with passages searched in ``documents`` if given;
    without a file, questions generated from ``documents``; else the bundled sample.

    Raises:
        InputError: Columns are named without a file of questions.
    """
    column_names = parse_columns(columns or ())
    if questions is None and column_names:
        raise InputError("--columns goes with questions of your own: give a file")
    passages = None
    if documents is not None:
        loaded_passages = read_passages(str(documents), skip_bad=True)
        passages = loaded_passages.passages
        print_warnings(console, loaded_passages.warnings)
    if questions is not None:
        passage_search = None
        if passages is not None:
            passage_search = build_search(passages, top_k=top_k)
        evaluation_cases = read_cases(
            questions, columns=column_names, search_passages=passage_search
        )
    elif passages is not None:
        return generate_cases(
            passages,
            question_count=limit or DEFAULT_QUESTION_COUNT,
            top_k=top_k,
        )
    else:
        samples = enumerate(sample_questions(), 1)
        sample_cases = [case_from_question(question, n) for n, question in samples]
        evaluation_cases = EvaluationCases(tuple(sample_cases))
    return replace(evaluation_cases, cases=evaluation_cases.cases[:limit])


def parse_columns(column_options: Sequence[str]) -> dict[str, str]:
    """Return what ``--columns`` says: the user's column by our field.

    Raises:
        InputError: An item is not ``OURS=YOURS``.
    """
    columns = {}
    for column_option in column_options:
        for pair in column_option.split(","):
            field_name, _, user_column = pair.partition("=")
            if not field_name or not user_column:
                raise InputError(
                    f"--columns {pair}: expected OURS=YOURS, such as question=query"
                )
            columns[field_name.strip()] = user_column.strip()
    return columns
