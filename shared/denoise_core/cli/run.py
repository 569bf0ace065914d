"""``rag-denoise run``: the user's question over the user's text."""

from __future__ import annotations

import json
import math
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
    LLMOption,
    MethodOption,
    PageOption,
    PassagesOption,
    QueryOption,
    SkipBadOption,
    app,
)
from denoise_core.cli.read import is_html, read_passages
from denoise_core.cli.terminal import print_line, print_warnings, progress_bar
from denoise_core.end.denoiser import ENDDenoiser, Prefetchable
from denoise_core.end.selection import KeepSetting, TokenLimit
from denoise_core.errors import InputError
from denoise_core.protocols import Denoiser, Scorer
from denoise_core.report.context import ReportItem, mark_pieces, render_page
from denoise_core.result import DenoiseResult
from denoise_core.text.markup import strip_tags
from denoise_core.types import Passage

NOTHING_DENOISED = 3  # exit status: no passage was read, or each of them fell back
NOTHING_RELEVANT = 4  # exit status: nothing seems relevant to the question
MIN_SHOWN_LINES = 12  # of kept text, on a terminal of any height
RESERVED_LINES = 6  # of a terminal, for the summary, the counts and the prompt


@app.command()
def run(
    query: QueryOption,
    passages: PassagesOption,
    denoiser: MethodOption = "end",
    keep: KeepOption = None,
    llm: LLMOption = None,
    tokens: Annotated[
        int | None,
        typer.Option(
            min=1, help="Keep the best within so many tokens, instead of --keep."
        ),
    ] = None,
    as_json: JsonOption = False,
    html: PageOption = None,
    skip_bad: SkipBadOption = False,
    show_reasons: Annotated[
        bool,
        typer.Option(
            "--why", help="Show each piece, its score, and why it was kept or dropped."
        ),
    ] = False,
) -> None:
    """Denoise your own text: print what is kept for the question.

    A terminal gets the kept text, at most a screen of it, and counts of what was dropped; a pipe gets all of the
    kept text, of several passages each under its name. Notes go to standard error. Ends with status 3 when nothing
    was denoised, and 4 when nothing seems relevant to the question.

    **Examples**

    rag-denoise run -q "who wrote the report?" -p notes.md

    cat passages.jsonl | rag-denoise run -q "who wrote the report?" -p - --keep 5 --json
    """
    if not query.strip():
        raise InputError("--query is empty; what are the passages to answer?")
    loaded_passages = read_passages(*passages, skip_bad=skip_bad)
    console = Console(highlight=False)
    error_console = Console(stderr=True)
    print_warnings(error_console, loaded_passages.warnings)
    with error_console.status("loading ..."):
        denoise_method = build_denoiser(denoiser, keep, tokens, llm)
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
    else:
        _print_result(console, loaded_passages.passages, denoise_result, show_reasons)
    print_warnings(error_console, _notes(denoise_result))
    if nothing_denoised(loaded_passages.passages, denoise_result):
        print_line(error_console, "nothing was denoised", "yellow")
        raise typer.Exit(NOTHING_DENOISED)
    if denoise_result.relevant is False:
        print_line(
            error_console,
            "nothing relevant: no passage is about the question",
            "yellow",
        )
        raise typer.Exit(NOTHING_RELEVANT)


def _print_result(
    console: Console,
    passages: tuple[Passage, ...],
    result: DenoiseResult,
    show_reasons: bool,
) -> None:
    if show_reasons:
        print_pieces(console, passages, result)
    elif console.is_terminal:
        print_kept_text(console, passages, result)
    else:
        _echo(_piped_text(passages, result))


def _piped_text(passages: Sequence[Passage], result: DenoiseResult) -> str:
    """The kept text; of several kept passages each under its name, as `head` prints files."""
    texts = _kept_texts(passages, result)
    if len(texts) > 1:
        texts = [
            f"==> {_passage_title(passage)} <==\n{text}"
            for passage, text in zip(result.passages, texts, strict=True)
        ]
    return "\n\n".join(texts)


def _echo(text: str) -> None:
    typer.echo(text.encode("utf-8", "replace").decode())


def nothing_denoised(passages: Sequence[Passage], result: DenoiseResult) -> bool:
    """Whether there was no passage, or each of them fell back."""
    if result.failures:
        texts = (passage for passage in passages if passage.text.strip())
        return all(passage.id in result.failures for passage in texts)
    return not passages or (result.fallback is not None and not result.dropped)


def summary_line(passages: Sequence[Passage], result: DenoiseResult) -> str:
    """Return what was done: ``kept 18 % of 12 passages; dropped 9 pieces``."""
    input_length = sum(len(passage.text) for passage in passages) or 1
    kept_length = 0
    for passage in result.passages:
        kept_length += sum(map(len, passage.source_spans))
    passages_text = _count_noun(len(passages), "passage")
    dropped_count = sum(chunk.score is not None for chunk in result.dropped)
    dropped_text = _count_noun(dropped_count, "piece")
    kept_percent = f"{100 * kept_length / input_length:.0f} %"
    line = f"kept {kept_percent} of {passages_text}; dropped {dropped_text}"
    return f"{line} (list them: --why)" if dropped_count else line


def build_denoiser(
    name: str,
    keep: str | None = None,
    tokens: int | None = None,
    llm: str | None = None,
) -> Denoiser:
    """Return the denoiser of a ``--denoiser`` or ``--method``.

    Args:
        name: A method, a folder of ``fit``, or a ``denoise.json`` of ``evaluate``.
        keep: As in `parse_keep`.
        tokens: Keep at most this many tokens of the embedded encoder.
        llm: The chat model of S2A, as `llm_from_name` reads it.

    Raises:
        InputError: The options contradict each other, or there is no such file.
    """
    from denoise_core.embedded import DefaultScorer, embedding_scorer, shared_encoder
    from denoise_core.scorers.bm25 import BM25Scorer

    amount = None if keep is None else parse_keep(keep)
    if name == "s2a-select":
        return _build_s2a(llm, has_amount=keep is not None or tokens is not None)
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
        return _load_denoiser(name, amount, llm, scorer_names)
    if llm is not None:
        raise InputError(f"--method {name} asks no model: leave --llm out")
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


def _load_denoiser(
    path: str, amount: float | int | str | None, llm: str | None, scorer_names: str
) -> Denoiser:
    if not Path(path).exists():
        raise InputError(
            f"--denoiser {path}: no such file or folder, and none of "
            f"{scorer_names} and s2a-select; 'rag-denoise fit' writes a folder, "
            "'rag-denoise evaluate' a denoise.json"
        )
    from denoise_core.evaluate.comparison.answering import llm_from_name
    from denoise_core.evaluate.comparison.setting import load_denoiser

    chat_model = None if llm is None else llm_from_name(llm)
    return load_denoiser(path, keep=amount, llm=chat_model)


def _build_s2a(llm: str | None, *, has_amount: bool) -> Denoiser:
    if llm is None:
        raise InputError(
            "--method s2a-select asks a chat model: name one with --llm, such as "
            "http://localhost:8000/v1#name"
        )
    if has_amount:
        raise InputError(
            "--keep and --tokens are for methods that score; with --method s2a-select "
            "the model decides"
        )
    from denoise_core.evaluate.comparison.answering import llm_from_name
    from denoise_core.s2a import S2ADenoiser

    return S2ADenoiser(llm_from_name(llm), variant="select", max_concurrency=1)


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


def _kept_texts(passages: Sequence[Passage], result: DenoiseResult) -> list[str]:
    """The text of each kept passage with its header; of HTML what a reader sees."""
    html_ids = {passage.id for passage in passages if is_html(passage)}
    texts = []
    for passage in result.passages:
        if passage.id in html_ids:  # a kept piece alone may not look like HTML
            passage = replace(passage, text=strip_tags(passage.text))
        texts.append(escape_control(passage.text_with_header.strip()))
    return texts


def _notes(result: DenoiseResult) -> list[str]:
    """What the result says about itself, one line each."""
    notes = []
    for name in ("note", "question_note", "fallback"):
        message = getattr(result, name)
        if message:
            notes.append(f"{name.replace('_', ' ')}: {message}")
    return notes


def print_kept_text(
    console: Console, passages: Sequence[Passage], result: DenoiseResult
) -> None:
    """Print the kept text, best passage first.

    At most a screen is printed. Text of a passage without chunks is in the order of
    the input.
    """
    best_scores: dict[str, float] = {}
    for chunk in result.kept:
        passage_id = chunk.span.passage_id
        if chunk.score is not None:
            score = max(chunk.score, best_scores.get(passage_id, chunk.score))
            best_scores[passage_id] = score
    kept_texts = zip(result.passages, _kept_texts(passages, result), strict=True)
    ranked_texts = sorted(
        kept_texts, key=lambda item: -best_scores.get(item[0].id, -math.inf)
    )
    lines = []
    for passage, kept_text in ranked_texts:
        lines.append(Text(_passage_title(passage), style="bold"))
        for text_line in kept_text.splitlines():
            lines += Text(text_line).wrap(console, console.width)
    shown_count = max(MIN_SHOWN_LINES, console.height - RESERVED_LINES)
    for line in lines[:shown_count]:
        console.print(line, soft_wrap=True)
    hidden_count = len(lines) - shown_count
    if hidden_count > 0:
        print_line(console, f"... {hidden_count} more lines: add '| less'", "dim")


def _count_noun(count: int, noun: str) -> str:
    ending = "s"
    if count == 1:
        ending = ""
    return f"{count:,} {noun}{ending}"


def _passage_title(passage: Passage) -> str:
    title = passage.metadata.get("title")
    return escape_control(f"{passage.id}  {title}" if title else passage.id)


def print_pieces(
    console: Console, passages: tuple[Passage, ...], result: DenoiseResult
) -> None:
    """Print each piece with its score and why it was kept or dropped, by passage.

    Kept text is plain, dropped text struck through.
    """
    if not passages:
        console.print("no passages")
    for passage, pieces in zip(passages, mark_pieces(passages, result), strict=True):
        console.print(Text(_passage_title(passage), style="bold"))
        is_page = is_html(passage)
        for piece in pieces:
            piece_text = strip_tags(piece.text) if is_page else piece.text
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
            print_line(console, f"    {piece.note}", note_style)
