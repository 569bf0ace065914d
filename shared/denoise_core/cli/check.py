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

from denoise_core.augmenter.utilities.default import default_judge
from denoise_core.cli.options import AsJson, JudgeLLM, JudgeName, Passages, Query, SkipBad, app
from denoise_core.cli.plain import plain
from denoise_core.cli.read import STANDARD_INPUT, read_passages
from denoise_core.errors import InputError
from denoise_core.report.checked import line_of, to_html, verdict_of
from denoise_core.support import Check
from denoise_core.support.check import check
from denoise_core.support.judging import Judge
from denoise_core.support.proof import proof_of
from denoise_core.types import Passage

UNSUPPORTED, UNKNOWN = 3, 4  # exit statuses; 0 is supported
_STYLES = {"supported": "green", "unsupported": "red", "unknown": "yellow"}


@app.command("check")
def check_own(
    answer: Annotated[
        str, typer.Option("--answer", "-a", help="A file with the answer, or - for standard input.")
    ],
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
    --judge the judge that ships decides, which reads English.

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
    if html is not None:
        page = to_html(query, text, found.claims, reading.passages, said=outcome(found), judge=chosen.id)
        html.write_text(page, "utf-8")
    if as_json:
        typer.echo(json.dumps(recorded(found, text, reading.passages, chosen), ensure_ascii=False, indent=1))
    else:
        _show(found, reading.passages, chosen)
    if not found.passed:
        raise typer.Exit(UNSUPPORTED if found.supported is False or found.answers is False else UNKNOWN)


def outcome(found: Check) -> str:
    """In a word, with the reason where it is not supported."""
    word = "supported" if found.passed else "unknown" if found.supported is not False else "unsupported"
    if found.answers is False and not found.passed:
        word = "unsupported"
    return f"{word}: {found.reason}" if found.reason else word


def recorded(found: Check, answer: str, passages: Sequence[Passage], judge: Judge) -> dict[str, Any]:
    """What the command prints: the check, each quote with its line, and the proof."""
    lines = {p.id: p for p in passages}
    proof = proof_of(answer, found.claims, judge.id)
    data: dict[str, Any] = {**found.as_json(), "outcome": outcome(found).split(":")[0], "judge": judge.id}
    for c, told in zip(found.claims, data["claims"], strict=True):
        told["verdict"] = verdict_of(c)
        told["quotes"] = [
            {
                "file": q.span.passage_id,
                "line": line_of(lines[q.span.passage_id], q.span.start),
                "start": q.span.start,
                "end": q.span.end,
                "text": q.text,
                "relation": q.relation,
            }
            for q in c.quotes
        ]
        del told["evidence"], told["supported"]  # quotes and verdict say it
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
    if answer == "-":
        return sys.stdin.read()
    path = Path(answer)
    try:
        return path.read_text("utf-8-sig")
    except (OSError, ValueError) as error:
        raise InputError(
            f"cannot read the answer from {answer[:200]!r}: {error}; give a file, or - for {STANDARD_INPUT}"
        ) from error


def _show(found: Check, passages: Sequence[Passage], judge: Judge) -> None:
    console = Console(soft_wrap=True)
    known = {p.id: p for p in passages}
    for n, claim in enumerate(found.claims, 1):
        verdict = verdict_of(claim)
        sure = "" if claim.probability is None else f" {claim.probability:.2f}"
        console.print(
            Text(f"{n}. "), Text(f"{verdict}{sure}", _STYLES[verdict]), Text(f"  {plain(claim.text)}"), sep=""
        )
        if claim.why:
            console.print(Text(f"   {plain(claim.why)}"))
        for q in claim.quotes:
            where = f"{q.span.passage_id}:{line_of(known[q.span.passage_id], q.span.start)}"
            console.print(Text(f"   {q.relation}: {plain(where)}: “{plain(' '.join(q.text.split()))}”"))
    said = outcome(found)
    console.print(Text(plain(said), _STYLES[said.split(":")[0]]), Text(f" (judge: {judge.id})"), sep="")
