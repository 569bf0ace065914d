"""``rag-denoise demo``: forty real questions denoised, and a right and a wrong answer to each judged."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.progress import track

from denoise_core._files import write_whole
from denoise_core.cli.options import app
from denoise_core.cli.terminal import say, show
from denoise_core.embedded import default_denoiser, encoder, judge
from denoise_core.embedded.sample import prepared_answers
from denoise_core.errors import InputError
from denoise_core.evaluate.metrics import wilson
from denoise_core.question import Question
from denoise_core.report.checked import verdict_of
from denoise_core.report.context import Shown, page
from denoise_core.result import DenoiseResult
from denoise_core.support.judging import Claim
from denoise_core.types import Passage

TITLE = "What was kept, what was dropped, what was supported"
LEAD = (
    "Real questions of Natural Questions, 20 Wikipedia passages each, and what the default keeps. Kept text is "
    "plain, dropped text struck through; scores show when the pointer rests on a text. Each question has a right "
    "answer and a wrong one from another passage; the judge that ships sees both with all twenty passages."
)


@app.command()
def demo(
    html: Annotated[Path, typer.Option(help="The page with kept and dropped text.")] = Path("denoise-demo.html"),
    questions: Annotated[int, typer.Option(min=1, help="How many of the 40 questions to run.")] = 40,
) -> None:
    """Denoise 40 real questions with 20 passages each, and judge a right and a wrong answer to each.

    Prints for every question what was kept, whether the passage with the answer survived, and what the judge that
    ships says of both answers; then how often each was as it should be. Writes a page that shows dropped text
    struck through, with scores on hover. Runs offline. How the default compares with BM25 and cosine on these
    questions: rag-denoise evaluate.
    """
    console = Console(highlight=False)
    if not html.parent.is_dir():
        raise InputError(f"--html {html}: there is no folder {str(html.parent)!r}")
    denoiser, good, tokens, shown = default_denoiser(), Counter[str](), Counter[str](), list[Shown]()
    for given in track(prepared_answers()[:questions], "denoising", console=console, transient=True):
        question = given.question
        result = denoiser.denoise(question.text, question.passages)
        survived = question.gold <= {p.id for p in result.passages}
        right, wrong = (_judged(question, said) for said in (given.right, given.wrong))
        good.update(kept=survived, right=right == "supported", wrong=wrong != "supported")
        tokens.update(before=_tokens(question.passages), after=_tokens(result.passages))
        said = (f"right answer: {given.right} ({right})", f"wrong answer: {given.wrong} ({wrong})")
        shown.append(Shown(question.passages, result, question.gold, said))
        say(console, f"\n{len(shown)}. {question.text}", "bold")
        say(console, f"   {'answer kept' if survived else 'ANSWER DROPPED'}", "green" if survived else "bold red")
        say(console, f"   kept:    {_titles(question, result, True)}")
        say(console, f"   dropped: {_titles(question, result, False)}", "dim")
        for line in said:
            say(console, f"   {line}")
    rows = [["of the questions above", "as it should be", "95 %"]]
    about = {"kept": "answer kept", "right": "right answers that pass", "wrong": "wrong answers that are stopped"}
    for name, words in about.items():
        low, high = wilson(good[name], len(shown))
        share = f"{good[name]} of {len(shown)} ({good[name] / len(shown):.0%})"
        rows.append([words, share, f"{low:.0%} to {high:.0%}"])
    show(console, rows)
    before, after = (tokens[name] / len(shown) for name in ("before", "after"))
    say(console, f"{before:,.0f} tokens a question before, {after:,.0f} after ({after / before:.0%})")
    write_whole(html, page(shown, title=TITLE, lead=LEAD, table=rows))
    say(console, f"The page with every kept and dropped passage: {html.resolve()}")


def _judged(question: Question, said: str) -> str:
    return verdict_of(judge().judge(question.text, (Claim(said, 0, len(said)),), question.passages).claims[0])


def _tokens(passages: tuple[Passage, ...]) -> int:
    return sum(encoder().count(p.text) for p in passages)


def _titles(question: Question, result: DenoiseResult, kept: bool) -> str:
    own = {p.id for p in result.passages}
    return " · ".join(
        p.metadata["title"] + (" (holds the answer)" if p.id in question.gold else "")
        for p in question.passages
        if (p.id in own) == kept
    )
