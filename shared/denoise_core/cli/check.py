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
from denoise_core.augmenter.utilities.default import default_judge
from denoise_core.cli import plain
from denoise_core.cli.options import AsJson, JudgeLLM, JudgeName, Passages, Query, SkipBad, app
from denoise_core.cli.read import read_passages
from denoise_core.cli.terminal import say
from denoise_core.errors import InputError
from denoise_core.report.checked import line_of, outcome_of, to_html, verdict_of
from denoise_core.support import Check
from denoise_core.support.check import check
from denoise_core.support.judging import Judge
from denoise_core.support.proof import proof_of
from denoise_core.types import Passage

STATUSES = {"supported": 0, "unsupported": 3, "unknown": 4}  # with which the command ends
STYLES = {"supported": "green", "unsupported": "red", "unknown": "yellow"}


@app.command("check")
def check_own(
    answer: Annotated[str, typer.Option("--answer", "-a", help="Its file, or - for standard input.")],
    passages: Passages,
    query: Query = "",
    judge: JudgeName = None,
    llm: JudgeLLM = None,
    as_json: AsJson = False,
    html: Annotated[Path | None, typer.Option(help="Also write a page where a claim lights up its quote.")] = None,
    skip_bad: SkipBad = False,
) -> None:
    """Hold an answer against your own text: each claim with its verdict and its quote, by file and line.

    Ends with status 0 when the passages support it, 3 when they do not, and 4 when that cannot be said. Without
    --judge and --llm code alone compares: it says what differs, and never that an answer is supported.

    [bold]Example[/bold]

    rag-denoise check -q "when was it built?" -a answer.md -p docs/ --html proof.html
    """
    if answer == "-" and "-" in passages:
        raise InputError("--answer and --passages cannot both be read from standard input")
    text = _read(answer)
    reading = read_passages(*passages, skip_bad=skip_bad)
    for warning in reading.warnings:
        typer.echo(warning, err=True)
    chosen = chosen_judge(judge, llm)
    found = check(query, text, reading.passages, judge=chosen)
    record = recorded(found, text, reading.passages, chosen)
    said = f"{record['outcome']}: {found.reason}" if found.reason else record["outcome"]
    if html is not None:
        write_whole(html, to_html(query, text, found.claims, reading.passages, said=said, judge=chosen.id))
    if as_json:
        typer.echo(json.dumps(record, ensure_ascii=False, indent=1))
    else:
        _show(record, said)
    raise typer.Exit(STATUSES[record["outcome"]])


def recorded(found: Check, answer: str, passages: Sequence[Passage], judge: Judge) -> dict[str, Any]:
    """What the command prints: the check, its outcome in a word, each quote with its line, and the proof."""
    known = {p.id: p for p in passages}
    data: dict[str, Any] = {**found.as_json(), "outcome": outcome_of(found), "judge": judge.id}
    for claim, told in zip(found.claims, data["claims"], strict=True):
        del told["evidence"], told["supported"]  # quotes and verdict say it
        told["verdict"] = verdict_of(claim)
        told["quotes"] = [
            {
                "file": q.span.passage_id,
                "line": line_of(known[q.span.passage_id], q.span.start),
                "start": q.span.start,
                "end": q.span.end,
                "text": q.text,
                "relation": q.relation,
            }
            for q in claim.quotes
        ]
    proof = proof_of(answer, found.claims, judge.id)
    return data | {"proof": proof.as_json() if proof else None}


def chosen_judge(name: str | None, llm: str | None) -> Judge:
    if name is not None and llm is not None:
        raise InputError("give --judge or --llm, not both")
    if name is not None:
        from denoise_core.support import judges

        return judges.model(name)
    if llm is not None:
        from denoise_core.local.generation.llm import LocalLLM
        from denoise_core.support.quoting import LLMJudge

        return LLMJudge(LocalLLM(llm), name=llm)
    return default_judge()


def _read(answer: str) -> str:
    try:
        return sys.stdin.read() if answer == "-" else Path(answer).read_text("utf-8-sig")
    except (OSError, ValueError) as error:
        raise InputError(f"--answer {answer[:200]}: {error}; give a file, or - for standard input") from error


def _show(record: dict[str, Any], said: str) -> None:
    console = Console(soft_wrap=True, highlight=False)
    for n, claim in enumerate(record["claims"], 1):
        verdict, sure = claim["verdict"], "" if claim["probability"] is None else f" {claim['probability']:.2f}"
        head = Text(f"{n}. ").append(f"{verdict}{sure}", STYLES[verdict])
        console.print(head.append(f"  {plain(claim['text'])}", ""))
        if claim["why"]:
            say(console, f"   {claim['why']}")
        for q in claim["quotes"]:
            say(console, f"   {q['relation']}: {q['file']}:{q['line']}: “{' '.join(q['text'].split())}”")
    say(console, f"{said} (judge: {record['judge']})", STYLES[record["outcome"]])
