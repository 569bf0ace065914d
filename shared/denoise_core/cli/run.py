"""``rag-denoise run``: the user's own question over the user's own text."""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.text import Text

from denoise_core._files import write_whole
from denoise_core.cli import escape_control
from denoise_core.cli.options import (
    JsonOption,
    KeepOption,
    MethodOption,
    PassagesOption,
    QueryOption,
    SkipBadOption,
    app,
)
from denoise_core.cli.read import read_passages
from denoise_core.cli.terminal import print_line, progress_bar
from denoise_core.end.denoiser import ENDDenoiser, Prefetchable
from denoise_core.end.selection import TokenLimit
from denoise_core.errors import InputError
from denoise_core.protocols import Denoiser, Scorer
from denoise_core.report.context import ReportItem, render_page, split_pieces
from denoise_core.result import DenoiseResult
from denoise_core.text.markup import strip_tags
from denoise_core.text.structural import chunk_text
from denoise_core.types import Passage, Span

NOTHING_DENOISED = 3  # the status when no passage was read, or each of them fell back
NOTHING_RELEVANT = 4  # the status when nothing seems to bear on the question
SHOWN_SECTIONS = 4  # sections that the line of what was done names
_KINDS = {"csv": "row", "json": "record", "jsonl": "record", "entries": "entry"}


@app.command()
def run(
    query: QueryOption,
    passages: PassagesOption,
    denoiser: MethodOption = "end",
    keep: KeepOption = None,
    model: Annotated[
        str | None,
        typer.Option(help="Of --method s2a-select, or a probe's: name or folder."),
    ] = None,
    tokens: Annotated[
        int | None,
        typer.Option(
            min=1, help="Keep the best, at most so many tokens, instead of --keep."
        ),
    ] = None,
    as_json: JsonOption = False,
    html: Annotated[
        Path | None, typer.Option(help="Also write a page that shows what was dropped.")
    ] = None,
    skip_bad: SkipBadOption = False,
    why: Annotated[
        bool,
        typer.Option(
            "--why", help="Show each piece, its score, why it stayed or went."
        ),
    ] = False,
) -> None:
    """Denoise your own text: print what is kept for the question, and what is dropped.

    A line on standard error says what was done; a pipe gets the kept text alone. Ends with status 3 when nothing
    was denoised, and 4 when nothing seems to bear on the question.

    [bold]Examples[/bold]

    rag-denoise run -q "who wrote the report?" -p notes.md

    cat passages.jsonl | rag-denoise run -q "who wrote the report?" -p - --keep 5 --json
    """
    if not query.strip():
        raise InputError("--query is empty; what are the passages to answer?")
    reading = read_passages(*passages, skip_bad=skip_bad)
    console, aside = Console(highlight=False), Console(stderr=True)
    for warning in reading.warnings:
        print_line(aside, warning, "yellow")
    with aside.status("loading ..."):
        chosen = build_denoiser(denoiser, keep, model, tokens)
    if isinstance(chosen, ENDDenoiser) and isinstance(
        chosen.scorer, Prefetchable
    ):  # what takes long is reading
        with progress_bar(aside, "reading pieces") as hear:
            chosen.precompute(reading.passages, hear)
    with aside.status("scoring ..."):
        result = chosen.denoise(query, reading.passages)
    if reading.passages:
        print_line(aside, summary_line(reading.passages, result), "bold")
    if html is not None:
        write_whole(
            html,
            render_page(
                [ReportItem(reading.passages, result)],
                title="What was kept, what was dropped",
            ),
        )
    if (why or console.is_terminal) and not as_json:
        print_pieces(console, reading.passages, result, why=why)
    else:
        record = (
            json.dumps(result.as_json(), ensure_ascii=False, allow_nan=False)
            if as_json
            else None
        )
        typer.echo(
            (record or _kept(reading.passages, result))
            .encode("utf-8", "replace")
            .decode()
        )
    if nothing_denoised(reading.passages, result):
        print_line(aside, "nothing was denoised", "yellow")
        raise typer.Exit(NOTHING_DENOISED)
    if result.relevant is False:
        print_line(
            aside,
            "nothing relevant: no passage seems to bear on the question",
            "yellow",
        )
        raise typer.Exit(NOTHING_RELEVANT)


def nothing_denoised(passages: Sequence[Passage], result: DenoiseResult) -> bool:
    """Whether no passage was denoised: there was none, or the policy for failures was applied to each."""
    if result.failures:
        return all(p.id in result.failures for p in passages if p.text.strip())
    return not passages or (result.fallback is not None and not result.dropped)


def summary_line(passages: Sequence[Passage], result: DenoiseResult) -> str:
    """What was done, in a line: ``kept 18 %: § Travel (2 pieces), § Returns; dropped 9``."""
    by_id, before = {p.id: p for p in passages}, sum(len(p.text) for p in passages) or 1
    after = sum(len(s) for p in result.passages for s in p.source_spans)
    found = Counter(
        _section(by_id[k.span.passage_id], k.span, len(passages) > 1)
        for k in result.kept
    )
    names = [name if n == 1 else f"{name} ({n} pieces)" for name, n in found.items()]
    if len(names) > SHOWN_SECTIONS + 1:
        names[SHOWN_SECTIONS:] = [f"{len(names) - SHOWN_SECTIONS} more"]
    said = ", ".join(names) or f"{len(result.passages)} of {len(passages)} passages"
    gone = sum(d.score is not None for d in result.dropped)
    return f"kept {100 * after / before:.0f} %: {said}; dropped {gone}"


def _section(passage: Passage, span: Span, many: bool) -> str:
    """Where a piece stands: under its heading, among the rows or records of its file, or its first words."""
    own = chunk_text(passage.text)
    above, said = own.chunk_context_and_text(own.chunks[own.chunk_index(span.start)])
    headings = [line for line in above.split("\n") if line.strip() and "|" not in line]
    heading = headings[-1].strip("#= ") if headings else ""
    name = _KINDS.get(own.text_format) or (
        f"§ {_short(heading)}" if heading else f'"{_short(said.strip())}"'
    )
    return f"{passage.id}: {name}" if many else name


def _short(text: str) -> str:
    line = text.split("\n")[0]
    return line if len(line) <= 40 else f"{line[:38].rstrip()} …"


def build_denoiser(
    name: str,
    keep: str | None = None,
    model: str | None = None,
    tokens: int | None = None,
) -> Denoiser:
    """The denoiser behind a ``--denoiser`` or ``--method``; ``keep`` as in `keep_of`, ``tokens`` of the embedded
    encoder at most."""
    from denoise_core.embedded import DefaultScorer, embedding_scorer, shared_encoder
    from denoise_core.scorers.bm25 import BM25Scorer

    chosen = None if keep is None else parse_keep(keep)
    if name == "s2a-select":
        if model is None:
            raise InputError(
                "--method s2a-select asks a chat model: 'rag-denoise run' takes --model NAME_OR_FOLDER"
            )
        if keep is not None or tokens is not None:
            raise InputError(
                "--keep and --tokens are for methods that score; with --method s2a-select the model decides"
            )
        from denoise_core.end import LocalLLM
        from denoise_core.s2a import S2ADenoiser

        return S2ADenoiser(LocalLLM(model), variant="select", max_concurrency=1)
    scorers: dict[str, Callable[[], Scorer]] = {
        "end": DefaultScorer,
        "bm25": BM25Scorer,
        "embedding": embedding_scorer,
    }
    if tokens is not None and (keep is not None or name not in scorers):
        raise InputError(
            f"--tokens is for {', '.join(scorers)}, and says how much is kept: leave --keep out"
        )
    if name not in scorers:
        if not Path(name).exists():
            raise InputError(
                f"--denoiser {name}: no such file or folder, and none of {', '.join(scorers)} and s2a-select; "
                "'rag-denoise fit' writes a folder, 'rag-denoise evaluate' a denoise.json"
            )
        from denoise_core.evaluate.comparison.setting import load_denoiser

        return load_denoiser(name, model, keep=chosen)
    if model is not None:
        raise InputError(
            f"--model is for --method s2a-select; --method {name} has a model of its own or none"
        )
    if name != "end" and chosen == "auto":
        raise InputError(
            f"--keep auto is for --method end: the scores of --method {name} have no known scale"
        )
    if tokens is not None:
        return ENDDenoiser(
            scorers[name](),
            keep=TokenLimit(tokens, shared_encoder().count_tokens),
            chunker="auto",
        )
    default = "auto" if name == "end" else None
    return ENDDenoiser(
        scorers[name](), keep=default if chosen is None else chosen, chunker="auto"
    )


def parse_keep(keep: str) -> float | int | str:
    """What ``--keep`` says: ``auto``; ``5`` is a number of chunks, ``0.3`` and ``30%`` are shares of them.

    Raises `InputError` for anything else, ``1.0`` and ``100%`` included.
    """
    text = keep.strip()
    if text == "auto" or text.isdecimal():
        return text if text == "auto" else int(text)
    try:
        share = float(text[:-1]) / 100 if text.endswith("%") else float(text)
    except ValueError:
        share = math.nan
    if not 0 < share < 1:
        raise InputError(
            f"--keep {keep}: expected a whole number of chunks such as 5, a share such as 0.3 or 30%, or auto"
        )
    return share


def _kept(passages: Sequence[Passage], result: DenoiseResult) -> str:
    """The kept text alone, of pages what a reader sees."""
    pages = {p.id for p in passages if chunk_text(p.text).text_format == "html"}
    kept = (
        replace(p, text=strip_tags(p.text)) if p.id in pages else p
        for p in result.passages
    )
    return "\n\n".join(escape_control(p.text_with_header.strip()) for p in kept)


def print_pieces(
    console: Console,
    passages: tuple[Passage, ...],
    result: DenoiseResult,
    *,
    why: bool = False,
) -> None:
    """Kept text plain, dropped text struck through and dim, under each passage's id; with ``why`` each piece's
    score, and what became of it."""
    if not passages:
        console.print("no passages")
    for passage, parts in zip(passages, split_pieces(passages, result), strict=True):
        title = passage.metadata.get("title")
        console.print(
            Text(
                escape_control(f"{passage.id}  {title}" if title else passage.id),
                style="bold",
            )
        )
        page_of = chunk_text(passage.text).text_format == "html"
        for piece in parts:
            said = (strip_tags(piece.text) if page_of else piece.text).strip()
            if not said:
                continue
            line = Text(f"  {'+' if piece.is_kept else '-'} ")
            line.append(
                escape_control(said), style="" if piece.is_kept else "dim strike"
            )
            console.print(line)
            if why:
                print_line(
                    console, f"    {piece.note}", "green" if piece.is_kept else "dim"
                )
    for name in ("note", "question_note", "fallback"):
        if said := getattr(result, name):
            print_line(console, f"{name.replace('_', ' ')}: {said}", "yellow")
