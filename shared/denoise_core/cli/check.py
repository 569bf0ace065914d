"""``rag-denoise check``: the user's own answer over the user's own text, claim by claim."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.text import Text

from denoise_core._files import write_whole
from denoise_core.cli import escape_control
from denoise_core.cli.options import (
    JsonOption,
    JudgeOption,
    PassagesOption,
    QueryOption,
    SkipBadOption,
    app,
)
from denoise_core.cli.read import read_passages
from denoise_core.cli.terminal import print_line
from denoise_core.errors import InputError
from denoise_core.report.checked import line_number, render_check, verdict_word
from denoise_core.support import AnswerVerdict
from denoise_core.support.check import check
from denoise_core.support.judging import Judge
from denoise_core.types import Passage

OUTCOME_WORDS = {"pass": "supported", "fail": "unsupported", "unknown": "unknown"}
EXIT_STATUSES = {
    "supported": 0,
    "unsupported": 3,
    "unknown": 4,
}  # with which the command ends
OUTCOME_STYLES = {"supported": "green", "unsupported": "red", "unknown": "yellow"}


@app.command("check")
def check_command(
    answer: Annotated[
        str, typer.Option("--answer", "-a", help="Its file, or - for standard input.")
    ],
    passages: PassagesOption,
    query: QueryOption = "",
    llm: JudgeOption = None,
    as_json: JsonOption = False,
    html: Annotated[
        Path | None,
        typer.Option(help="Also write a page where a claim lights up its quote."),
    ] = None,
    skip_bad: SkipBadOption = False,
) -> None:
    """Hold an answer against your own text: each claim with its verdict and its quote, by file and line.

    Ends with status 0 when the passages support it, 3 when they do not, and 4 when that cannot be said. Without
    --llm no judge reads it: each claim has the nearest sentence, and the numbers, dates and names that differ.

    [bold]Example[/bold]

    rag-denoise check -q "when was it built?" -a answer.md -p docs/ --html proof.html
    """
    if answer == "-" and "-" in passages:
        raise InputError(
            "--answer and --passages cannot both be read from standard input"
        )
    text = _read(answer)
    reading = read_passages(*passages, skip_bad=skip_bad)
    for warning in reading.warnings:
        typer.echo(warning, err=True)
    chosen = judge_from_option(llm)
    found = check(query, text, reading.passages, judge=chosen)
    record = verdict_json(found, reading.passages)
    said = f"{record['outcome']}: {found.reason}" if found.reason else record["outcome"]
    if html is not None:
        write_whole(
            html,
            render_check(
                query,
                text,
                found.claims,
                reading.passages,
                outcome=said,
                judge=found.judge,
            ),
        )
    if as_json:
        typer.echo(json.dumps(record, ensure_ascii=False, indent=1))
    else:
        _show(record, said)
    raise typer.Exit(EXIT_STATUSES[record["outcome"]])


def verdict_json(found: AnswerVerdict, passages: Sequence[Passage]) -> dict[str, Any]:
    """What the command prints: the verdict, its outcome in a word, and each quote with its line."""
    known = {p.id: p for p in passages}
    data: dict[str, Any] = {**found.as_json(), "outcome": OUTCOME_WORDS[found.outcome]}
    for claim, told in zip(found.claims, data["claims"], strict=True):
        del told["supported"]  # the verdict says it
        told["differences"] = [str(d) for d in claim.differences]
        told["verdict"] = verdict_word(claim)
        told["quotes"] = [
            {
                "file": q.span.passage_id,
                "line": line_number(known[q.span.passage_id], q.span.start),
                "start": q.span.start,
                "end": q.span.end,
                "text": q.text,
                "relation": q.relation,
            }
            for q in claim.quotes
        ]
    return data


def judge_from_option(llm: str | None) -> Judge | None:
    """The quoting judge with a local model; None where no model is named."""
    if llm is None:
        return None
    from denoise_core.local.generation import LocalLLM
    from denoise_core.support.quoting import LLMJudge

    return LLMJudge(LocalLLM(llm), name=llm)


def _read(answer: str) -> str:
    try:
        return (
            sys.stdin.read() if answer == "-" else Path(answer).read_text("utf-8-sig")
        )
    except (OSError, ValueError) as error:
        raise InputError(
            f"--answer {answer[:200]}: {error}; give a file, or - for standard input"
        ) from error


def _show(record: dict[str, Any], said: str) -> None:
    console = Console(soft_wrap=True, highlight=False)
    for n, claim in enumerate(record["claims"], 1):
        verdict, sure = (
            claim["verdict"],
            "" if claim["probability"] is None else f" {claim['probability']:.2f}",
        )
        head = Text(f"{n}. ").append(f"{verdict}{sure}", OUTCOME_STYLES[verdict])
        console.print(head.append(f"  {escape_control(claim['text'])}", ""))
        if claim["reason"]:
            print_line(console, f"   {claim['reason']}")
        for q in claim["quotes"]:
            print_line(
                console,
                f"   {q['relation']}: {q['file']}:{q['line']}: “{' '.join(q['text'].split())}”",
            )
    print_line(
        console,
        f"{said} (judge: {record['judge'] or 'none'})",
        OUTCOME_STYLES[record["outcome"]],
    )
