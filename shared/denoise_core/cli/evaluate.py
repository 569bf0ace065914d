"""``rag-denoise evaluate``: strategies compared on the user's own questions."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
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
    MAX_REPLY_TOKENS,
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

_ANSWERER_HELP = (
    "The model that answers: http://host:port/v1#name, or a folder or hub name. With 'none' only what is kept "
    "is measured, offline."
)
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
    llm: Annotated[str, typer.Option(help=_ANSWERER_HELP)] = "none",
    label_with: options.LabelOption = None,
    s2a: Annotated[
        list[str] | None,
        typer.Option(
            help="Also compare S2A with --llm: select, remove or default; repeat it for more."
        ),
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
    _check_options(questions, label_with, out)
    if llm != "none":
        llm_from_name(llm)  # so that a wrong name is an error before any work
    else:
        needs_llm = {"--s2a": s2a, "--loop": loop, "--right judge": grading == "judge"}
        if label_with is None:
            needs_llm |= {"--budget": budget is not None, "--dry-run": dry_run}
        _require_llm(needs_llm)
    error_console = Console(stderr=True)
    console = Console(highlight=False)
    strategies = _extra_strategies(s2a or (), cross_encoder, denoiser)
    # The models share a file of replies, and so the budget: what it tells was spent counts.
    open_log = partial(open_ledger, path=out / ANSWERS_FILE, budget=budget, dry=dry_run)
    answer_log = None
    label_log = None if label_with is None else open_log(label_with)
    with progress_bar(error_console, "reading") as on_progress:
        evaluation_cases = load_cases(
            error_console,
            questions,
            documents,
            columns,
            top_k,
            limit,
            on_progress,
        )
    if label_log is not None:
        with progress_bar(error_console, "labelling") as on_progress:
            evaluation_cases = label_cases(
                evaluation_cases, label_log, label_with or "", progress=on_progress
            )
        if dry_run:
            show_plan(console, label_log)
    if llm != "none":
        answer_log = open_log(llm)  # now: labelling spends a part of the budget
    if loop and answer_log is not None:
        strategies["loop"] = Strategy(
            "loop", {"kind": "everything"}, answerer=LoopAnswerer(answer_log, llm)
        )
    with progress_bar(error_console, "comparing") as on_progress:
        evaluation = evaluate(
            evaluation_cases,
            strategies,
            answerer=None if answer_log is None else LLMAnswerer(answer_log, llm),
            llm=answer_log,
            grader=_build_grader(grading, answer_log),
            progress=on_progress,
        )
    if not dry_run:
        _write_evaluation(evaluation, out, console, error_console)
    elif answer_log is not None:
        show_plan(console, answer_log)


def _check_options(questions: Path | None, label_with: str | None, out: Path) -> None:
    if out.exists() and not out.is_dir():
        raise InputError(f"--out {out}: expected a folder, or a name that is free")
    if label_with is not None and questions is None:
        raise InputError(
            "--label-with labels your questions: name their file; those that are made "
            "or that ship have labels"
        )


def _require_llm(needs_llm: Mapping[str, Any]) -> None:
    for option, is_given in needs_llm.items():
        if is_given:
            raise InputError(
                f"{option} asks a model: name one with --llm, such as "
                "http://localhost:8000/v1#name"
            )


def _build_grader(grading: str, answer_log: ReplyLog | None) -> Any:
    if grading == "judge" and answer_log is not None:
        return LLMGrader(answer_log)
    return grading


def _write_evaluation(
    evaluation: Evaluation,
    out: Path,
    console: Console,
    error_console: Console,
) -> None:
    out.mkdir(parents=True, exist_ok=True)
    setting_path = out / SETTING_FILE
    evaluation.save_page(out / PAGE_FILE)
    evaluation_json = json.dumps(
        evaluation.to_dict(), indent=1, ensure_ascii=False, allow_nan=False
    )
    write_whole(out / RESULTS_FILE, evaluation_json + "\n")
    evaluation.save_setting(setting_path)
    # The files first: printing may fail on a closed pipe.
    print_table(console, table_rows(evaluation, short=True))
    for text_line in summary_lines(evaluation):
        print_line(console, text_line)
    file_names = f"{PAGE_FILE}, {RESULTS_FILE}, {SETTING_FILE}"
    print_line(error_console, f"\nwritten to {out}: {file_names}")
    usage_text = describe_use(evaluation.recommendation.setting, setting_path)
    print_line(error_console, f"use it: {usage_text}")
    if evaluation.answer_failure is not None:
        raise typer.Exit(1)


def _extra_strategies(
    s2a: Sequence[str], cross_encoder: str | None, denoiser: Path | None
) -> dict[str, Strategy | Mapping[str, Any]]:
    """The strategies that the user asks for, besides the standard ones."""
    strategies: dict[str, Strategy | Mapping[str, Any]] = {}
    for s2a_variant in s2a:
        strategies[f"S2A {s2a_variant}"] = {"kind": "s2a", "variant": s2a_variant}
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


def show_plan(console: Console, ledger: ReplyLog, dry: bool = True) -> None:
    """Print what the run would cost besides what was paid already."""
    planned_usage = ledger.planned_usage
    text_line = (
        f"about {ledger.planned_calls:,} calls, {planned_usage.input_tokens:,} tokens to read, "
        f"{planned_usage.output_tokens:,} to write"
    )
    if dry:
        text_line += "; no call was made"
    print_line(console, text_line)


def open_ledger(
    name: str,
    path: Path,
    budget: int | None,
    dry: bool,
    max_tokens: int = MAX_REPLY_TOKENS,
) -> ReplyLog:
    """Return the model ``name``, whose replies are logged at ``path``."""
    return ReplyLog(
        llm_from_name(name, max_tokens=max_tokens),
        name,
        path,
        budget=budget,
        dry_run=dry,
        max_tokens=max_tokens,
    )


def load_cases(
    console: Console,
    questions: Path | None,
    documents: Path | None,
    columns: Sequence[str] | None,
    top_k: int,
    limit: int | None,
    on_progress: Callable[[int, int], None] | None = None,
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
            passage_search = build_search(passages, top_k=top_k, progress=on_progress)
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
    columns: dict[str, str] = {}
    if not column_options:
        return columns
    for pair in ",".join(column_options).split(","):
        field_name, equals, user_column = (part.strip() for part in pair.partition("="))
        if not equals or not field_name or not user_column:
            raise InputError(
                f"--columns {pair}: expected OURS=YOURS, such as question=query"
            )
        columns[field_name] = user_column
    return columns
