"""``rag-denoise run``: the user's own question over the user's own text."""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Literal

import typer
from rich.console import Console
from rich.progress import Progress
from rich.text import Text

from denoise_core.cli.options import AsJson, Keep, Passages, Query, SkipBad, app
from denoise_core.cli.plain import plain
from denoise_core.cli.read import read_passages
from denoise_core.cli.terminal import say
from denoise_core.end import selection
from denoise_core.end.denoiser import ENDDenoiser, Warms
from denoise_core.errors import InputError
from denoise_core.protocols import Denoiser, Scorer
from denoise_core.report.context import Shown, all_pieces, page
from denoise_core.result import DenoiseResult
from denoise_core.text.cutting import cut
from denoise_core.text.markup import stripped
from denoise_core.types import Passage, Span


@app.command()
def run(
    query: Query,
    passages: Passages,
    method: Annotated[
        Literal["end", "s2a-select", "bm25", "embedding"],
        typer.Option(help="How to denoise; 'end' is the embedded default."),
    ] = "end",
    keep: Keep = None,
    model: Annotated[
        str | None, typer.Option(help="For s2a-select: a Hugging Face chat model, by name or folder.")
    ] = None,
    denoiser: Annotated[
        Path | None,
        typer.Option(
            help="A folder that 'rag-denoise fit' wrote, or the denoise.json of 'rag-denoise evaluate', instead "
            "of --method."
        ),
    ] = None,
    tokens: Annotated[
        int | None, typer.Option(min=1, help="Keep the best, at most so many tokens, instead of --keep.")
    ] = None,
    shape: Annotated[
        Literal["view", "text", "json", "html"] | None,
        typer.Option(
            "--format", help="A view with what was dropped (on a terminal), the kept text alone (in a pipe) ..."
        ),
    ] = None,
    as_json: AsJson = False,
    skip_bad: SkipBad = False,
    why: Annotated[
        bool, typer.Option("--why", help="Say of each piece its score, and why it stayed or went.")
    ] = False,
) -> None:
    """Denoise your own text: print what is kept for the question, and what is dropped.

    The first line says what was done, on standard error in a pipe, which gets the kept text alone. Ends with
    status 3 when nothing was denoised, and 4 when nothing seems to bear on the question.

    [bold]Examples[/bold]

    rag-denoise run -q "who wrote the report?" -p notes.md

    cat passages.jsonl | rag-denoise run -q "who wrote the report?" -p - --keep 5 --json
    """
    if not query.strip():
        raise InputError("--query is empty; what are the passages to answer?")
    if tokens is not None and (keep is not None or denoiser is not None):
        raise InputError("--tokens says how much is kept: leave --keep and --denoiser out")
    reading = read_passages(*passages, skip_bad=skip_bad)
    aside = Console(stderr=True)
    for warning in reading.warnings:
        say(aside, warning, "yellow")
    with aside.status("loading ..."):
        chosen = denoiser_for(method, keep, model, tokens) if denoiser is None else fitted(denoiser, keep, model)
    _warm(aside, chosen, reading.passages)
    with aside.status("scoring ..."):
        result = chosen.denoise(query, reading.passages)
    console = Console(highlight=False)
    shape = "json" if as_json else shape or ("view" if console.is_terminal else "text")
    if reading.passages:
        done = Text(plain(summary(reading.passages, result)), style="bold")
        (console if shape == "view" else aside).print(done, soft_wrap=True)
    if shape == "view":
        show(console, reading.passages, result, why=why)
    else:
        if why:
            show(aside, reading.passages, result, why=True)
        typer.echo(_SHAPES[shape](reading.passages, result).encode("utf-8", "replace").decode())
    if nothing_denoised(reading.passages, result):
        aside.print(Text("nothing was denoised", style="yellow"))
        raise typer.Exit(NOTHING_DENOISED)
    if result.relevant is False:
        aside.print(Text("nothing relevant: no passage seems to bear on the question", style="yellow"))
        raise typer.Exit(NOTHING_RELEVANT)


def _warm(aside: Console, chosen: Denoiser, passages: Sequence[Passage]) -> None:
    """What takes long is reading the passages: where the scorer keeps what it reads, with a bar."""
    if isinstance(chosen, ENDDenoiser) and isinstance(chosen.scorer, Warms):
        with Progress(console=aside, transient=True) as bar:
            task = bar.add_task("reading pieces", total=None)
            chosen.warm(passages, lambda done, of: bar.update(task, completed=done, total=of))


def _as_text(passages: Sequence[Passage], result: DenoiseResult) -> str:
    pages = {p.id for p in passages if cut(p.text).kind == "html"}
    kept = (replace(p, text=stripped(p.text)) if p.id in pages else p for p in result.passages)
    return "\n\n".join(plain(p.headed.strip()) for p in kept)


_SHAPES: dict[str, Callable[[tuple[Passage, ...], DenoiseResult], str]] = {
    "text": _as_text,
    "json": lambda _, result: json.dumps(result.as_json(), ensure_ascii=False, allow_nan=False),
    "html": lambda passages, result: page([Shown(passages, result)], title="What was kept, what was dropped"),
}

NOTHING_DENOISED = 3  # the status when no passage was read, or each of them fell back
NOTHING_RELEVANT = 4  # the status when nothing seems to bear on the question


def nothing_denoised(passages: Sequence[Passage], result: DenoiseResult) -> bool:
    """Whether no passage was denoised: there was none, or the policy for failures was applied to each."""
    if result.failures:
        return all(p.id in result.failures for p in passages if p.text.strip())
    return not passages or (result.fallback is not None and not result.dropped)


def denoiser_for(method: str, keep: str | None, model: str | None = None, tokens: int | None = None) -> Denoiser:
    """The denoiser behind a ``--method``; ``keep`` as in `keep_of`, ``tokens`` at most of the embedded encoder."""
    if method == "s2a-select":
        if model is None:
            raise InputError("--method s2a-select asks a chat model: add --model NAME_OR_FOLDER")
        if keep is not None or tokens is not None:
            raise InputError(
                "--keep and --tokens are for methods that score; with --method s2a-select the model decides"
            )
        from denoise_core.end import LocalLLM
        from denoise_core.s2a import S2ADenoiser

        return S2ADenoiser(LocalLLM(model), variant="select", max_concurrency=1)
    if model is not None:
        raise InputError(f"--model is for --method s2a-select; --method {method} has a model of its own or none")
    from denoise_core.embedded import DefaultScorer, embedding_scorer, encoder
    from denoise_core.scorers.bm25 import BM25Scorer

    makers: dict[str, Callable[[], Scorer]] = {
        "end": DefaultScorer,
        "bm25": BM25Scorer,
        "embedding": embedding_scorer,
    }
    chosen: selection.Keep | None
    if tokens is not None:
        chosen = selection.Tokens(tokens, encoder().count)
    elif keep is None or keep.strip() == "auto":
        chosen = "auto" if method == "end" else None
        if chosen is None and keep is not None:
            raise InputError(
                f"--keep auto is for --method end: the scores of --method {method} have no known scale"
            )
    else:
        chosen = keep_of(keep)
    return ENDDenoiser(makers[method](), keep=chosen, chunker="auto")


def fitted(folder: Path, keep: str | None, model: str | None = None) -> Denoiser:
    """The denoiser of a folder that ``rag-denoise fit`` wrote, or of a ``denoise.json``."""
    if not folder.exists():
        raise InputError(
            f"--denoiser {folder}: no such file or folder; 'rag-denoise fit' writes a folder, "
            "'rag-denoise evaluate' a denoise.json"
        )
    from denoise_core.evaluate.trial.setting import load_denoiser

    return load_denoiser(folder, model, keep=None if keep is None else keep_of(keep))


def keep_of(keep: str) -> float | int | str:
    """What ``--keep`` says: ``auto``; ``5`` is a number of chunks, ``0.3`` and ``30%`` are shares of them.

    Raises `InputError` for anything else, ``1.0`` and ``100%`` included.
    """
    text = keep.strip()
    if text == "auto":
        return text
    try:
        if text.endswith("%"):
            share = float(text[:-1]) / 100
        elif text.isdecimal():
            return int(text)
        else:
            share = float(text)
    except ValueError:
        share = math.nan
    if not 0 < share < 1:
        raise InputError(
            f"--keep {keep}: expected a whole number of chunks such as 5, a share such as 0.3 or 30%, or auto"
        )
    return share


_KINDS = {"csv": "row", "json": "record", "jsonl": "record", "entries": "entry"}
NAMED = 4  # sections that the first line names


def summary(passages: Sequence[Passage], result: DenoiseResult) -> str:
    """What was done, in a line: ``kept 18 %: § Travel (2 pieces), § Returns; dropped 9``."""
    before = sum(len(p.text) for p in passages) or 1
    after = sum(len(s) for p in result.passages for s in p.covered)
    by_id = {p.id: p for p in passages}
    found = Counter(_section(by_id[k.span.passage_id], k.span, len(passages) > 1) for k in result.kept)
    names = [name if n == 1 else f"{name} ({n} pieces)" for name, n in found.items()]
    more = [f"{len(names) - NAMED} more"] if len(names) > NAMED + 1 else []
    said = (
        ", ".join(names[:NAMED] + (more or names[NAMED:])) or f"{len(result.passages)} of {len(passages)} passages"
    )
    gone = sum(d.score is not None for d in result.dropped)
    return f"kept {100 * after / before:.0f} %: {said}; dropped {gone}"


def _section(passage: Passage, span: Span, many: bool) -> str:
    """Where a piece stands: under its heading, among the rows or records of its file, or its first words."""
    own = cut(passage.text)
    piece = own.pieces[own.at(span.start)]
    above, said = own.read(piece)
    if own.kind in _KINDS:
        name = _KINDS[own.kind]
    else:
        headings = [line for line in above.split("\n") if line.strip() and "|" not in line]
        named = headings[-1].strip("#= ") if headings else ""
        first = said.strip().split("\n")[0]
        name = f"§ {_short(named)}" if named else f'"{_short(first)}"'
    return f"{passage.id}: {name}" if many else name


def _short(text: str) -> str:
    return text if len(text) <= 40 else f"{text[:38].rstrip()} …"


def show(console: Console, passages: tuple[Passage, ...], result: DenoiseResult, *, why: bool = False) -> None:
    """Kept text plain, dropped text struck through and dim, under each passage's id; with ``why`` each piece's
    score, and what became of it."""
    if not passages:
        console.print("no passages")
    for passage, parts in zip(passages, all_pieces(passages, result), strict=True):
        title = passage.metadata.get("title")
        console.print(Text(plain(f"{passage.id}  {title}" if title else passage.id), style="bold"))
        page_of = cut(passage.text).kind == "html"
        for piece in parts:
            said = (stripped(piece.text) if page_of else piece.text).strip()
            if not said:
                continue
            line = Text(f"  {'+' if piece.kept else '-'} ")
            line.append(plain(said), style="" if piece.kept else "dim strike")
            console.print(line)
            if why:
                say(console, f"    {piece.note}", "green" if piece.kept else "dim")
    if result.note:
        say(console, f"note: {result.note}", "yellow")
    if result.question_note:
        say(console, f"question: {result.question_note}", "yellow")
    if result.fallback:
        say(console, f"fallback: {result.fallback}", "yellow")
