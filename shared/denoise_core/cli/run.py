"""``rag-denoise run``: the user's question over the user's text."""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import suppress
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
from denoise_core.end.selection import KeepSetting, TokenLimit
from denoise_core.errors import InputError
from denoise_core.protocols import Denoiser, Scorer
from denoise_core.report.context import ReportItem, render_page, split_pieces
from denoise_core.result import DenoiseResult
from denoise_core.text.markup import strip_tags
from denoise_core.text.structural import chunk_text
from denoise_core.types import Passage, Span

NOTHING_DENOISED = 3  # exit status: no passage was read, or each of them fell back
NOTHING_RELEVANT = 4  # exit status: nothing seems relevant to the question
SHOWN_SECTIONS = 4  # named in the summary line
_LABEL_CHARACTERS = 40
_RECORD_KINDS = {"csv": "row", "json": "record", "jsonl": "record", "entries": "entry"}


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
    show_reasons: Annotated[
        bool,
        typer.Option(
            "--why", help="Show each piece, its score, and why it was kept or dropped."
        ),
    ] = False,
) -> None:
    """Denoise your own text: print what is kept for the question, and what is dropped.

    A line on standard error says what was done; a pipe gets the kept text alone. Ends with status 3 when nothing
    was denoised, and 4 when nothing seems relevant to the question.

    [bold]Examples[/bold]

    rag-denoise run -q "who wrote the report?" -p notes.md

    cat passages.jsonl | rag-denoise run -q "who wrote the report?" -p - --keep 5 --json
    """
    if not query.strip():
        raise InputError("--query is empty; what are the passages to answer?")
    loaded_passages = read_passages(*passages, skip_bad=skip_bad)
    console = Console(highlight=False)
    error_console = Console(stderr=True)
    for load_warning in loaded_passages.warnings:
        print_line(error_console, load_warning, "yellow")
    with error_console.status("loading ..."):
        denoise_method = build_denoiser(denoiser, keep, model, tokens)
    if isinstance(denoise_method, ENDDenoiser) and isinstance(
        denoise_method.scorer, Prefetchable
    ):
        # Embedding takes nearly all of the time, so it gets the progress bar.
        with progress_bar(error_console, "reading pieces") as on_progress:
            denoise_method.precompute(loaded_passages.passages, on_progress)
    with error_console.status("scoring ..."):
        denoise_result = denoise_method.denoise(query, loaded_passages.passages)
    if loaded_passages.passages:
        print_line(
            error_console,
            summary_line(loaded_passages.passages, denoise_result),
            "bold",
        )
    if html is not None:
        items = [ReportItem(loaded_passages.passages, denoise_result)]
        write_whole(html, render_page(items, title="What was kept, what was dropped"))
    if as_json:
        _echo(json.dumps(denoise_result.as_json(), ensure_ascii=False, allow_nan=False))
    elif show_reasons or console.is_terminal:
        print_pieces(
            console, loaded_passages.passages, denoise_result, show_reasons=show_reasons
        )
    else:
        _echo(_kept_text(loaded_passages.passages, denoise_result))
    if nothing_denoised(loaded_passages.passages, denoise_result):
        print_line(error_console, "nothing was denoised", "yellow")
        raise typer.Exit(NOTHING_DENOISED)
    if denoise_result.relevant is False:
        print_line(
            error_console,
            "nothing relevant: no passage seems to answer the question",
            "yellow",
        )
        raise typer.Exit(NOTHING_RELEVANT)


def _echo(text: str) -> None:
    typer.echo(text.encode("utf-8", "replace").decode())


def nothing_denoised(passages: Sequence[Passage], result: DenoiseResult) -> bool:
    """Whether there was no passage, or each of them fell back."""
    if result.failures:
        texts = (passage for passage in passages if passage.text.strip())
        return all(passage.id in result.failures for passage in texts)
    return not passages or (result.fallback is not None and not result.dropped)


def summary_line(passages: Sequence[Passage], result: DenoiseResult) -> str:
    """Return what was done: ``kept 18 %: § Travel (2 pieces), § Returns; dropped 9``."""
    passages_by_id = {passage.id: passage for passage in passages}
    input_length = sum(len(passage.text) for passage in passages) or 1
    kept_length = 0
    for passage in result.passages:
        kept_length += sum(map(len, passage.source_spans))
    section_counts = Counter[str]()
    for chunk in result.kept:
        passage = passages_by_id[chunk.span.passage_id]
        section_label = _section_label(passage, chunk.span)
        if len(passages) > 1:
            section_label = f"{passage.id}: {section_label}"
        section_counts[section_label] += 1
    section_labels = []
    for section_label, section_count in section_counts.items():
        section_labels.append(
            section_label
            if section_count == 1
            else f"{section_label} ({section_count} pieces)"
        )
    if len(section_labels) > SHOWN_SECTIONS + 1:
        section_labels[SHOWN_SECTIONS:] = [
            f"{len(section_labels) - SHOWN_SECTIONS} more"
        ]
    kept_names = ", ".join(section_labels)
    if not kept_names:
        kept_names = f"{len(result.passages)} of {len(passages)} passages"
    kept_percent = f"{100 * kept_length / input_length:.0f} %"
    dropped_count = sum(chunk.score is not None for chunk in result.dropped)
    return f"kept {kept_percent}: {kept_names}; dropped {dropped_count}"


def _section_label(passage: Passage, span: Span) -> str:
    """The heading above a piece, its kind of record, or its first words."""
    chunked_text = chunk_text(passage.text)
    record_kind = _RECORD_KINDS.get(chunked_text.text_format)
    if record_kind:
        return record_kind
    chunk = chunked_text.chunks[chunked_text.chunk_index(span.start)]
    context, piece_text = chunked_text.chunk_context_and_text(chunk)
    for text_line in reversed(context.split("\n")):
        if (
            text_line.strip() and "|" not in text_line
        ):  # rows of a table are no headings
            section_heading = text_line.strip("#= ")
            if section_heading:
                return f"§ {_shorten_line(section_heading)}"
            break
    return f'"{_shorten_line(piece_text.strip())}"'


def _shorten_line(text: str) -> str:
    text_line = text.split("\n")[0]
    if len(text_line) <= _LABEL_CHARACTERS:
        return text_line
    return f"{text_line[: _LABEL_CHARACTERS - 2].rstrip()} …"


def build_denoiser(
    name: str,
    keep: str | None = None,
    model: str | None = None,
    tokens: int | None = None,
) -> Denoiser:
    """Return the denoiser of a ``--denoiser`` or ``--method``.

    Args:
        name: A method, a folder of ``fit``, or a ``denoise.json`` of ``evaluate``.
        keep: As in `parse_keep`.
        model: Of S2A or a probe.
        tokens: Keep at most this many tokens of the embedded encoder.

    Raises:
        InputError: The options contradict each other, or there is no such file.
    """
    from denoise_core.embedded import DefaultScorer, embedding_scorer, shared_encoder
    from denoise_core.scorers.bm25 import BM25Scorer

    amount = None if keep is None else parse_keep(keep)
    if name == "s2a-select":
        return _build_s2a(model, has_amount=keep is not None or tokens is not None)
    scorers: dict[str, Callable[[], Scorer]] = {
        "end": DefaultScorer,
        "bm25": BM25Scorer,
        "embedding": embedding_scorer,
    }
    scorer_names = ", ".join(scorers)
    if tokens is not None and (keep is not None or name not in scorers):
        raise InputError(
            f"--tokens is for {scorer_names}, and says how much is kept: leave --keep "
            "out"
        )
    if name not in scorers:
        if not Path(name).exists():
            raise InputError(
                f"--denoiser {name}: no such file or folder, and none of "
                f"{scorer_names} and s2a-select; 'rag-denoise fit' writes a folder, "
                "'rag-denoise evaluate' a denoise.json"
            )
        from denoise_core.evaluate.comparison.setting import load_denoiser

        return load_denoiser(name, model, keep=amount)
    if model is not None:
        raise InputError(
            f"--model is for --method s2a-select; --method {name} needs none: leave "
            "--model out"
        )
    if name != "end" and amount == "auto":
        raise InputError(
            f"--keep auto is for --method end: the scores of --method {name} have no "
            "known scale"
        )
    keep_rule: KeepSetting | None = amount
    if tokens is not None:
        keep_rule = TokenLimit(tokens, shared_encoder().count_tokens)
    elif amount is None and name == "end":
        keep_rule = "auto"
    return ENDDenoiser(scorers[name](), keep=keep_rule, chunker="auto")


def _build_s2a(model: str | None, *, has_amount: bool) -> Denoiser:
    if model is None:
        raise InputError(
            "--method s2a-select asks a chat model: 'rag-denoise run' takes --model "
            "NAME_OR_FOLDER"
        )
    if has_amount:
        raise InputError(
            "--keep and --tokens are for methods that score; with --method s2a-select "
            "the model decides"
        )
    from denoise_core.end import LocalLLM
    from denoise_core.s2a import S2ADenoiser

    return S2ADenoiser(LocalLLM(model), variant="select", max_concurrency=1)


def parse_keep(keep: str) -> float | int | str:
    """Return what ``--keep`` says.

    ``5`` is a number of chunks, ``0.3`` and ``30%`` are fractions, ``auto`` stays.

    Raises:
        InputError: It is anything else, ``1.0`` and ``100%`` included.
    """
    piece_text = keep.strip()
    if piece_text == "auto":
        return piece_text
    if piece_text.isdecimal():
        return int(piece_text)
    fraction = math.nan
    with suppress(ValueError):
        fraction = float(piece_text.removesuffix("%"))
    if piece_text.endswith("%"):
        fraction /= 100
    if not 0 < fraction < 1:
        raise InputError(
            f"--keep {keep}: expected a whole number of chunks such as 5, a share such "
            "as 0.3 or 30%, or auto"
        )
    return fraction


def _kept_text(passages: Sequence[Passage], result: DenoiseResult) -> str:
    """The kept text; of HTML what a reader sees."""
    html_ids = {p.id for p in passages if chunk_text(p.text).text_format == "html"}
    texts = []
    for passage in result.passages:
        if passage.id in html_ids:
            passage = replace(passage, text=strip_tags(passage.text))
        texts.append(escape_control(passage.text_with_header.strip()))
    return "\n\n".join(texts)


def print_pieces(
    console: Console,
    passages: tuple[Passage, ...],
    result: DenoiseResult,
    *,
    show_reasons: bool = False,
) -> None:
    """Print kept text plain and dropped text struck through, by passage.

    Args:
        console: Where to print.
        passages: The input.
        result: Its result.
        show_reasons: Also print each piece's score and why it was kept or dropped.
    """
    if not passages:
        console.print("no passages")
    for passage, pieces in zip(passages, split_pieces(passages, result), strict=True):
        title = passage.metadata.get("title")
        section_heading = f"{passage.id}  {title}" if title else passage.id
        console.print(Text(escape_control(section_heading), style="bold"))
        is_html = chunk_text(passage.text).text_format == "html"
        for piece in pieces:
            piece_text = strip_tags(piece.text) if is_html else piece.text
            if not piece_text.strip():
                continue
            mark = "-"
            style = "dim strike"
            note_style = "dim"
            if piece.is_kept:
                mark = "+"
                style = ""
                note_style = "green"
            text_line = Text(f"  {mark} ")
            text_line.append(escape_control(piece_text.strip()), style=style)
            console.print(text_line)
            if show_reasons:
                print_line(console, f"    {piece.note}", note_style)
    for name in ("note", "question_note", "fallback"):
        message = getattr(result, name)
        if message:
            print_line(console, f"{name.replace('_', ' ')}: {message}", "yellow")
