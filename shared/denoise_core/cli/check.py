"""``rag-denoise check``: the user's answer against the user's text, claim by claim."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any

import typer
from rich.console import Console

from denoise_core._files import write_whole
from denoise_core.cli.options import (
    JsonOption,
    LLMOption,
    PageOption,
    PassagesOption,
    QueryOption,
    SkipBadOption,
    app,
)
from denoise_core.cli.read import read_answer, read_passages
from denoise_core.cli.terminal import print_json, print_line, print_warnings
from denoise_core.errors import DenoiseError, InputError, format_error
from denoise_core.report.checked import line_number, render_check, verdict_word
from denoise_core.support import AnswerVerdict
from denoise_core.support.check import check
from denoise_core.support.judging import Judge
from denoise_core.types import Passage

OUTCOME_WORDS = {
    "pass": "supported",
    "partial": "partly supported",
    "fail": "unsupported",
    "unknown": "unknown",
}
EXIT_STATUSES = {"supported": 0, "partly supported": 3, "unsupported": 3, "unknown": 4}
_TOKENS_PER_UNIT = 32  # of a line of the judge's reply
_THINKING_TOKENS = 1024  # before its first line


@app.command("check")
def check_command(
    answer: Annotated[
        str,
        typer.Option(
            "--answer", "-a", help="The file with the answer, or - for standard input."
        ),
    ],
    passages: PassagesOption,
    query: QueryOption = "",
    llm: LLMOption = None,
    as_json: JsonOption = False,
    html: PageOption = None,
    skip_bad: SkipBadOption = False,
) -> None:
    """Check an answer by your own text: each claim with its verdict and quote, by file and line.

    Ends with status 0 if the passages support it, 3 if they do not or only in part, and
    4 if that is unknown, or nothing is claimed. Without --llm no judge reads it: each
    claim gets the sentence that shares most of its words, if at least half, and the
    numbers, dates and names that it lacks; each quotation, whether it is verbatim.
    Lines of HTML, PDF and docx are those of their text, as its reader sees it.

    **Example**

    rag-denoise check -q "when was it built?" -a answer.md -p docs/ --html proof.html
    """
    if answer == "-" and "-" in passages:
        raise InputError(
            "--answer and --passages cannot both be read from standard input"
        )
    answer_text, answer_warnings = read_answer(answer)
    loaded_passages = read_passages(*passages, skip_bad=skip_bad, visible_text=True)
    error_console = Console(stderr=True)
    print_warnings(error_console, answer_warnings)
    print_warnings(error_console, loaded_passages.warnings)
    judge = judge_from_option(llm)
    try:
        verdict = check(query, answer_text, loaded_passages.passages, judge=judge)
    except Exception as error:
        if llm is None or isinstance(error, DenoiseError):
            raise
        raise DenoiseError(f"--llm {llm}: {format_error(error)}") from error
    outcome = outcome_word(verdict)
    outcome_line = outcome
    if verdict.reason:
        outcome_line = f"{outcome}: {verdict.reason}"
    # The page first: printing may fail on a closed pipe.
    if html is not None:
        page_html = render_check(
            query,
            answer_text,
            verdict.claims,
            loaded_passages.passages,
            outcome=outcome_line,
            judge=verdict.judge,
        )
        write_whole(html, page_html)
    if as_json:
        print_json(verdict_json(verdict), indent=1)
    else:
        _print_verdict(verdict, loaded_passages.passages)
        judge_name = verdict.judge or "none"
        print_line(Console(), f"{outcome_line} (judge: {judge_name})")
    raise typer.Exit(EXIT_STATUSES[outcome])


def verdict_json(verdict: AnswerVerdict) -> dict[str, Any]:
    """Return the verdict as JSON, with its outcome in words."""
    return {**verdict.as_json(), "outcome": outcome_word(verdict)}


def outcome_word(verdict: AnswerVerdict) -> str:
    """Return the outcome in a word; of what claims nothing it is unknown."""
    if verdict.supported is None and not verdict.claims:
        return "unknown"
    return OUTCOME_WORDS[verdict.outcome]


def judge_from_option(llm: str | None) -> Judge | None:
    """Return the judge with a model; None if no model is named.

    Args:
        llm: ``http://host:port/v1#model``, or a folder or hub name for this machine.
    """
    if llm is None:
        return None
    from denoise_core.evaluate.comparison.answering import llm_from_name
    from denoise_core.support.quoting import MAX_UNITS, LLMJudge

    reply_tokens = _TOKENS_PER_UNIT * MAX_UNITS + _THINKING_TOKENS
    return LLMJudge(llm_from_name(llm, max_tokens=reply_tokens), name=llm)


def _print_verdict(verdict: AnswerVerdict, passages: Sequence[Passage]) -> None:
    """Print each claim with its quotes by file and line, and bad quotations."""
    console = Console(soft_wrap=True, highlight=False)
    passages_by_id = {passage.id: passage for passage in passages}
    for number, unit in enumerate(verdict.units, 1):
        label = "no claim"
        if unit.is_claim:
            label = verdict_word(unit)
        if unit.probability is not None:
            label = f"{label} {unit.probability:.2f}"
        print_line(console, f"{number}. {label}  {unit.text}")
        if unit.reason and unit.reason != verdict.reason:
            print_line(console, f"   {unit.reason}")
        for quote in unit.quotes:
            passage = passages_by_id[quote.span.passage_id]
            line = line_number(passage, quote.span.start)
            quote_text = " ".join(quote.text.split())
            print_line(
                console, f"   {quote.relation}: {passage.id}:{line}: “{quote_text}”"
            )
    for quotation in verdict.quotations:
        if quotation.status != "verbatim":
            quoted_text = " ".join(quotation.text.split())
            print_line(console, f"{quotation.status}: “{quoted_text}”")
