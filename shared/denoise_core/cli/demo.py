"""``rag-denoise demo``: forty real questions denoised, and answers held against their passages."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.progress import track
from rich.text import Text

from denoise_core._files import write_whole
from denoise_core.cli import demo_answers
from denoise_core.cli.options import app
from denoise_core.cli.terminal import say, show
from denoise_core.embedded import default_denoiser, embedding_scorer, encoder
from denoise_core.embedded.sample import prepared_answers, sample
from denoise_core.end import ENDDenoiser
from denoise_core.end.selection import count_of_share
from denoise_core.errors import InputError
from denoise_core.evaluate.metrics import wilson
from denoise_core.question import Question
from denoise_core.report.context import Shown, rendered, values_of
from denoise_core.result import DenoiseResult
from denoise_core.scorers.bm25 import BM25Scorer

SHARES = (0.3, 0.1)
METHODS: dict[str, Callable[[], ENDDenoiser]] = {
    "default": default_denoiser,
    "cosine": lambda: ENDDenoiser(embedding_scorer(), keep=SHARES[0]),
    "BM25": lambda: ENDDenoiser(BM25Scorer(), keep=SHARES[0]),
}


@dataclass(frozen=True, slots=True)
class Outcome:
    """One question under one method."""

    question: Question
    result: DenoiseResult
    seconds: float

    def ranking(self) -> list[str]:
        """Passage ids from best to worst; every passage is one chunk here."""
        scored = [(k.span.passage_id, k.score) for k in self.result.kept]
        scored += [(d.span.passage_id, -1e9 if d.score is None else d.score) for d in self.result.dropped]
        return [i for i, _ in sorted(scored, key=lambda pair: -pair[1])]

    def kept_at(self, share: float) -> set[str]:
        ids = self.ranking()
        return set(ids[: count_of_share(share, len(ids))])


@app.command()
def demo(
    html: Annotated[Path, typer.Option(help="Where the page with kept and dropped text is written.")] = Path(
        "denoise-demo.html"
    ),
    questions: Annotated[int, typer.Option(min=1, help="How many of the 40 questions to run.")] = 40,
) -> None:
    """Denoise 40 real questions with 20 passages each, and compare with BM25 and embedding cosine.

    Prints for every question what was kept and whether the passage with the answer survived, then a table. Then
    a right and a wrong answer to each question are held against its passages: how many right ones pass, how many
    wrong ones are stopped. Writes a page that shows dropped text struck through, with scores on hover. Runs
    offline.
    """
    console = Console(highlight=False)
    if not html.parent.is_dir():
        raise InputError(f"--html {html}: there is no folder {str(html.parent)!r}")
    chosen = sample()[:questions]
    denoisers = {name: make() for name, make in METHODS.items()}
    with console.status("loading the embedded model ..."):
        for denoiser in denoisers.values():
            denoiser.denoise(chosen[0].text, chosen[0].passages)
    outcomes: dict[str, list[Outcome]] = {name: [] for name in METHODS}
    for question in track(chosen, "denoising", console=console, transient=True):
        for name, denoiser in denoisers.items():
            outcomes[name].append(_timed(denoiser, question))
    for number, outcome in enumerate(outcomes["default"], 1):
        _print_question(console, number, outcome)
    rows = _summary(outcomes)
    show(console, rows, "\nOf the questions above (tokens: mean a question)")
    found = demo_answers.judged(prepared_answers()[:questions])
    demo_answers.print_judged(console, found)
    _write(html, outcomes["default"], rows, found)
    say(console, f"The page with every kept and dropped passage: {html.resolve()}")


def _timed(denoiser: ENDDenoiser, question: Question) -> Outcome:
    started = time.perf_counter()
    result = denoiser.denoise(question.text, question.passages)
    return Outcome(question, result, time.perf_counter() - started)


def _print_question(console: Console, number: int, outcome: Outcome) -> None:
    question = outcome.question
    kept = {p.id for p in outcome.result.passages}
    survived = question.gold <= kept
    verdict = Text("answer kept", style="green") if survived else Text("ANSWER DROPPED", style="bold red")
    console.print(Text(f"\n{number}. {question.text}  ", style="bold").append_text(verdict))
    console.print(Text("   kept:    ").append_text(_titles(question, kept)))
    dropped = {p.id for p in question.passages} - kept
    console.print(Text("   dropped: ").append_text(_titles(question, dropped)), style="dim")


def _titles(question: Question, ids: set[str]) -> Text:
    line = Text()
    for passage in question.passages:
        if passage.id in ids:
            line.append(" · " if line else "")
            gold = passage.id in question.gold
            line.append(
                f"{passage.metadata['title']}{' (holds the answer)' if gold else ''}", style="bold" if gold else ""
            )
    return line


def _summary(outcomes: dict[str, list[Outcome]]) -> list[list[str]]:
    """Header and rows of the table, as text."""
    rows = [["method", "kept", "answer kept", "95 %", "tokens before", "tokens after"]]
    tokens = {
        (i, p.id): encoder().count(p.text) for i, o in enumerate(outcomes["default"]) for p in o.question.passages
    }
    n = len(outcomes["default"])
    own = [{p.id for p in o.result.passages} for o in outcomes["default"]]
    share = sum(map(len, own)) / sum(len(o.question.passages) for o in outcomes["default"])
    ways = [("default", f"auto: {share:.0%}", outcomes["default"], own)]
    ways += [
        (name, f"{share:.0%}", found, [o.kept_at(share) for o in found])
        for share in SHARES
        for name, found in outcomes.items()
    ]
    for name, amount, found, kept in ways:
        hits = sum(o.question.gold <= ids for o, ids in zip(found, kept, strict=True))
        low, high = wilson(hits, n)
        after = sum(tokens[i, passage] for i, ids in enumerate(kept) for passage in ids)
        rows.append(
            [
                name,
                amount,
                f"{hits} of {n} ({hits / n:.0%})",
                f"{low:.0%} to {high:.0%}",
                f"{sum(tokens.values()) / n:,.0f}",
                f"{after / n:,.0f}",
            ]
        )
    return rows


def _write(
    path: Path,
    outcomes: Sequence[Outcome],
    rows: list[list[str]],
    found: Sequence[demo_answers.Pair],
) -> None:
    items = [
        Shown(
            o.question.passages,
            o.result,
            o.question.gold,
            (f"answer: {' / '.join(o.question.answers)}", f"{1000 * o.seconds:.0f} ms"),
        )
        for o in outcomes
    ]
    lead = (
        "Real questions of Natural Questions, 20 Wikipedia passages each, and what the embedded default "
        "keeps. Kept text is plain, dropped text struck through; scores show when the pointer rests on a text."
    )
    values = {
        "answers": demo_answers.values_of(found),
        "told": demo_answers.TOLD,
        "score": demo_answers.score(found),
        "heading": demo_answers.HEADING,
    }
    write_whole(path, rendered("demo.html", items=values_of(items), lead=lead, table=rows, **values))
