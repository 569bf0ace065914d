"""``rag-denoise evaluate``: the ways to denoise, held against each other on the user's own questions."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console

from denoise_core._files import write_whole
from denoise_core.cli import options as o
from denoise_core.cli.options import app
from denoise_core.cli.read import read_passages
from denoise_core.cli.terminal import print_line, print_table, progress_bar
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
    read_setting,
)
from denoise_core.evaluate.datasets import EvaluationCases, case_from_question
from denoise_core.runtime.budget import Price

WHO = "Who answers: 'none', for what is kept alone, offline; http://host:port/v1#name; or a folder or hub name."
PAGE_FILE, RESULTS_FILE, ANSWERS_FILE, LABELS_FILE = (
    "report.html",
    "results.json",
    "answers.jsonl",
    "labels.jsonl",
)


@app.command("evaluate")
def evaluate_command(
    questions: Annotated[
        Path | None,
        typer.Argument(
            help="JSON lines: a 'question', and any of 'passages' (texts, or objects with 'text'), 'gold' and "
            "'answers'. Without: made of --documents, or 40 real questions that ship."
        ),
    ] = None,
    columns: o.ColumnsOption = None,
    documents: o.DocumentsOption = None,
    k: o.TopKOption = 20,
    limit: o.LimitOption = None,
    llm: Annotated[str, typer.Option(help=WHO)] = "none",
    label_with: o.LabelOption = None,
    s2a: Annotated[
        list[str] | None,
        typer.Option(help="Also compare S2A by --llm: select, remove ..."),
    ] = None,
    loop: Annotated[
        bool,
        typer.Option("--loop", help="Also compare the LLM-Augmenter's loop by --llm."),
    ] = False,
    budget: o.BudgetOption = None,
    price: o.PriceOption = None,
    dry_run: o.DryRunOption = False,
    cross_encoder: Annotated[
        str | None, typer.Option(help="Also compare one, by name or folder.")
    ] = None,
    denoiser: Annotated[
        Path | None, typer.Option(help="Also compare a 'fit' folder or denoise.json.")
    ] = None,
    right: o.GradingOption = "contains",
    out: Annotated[Path, typer.Option("--out", "-o", help="A folder.")] = Path(
        "denoise-evaluation"
    ),
) -> None:
    """Does it help on your data? Hold the ways to denoise against each other on your questions.

    Compares everything, the first few passages, BM25, cosine and the default, each with as many tokens as the
    default keeps: how many gold passages they keep and, with --llm, how many answers from that are right. Prints a
    table, and writes a page, all figures, and the recommended setting for 'rag-denoise run --denoiser' and both
    frameworks.

    [bold]Examples[/bold]

    rag-denoise evaluate

    rag-denoise evaluate questions.jsonl --columns question=query --documents ./notes

    rag-denoise evaluate questions.jsonl --llm http://localhost:8000/v1#my-model --dry-run
    """
    if out.exists() and not out.is_dir():
        raise InputError(f"--out {out}: expected a folder, or a name that is free")
    asking = {"--s2a": s2a, "--loop": loop, "--right judge": right == "judge"}
    if label_with is None:
        asking |= {"--budget": budget is not None, "--dry-run": dry_run}
    if llm == "none" and (
        first := next((name for name, given in asking.items() if given), None)
    ):
        raise InputError(
            f"{first} asks a model: name one with --llm, such as http://localhost:8000/v1#name"
        )
    aside, console = Console(stderr=True), Console(highlight=False)
    ledger, labels = _models(llm, label_with, out, budget, price, dry_run)
    ways = _ways(s2a or (), cross_encoder, denoiser)
    if loop and ledger is not None:
        ways["loop"] = Strategy(
            "loop", {"kind": "everything"}, answerer=LoopAnswerer(ledger, llm)
        )
    with progress_bar(aside, "reading") as hear:
        cases = load_cases(aside, questions, documents, columns, k, limit, labels, hear)
    if labels is not None:
        with progress_bar(aside, "labelling") as hear:
            cases = label_cases(cases, labels, label_with or "", progress=hear)
        if ledger is not None and ledger is not labels:
            ledger.budget = _left(budget, labels)
    for bad in cases.rejected_records[:10]:
        print_line(aside, f"left out: line {bad.line_number}: {bad.reason}", "yellow")
    judge = LLMGrader(ledger) if ledger and right == "judge" else None
    with progress_bar(aside, "comparing") as hear:
        found = evaluate(
            cases,
            ways,
            answerer=None if ledger is None else LLMAnswerer(ledger, llm),
            llm=ledger,
            price=parse_price(price),
            grader=judge or ("exact" if right == "exact" else "contains"),
            progress=hear,
        )
    if dry_run:
        for each in dict.fromkeys(one for one in (labels, ledger) if one is not None):
            show_plan(console, each)
    else:
        _written(found, out, console, aside)


def _written(found: Evaluation, out: Path, console: Console, aside: Console) -> None:
    print_table(console, table_rows(found, short=True))
    for line in summary_lines(found):
        print_line(console, line)
    out.mkdir(parents=True, exist_ok=True)
    found.save_page(out / PAGE_FILE)
    record = json.dumps(found.to_dict(), indent=1, ensure_ascii=False, allow_nan=False)
    write_whole(out / RESULTS_FILE, record + "\n")
    found.save_setting(out / SETTING_FILE)
    print_line(
        aside, f"\nwritten to {out}: {PAGE_FILE}, {RESULTS_FILE}, {SETTING_FILE}"
    )
    print_line(
        aside, f"use it: rag-denoise run --denoiser {out / SETTING_FILE} -q ... -p ..."
    )


def _ways(
    s2a: Sequence[str], cross_encoder: str | None, denoiser: Path | None
) -> dict[str, Strategy | Mapping[str, Any]]:
    """What is compared beside the standard ways."""
    ways: dict[str, Strategy | Mapping[str, Any]] = {
        f"S2A {v}": {"kind": "s2a", "variant": v} for v in s2a
    }
    if cross_encoder is not None:
        ways["cross-encoder"] = {
            "kind": "cross-encoder",
            "model": cross_encoder,
            "tokens": SAME_BUDGET,
        }
    if denoiser is not None and denoiser.is_dir():
        ways["yours"] = {"kind": "fitted", "folder": str(denoiser)}
    elif denoiser is not None:
        ways["yours"] = read_setting(denoiser)
    return ways


def _models(
    llm: str,
    label_with: str | None,
    out: Path,
    budget: float | None,
    price: str | None,
    dry: bool,
) -> tuple[ReplyLog | None, ReplyLog | None]:
    """The model that answers and the one that labels, which may be the same; one budget is for both."""
    ledger = (
        None
        if llm == "none"
        else open_ledger(llm, out / ANSWERS_FILE, budget, price, dry)
    )
    if label_with is None or label_with == llm:
        return ledger, ledger if label_with else None
    return ledger, open_ledger(
        label_with, out / LABELS_FILE, _left(budget, ledger), price, dry
    )


def _left(budget: float | None, other: ReplyLog | None) -> float | None:
    """What another model leaves of the budget that both share."""
    return (
        budget
        if budget is None or other is None
        else max(0.0, budget - other.total_spent)
    )


def show_plan(console: Console, ledger: ReplyLog, dry: bool = True) -> None:
    """What the run would cost beside what is paid for already."""
    planned = ledger.planned_usage
    money = (
        ""
        if ledger.price is None
        else f", {ledger.price.cost_of(planned):.4f} in money"
    )
    print_line(
        console,
        f"about {ledger.planned_calls:,} calls, {planned.input_tokens:,} tokens to read, "
        f"{planned.output_tokens:,} to write{money}{'; no call was made' if dry else ''}",
    )


def parse_price(given: str | None) -> Price | None:
    """What ``--price`` says. Raises `InputError` for anything else."""
    if given is None:
        return None
    try:
        read, write, *cached = (float(part) for part in given.split(","))
        return Price(read, write, *cached)
    except (ValueError, TypeError) as error:
        raise InputError(
            f"--price {given}: expected READ,WRITTEN or READ,WRITTEN,CACHED a million tokens, such as 0.15,0.60"
        ) from error


def open_ledger(
    name: str,
    path: Path,
    budget: float | None,
    price: str | None,
    dry: bool,
    longest: int = MAX_REPLY_TOKENS,
) -> ReplyLog:
    """The model of that name, with every reply at ``path``."""
    llm = llm_from_name(name, max_tokens=longest)
    return ReplyLog(
        llm,
        name,
        path,
        budget=budget,
        price=parse_price(price),
        dry_run=dry,
        max_tokens=longest,
    )


def load_cases(
    aside: Console,
    questions: Path | None,
    documents: Path | None,
    columns: Sequence[str] | None,
    k: int,
    limit: int | None,
    labels: ReplyLog | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> EvaluationCases:
    """The questions of a file, their passages searched for in ``documents``; or made of these, or the sample's."""
    named, searched = parse_columns(columns or ()), None
    if questions is None and named:
        raise InputError("--columns goes with questions of your own: give a file")
    if documents is not None:
        reading = read_passages(str(documents), skip_bad=True)
        searched = reading.passages
        for warning in reading.warnings:
            print_line(aside, warning, "yellow")
    if questions is None and searched is not None:
        return generate_cases(
            searched,
            question_count=limit or DEFAULT_QUESTION_COUNT,
            top_k=k,
            llm=labels,
            model_name="the model that labels",
        )
    if questions is None:
        cases = EvaluationCases(
            tuple(case_from_question(q, n) for n, q in enumerate(sample_questions(), 1))
        )
    else:
        find = (
            None
            if searched is None
            else build_search(searched, top_k=k, progress=progress)
        )
        cases = read_cases(questions, columns=named, search_passages=find)
    return replace(cases, cases=cases.cases[:limit])


def parse_columns(given: Sequence[str]) -> dict[str, str]:
    """What ``--columns`` says: the user's own names by ours."""
    out = {}
    for pair in (part for text in given for part in text.split(",")):
        ours, equals, theirs = (part.strip() for part in pair.partition("="))
        if not equals or not ours or not theirs:
            raise InputError(
                f"--columns {pair}: expected OURS=YOURS, such as question=query"
            )
        out[ours] = theirs
    return out
