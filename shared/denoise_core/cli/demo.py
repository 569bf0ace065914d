"""``rag-denoise demo``: forty real questions denoised, and a right and a wrong answer to each judged."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.progress import track
from rich.text import Text

from denoise_core._files import write_whole
from denoise_core.cli.options import app
from denoise_core.cli.terminal import say, show
from denoise_core.embedded import default_denoiser, embedding_scorer, encoder, judge
from denoise_core.embedded.sample import Prepared, prepared_answers, sample
from denoise_core.end import ENDDenoiser
from denoise_core.end.selection import count_of_share
from denoise_core.errors import InputError
from denoise_core.evaluate.metrics import wilson
from denoise_core.question import Question
from denoise_core.report.context import Shown, rendered, values_of
from denoise_core.result import DenoiseResult
from denoise_core.scorers.bm25 import BM25Scorer
from denoise_core.support.judging import Claim, Judged

SHARES = (0.3, 0.1)
METHODS: dict[str, Callable[[], ENDDenoiser]] = {
    "default": default_denoiser,
    "cosine": lambda: ENDDenoiser(embedding_scorer(), keep=SHARES[0]),
    "BM25": lambda: ENDDenoiser(BM25Scorer(), keep=SHARES[0]),
}
ANSWERS = "Answers compared with their passages"


@dataclass(frozen=True, slots=True)
class Outcome:
    """One question under one method."""

    question: Question
    result: DenoiseResult

    def kept_at(self, share: float) -> set[str]:
        """The ids of the best passages; every passage is one chunk here."""
        scored = [(k.score, k.span.passage_id) for k in self.result.kept]
        scored += [(-1e9 if d.score is None else d.score, d.span.passage_id) for d in self.result.dropped]
        best = sorted(scored, key=lambda pair: -pair[0])
        return {i for _, i in best[: count_of_share(share, len(best))]}


@dataclass(frozen=True, slots=True)
class Pair:
    """One prepared question with what the judge says of both answers."""

    prepared: Prepared
    right: Judged
    wrong: Judged


@app.command()
def demo(
    html: Annotated[Path, typer.Option(help="Where the page with kept and dropped text is written.")] = Path(
        "denoise-demo.html"
    ),
    questions: Annotated[int, typer.Option(min=1, help="How many of the 40 questions to run.")] = 40,
) -> None:
    """Denoise 40 real questions with 20 passages each, and compare with BM25 and embedding cosine.

    Prints for every question what was kept and whether the passage with the answer survived, then a table. Then
    the judge that ships compares a right and a wrong answer to each question with its passages: how many right
    ones pass, how many wrong ones are stopped. Writes a page that shows dropped text struck through, with scores
    on hover. Runs offline.
    """
    console = Console(highlight=False)
    if not html.parent.is_dir():
        raise InputError(f"--html {html}: there is no folder {str(html.parent)!r}")
    chosen = sample()[:questions]
    outcomes: dict[str, list[Outcome]] = {name: [] for name in METHODS}
    denoisers = {name: make() for name, make in METHODS.items()}
    for question in track(chosen, "denoising", console=console, transient=True):
        for name, denoiser in denoisers.items():
            outcomes[name].append(Outcome(question, denoiser.denoise(question.text, question.passages)))
    for number, outcome in enumerate(outcomes["default"], 1):
        _print_question(console, number, outcome)
    rows = _summary(outcomes)
    show(console, rows, "\nOf the questions above (tokens: mean a question)")
    found = [
        Pair(p, *(_judged(p.question, said) for said in (p.right, p.wrong)))
        for p in track(prepared_answers()[:questions], "judging", console=console, transient=True)
    ]
    for f in found[:3]:
        say(console, f"\n{f.prepared.question.text}", "bold")
        say(console, f"   right: {f.prepared.right}  [{_said(f.right)}]")
        say(console, f"   wrong: {f.prepared.wrong}  [{_said(f.wrong)}]")
    score = _score(found)
    show(console, score, f"\n{ANSWERS}")
    items = values_of([_shown(o.question, o.result) for o in outcomes["default"]])
    page = {"items": items, "table": rows, "answers": found, "said": _said, "score": score, "heading": ANSWERS}
    write_whole(html, rendered("demo.html", **page))
    say(console, f"The page with every kept and dropped passage: {html.resolve()}")


def _shown(question: Question, result: DenoiseResult) -> Shown:
    return Shown(question.passages, result, question.gold, (f"answer: {' / '.join(question.answers)}",))


def _judged(question: Question, said: str) -> Judged:
    return judge().judge(question.text, (Claim(said, 0, len(said)),), question.passages)[0]


def _said(found: Judged) -> str:
    sure = "" if found.probability is None else f", probability {found.probability:.2f}"
    if found.supported:
        return f"supported{sure}"
    return f"{'unknown' if found.supported is None else 'not supported'}{sure}: {found.why}"


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
    titles = [
        Text(f"{p.metadata['title']} (holds the answer)", "bold")
        if p.id in question.gold
        else Text(p.metadata["title"])
        for p in question.passages
        if p.id in ids
    ]
    return Text(" · ").join(titles)


def _summary(outcomes: dict[str, list[Outcome]]) -> list[list[str]]:
    """Header and rows of the table, as text."""
    rows = [["method", "kept", "answer kept", "95 %", "tokens before", "tokens after"]]
    first = outcomes["default"]
    tokens = [{p.id: encoder().count(p.text) for p in o.question.passages} for o in first]
    own = [{p.id for p in o.result.passages} for o in first]
    share = sum(map(len, own)) / sum(map(len, tokens))
    ways = [("default", f"auto: {share:.0%}", own)]
    ways += [(n, f"{s:.0%}", [o.kept_at(s) for o in found]) for s in SHARES for n, found in outcomes.items()]
    before = sum(sum(each.values()) for each in tokens) / len(first)
    for name, amount, kept in ways:
        hits = sum(o.question.gold <= ids for o, ids in zip(first, kept, strict=True))
        after = sum(of[i] for of, ids in zip(tokens, kept, strict=True) for i in ids) / len(first)
        rows.append([name, amount, *_share(hits, len(first)), f"{before:,.0f}", f"{after:,.0f}"])
    return rows


def _score(found: list[Pair]) -> list[list[str]]:
    """Header and rows: how many right ones passed, how many wrong ones were stopped."""
    n = len(found)
    right, wrong = (sum(j.supported is True for j in of) for of in zip(*((f.right, f.wrong) for f in found)))
    return [
        ["answers", "passed", "stopped or unknown", "as it should be", "95 %"],
        ["right", str(right), str(n - right), *_share(right, n)],
        ["wrong, from another passage", str(wrong), str(n - wrong), *_share(n - wrong, n)],
    ]


def _share(hits: int, n: int) -> tuple[str, str]:
    low, high = wilson(hits, n)
    return f"{hits} of {n} ({hits / n:.0%})", f"{low:.0%} to {high:.0%}"
