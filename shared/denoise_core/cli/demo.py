"""``rag-denoise demo``: forty real questions denoised, and a right and a wrong answer to each checked."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict
from importlib.resources import as_file, files
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.progress import track

from denoise_core._files import write_whole
from denoise_core.cli.check import OUTCOME_WORDS
from denoise_core.cli.options import app
from denoise_core.cli.terminal import print_line, print_table
from denoise_core.embedded import default_denoiser, shared_encoder
from denoise_core.embedded.sample import sample_answers
from denoise_core.errors import InputError
from denoise_core.evaluate.metrics import wilson_interval
from denoise_core.question import Question
from denoise_core.report.context import ReportItem, render_page
from denoise_core.result import DenoiseResult
from denoise_core.support.check import check
from denoise_core.support.quoting import VERSION, LLMJudge, judge_prompt
from denoise_core.testing import RecordedLLM
from denoise_core.types import Message, Passage

TITLE = "What was kept, what was dropped, what was supported"
LEAD = (
    "Real questions of Natural Questions, 20 Wikipedia passages each, and what the default keeps. Kept text is "
    "plain, dropped text struck through; scores show when the pointer rests on a text. Each question has a right "
    "answer and a wrong one from another passage; the quoting judge checks both against all twenty passages, by "
)


@app.command()
def demo(
    html: Annotated[
        Path, typer.Option(help="The page with kept and dropped text.")
    ] = Path("denoise-demo.html"),
    questions: Annotated[
        int, typer.Option(min=1, help="How many of the 40 questions to run.")
    ] = 40,
    replies: Annotated[
        Path | None,
        typer.Option(
            help="Replies of your model, by 'rag-denoise record'; else the shipped ones."
        ),
    ] = None,
) -> None:
    """Denoise 40 real questions with 20 passages each, and check a right and a wrong answer to each.

    Prints for every question what was kept, whether the passage with the answer survived, and the quoting judge's
    verdict on both answers; then how often each was as it should be. The judge asks a large language model, whose
    recorded replies are replayed: nothing is downloaded or sent. Writes a page that shows dropped text struck
    through, with scores on hover. How the default compares with BM25 and cosine on these questions: rag-denoise
    evaluate.
    """
    console = Console(highlight=False)
    if not html.parent.is_dir():
        raise InputError(f"--html {html}: there is no folder {str(html.parent)!r}")
    prepared = sample_answers()[:questions]
    prompts = [
        judge_prompt(p.question.text, answer, p.question.passages)
        for p in prepared
        for answer in (p.right_answer, p.wrong_answer)
    ]
    llm, source = load_recorded_llm(
        replies, prompts, unanswered=html.with_suffix(".prompts.jsonl")
    )
    judge = LLMJudge(llm)
    denoiser, good, tokens, shown = (
        default_denoiser(),
        Counter[str](),
        Counter[str](),
        list[ReportItem](),
    )
    for given in track(prepared, "denoising", console=console, transient=True):
        question = given.question
        result = denoiser.denoise(question.text, question.passages)
        survived = question.gold <= {p.id for p in result.passages}
        right, wrong = (
            OUTCOME_WORDS[
                check(question.text, answer, question.passages, judge=judge).outcome
            ]
            for answer in (given.right_answer, given.wrong_answer)
        )
        good.update(
            kept=survived, right=right == "supported", wrong=wrong != "supported"
        )
        tokens.update(before=_tokens(question.passages), after=_tokens(result.passages))
        facts = (
            f"right answer: {given.right_answer} ({right})",
            f"wrong answer: {given.wrong_answer} ({wrong})",
        )
        shown.append(ReportItem(question.passages, result, question.gold, facts))
        print_line(console, f"\n{len(shown)}. {question.text}", "bold")
        print_line(
            console,
            f"   {'answer kept' if survived else 'ANSWER DROPPED'}",
            "green" if survived else "bold red",
        )
        print_line(console, f"   kept:    {_titles(question, result, True)}")
        print_line(console, f"   dropped: {_titles(question, result, False)}", "dim")
        for line in facts:
            print_line(console, f"   {line}")
    rows = [["of the questions above", "as it should be", "95 %"]]
    about = {
        "kept": "answer kept",
        "right": "right answers that pass",
        "wrong": "wrong answers that are stopped",
    }
    for name, words in about.items():
        low, high = wilson_interval(good[name], len(shown))
        share = f"{good[name]} of {len(shown)} ({good[name] / len(shown):.0%})"
        rows.append([words, share, f"{low:.0%} to {high:.0%}"])
    print_table(console, rows)
    print_line(console, f"verdicts of the quoting judge: {source}")
    before, after = (tokens[name] / len(shown) for name in ("before", "after"))
    print_line(
        console,
        f"{before:,.0f} tokens a question before, {after:,.0f} after ({after / before:.0%})",
    )
    write_whole(
        html, render_page(shown, title=TITLE, lead=f"{LEAD}{source}.", table=rows)
    )
    print_line(
        console, f"The page with every kept and dropped passage: {html.resolve()}"
    )


def load_recorded_llm(
    path: Path | None, prompts: Sequence[Sequence[Message]], *, unanswered: Path
) -> tuple[RecordedLLM, str]:
    """The model that replays the replies in ``path`` (None: those that ship), and where they come from.

    Raises `InputError` when a prompt has no reply; the prompts without one are written to ``unanswered``.
    """
    if path is None:
        with as_file(
            files("denoise_core.embedded") / "data" / "demo_replies.jsonl"
        ) as shipped:
            return load_recorded_llm(shipped, prompts, unanswered=unanswered)
    try:
        rows = [json.loads(line) for line in path.read_text("utf-8").splitlines()]
        llm = RecordedLLM({row["prompt"]: row["reply"] for row in rows})
        made_by = sorted({f"{row['model']}, {row['date']}" for row in rows})
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise InputError(
            f"{path}: expected replies as 'rag-denoise record' writes them ({error!r})"
        ) from error
    missing = [
        messages for messages in prompts if RecordedLLM.key(messages) not in llm.replies
    ]
    if missing:
        lines = [
            json.dumps({"messages": [asdict(m) for m in messages]})
            for messages in missing
        ]
        write_whole(unanswered, "\n".join(lines) + "\n")
        raise InputError(
            f"no recorded reply for {len(missing)} of {len(prompts)} prompts. To record them, run: rag-denoise "
            f"record {unanswered} REPLIES --llm http://host:port/v1#name; then: rag-denoise demo --replies REPLIES"
        )
    return (
        llm,
        f"replies recorded from {' and '.join(made_by)}, prompt version {VERSION}",
    )


def _tokens(passages: tuple[Passage, ...]) -> int:
    return sum(shared_encoder().count_tokens(p.text) for p in passages)


def _titles(question: Question, result: DenoiseResult, kept: bool) -> str:
    kept_ids = {p.id for p in result.passages}
    return " · ".join(
        p.metadata["title"] + (" (holds the answer)" if p.id in question.gold else "")
        for p in question.passages
        if (p.id in kept_ids) == kept
    )
