"""``rag-denoise run``: the user's question over the user's text."""

from __future__ import annotations

import math
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from operator import itemgetter
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
from denoise_core.cli.terminal import (
    echo,
    print_json,
    print_line,
    print_warnings,
    progress_bar,
)
from denoise_core.end.denoiser import ENDDenoiser, Prefetchable
from denoise_core.errors import InputError
from denoise_core.protocols import Denoiser
from denoise_core.report.context import ReportItem, mark_pieces, render_page
from denoise_core.result import DenoiseResult
from denoise_core.text.markup import strip_tags
from denoise_core.types import Passage

SCORING_METHODS = ("end", "bm25", "embedding")
# The kind of setting behind each method's name.
METHOD_KINDS = {
    "end": "default",
    "bm25": "bm25",
    "embedding": "cosine",
    "s2a-select": "s2a",
}
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
    kept text as it is, control characters too, of several passages each under its name. Notes go to standard
    error. Ends with status 3 when nothing was denoised, and 4 when nothing seems relevant to the question.

    **Examples**

    rag-denoise run -q "who wrote the report?" -p notes.md

    cat passages.jsonl | rag-denoise run -q "who wrote the report?" -p - --keep 5 --json

    rag-denoise run -q "who wrote the report?" -p notes.md --method s2a-select --llm http://localhost:8000/v1#my-model
    """
    if not query.strip():
        raise InputError("--query is empty; what are the passages to answer?")
    loaded_passages = read_passages(*passages, skip_bad=skip_bad)
    inputs = loaded_passages.passages
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
            denoise_method.precompute(inputs, on_progress)
    with error_console.status("scoring ..."):
        denoise_result = denoise_method.denoise(query, inputs)
    if inputs:
        print_line(
            error_console,
            summary_line(inputs, denoise_result),
            "bold",
        )
    if html is not None:
        items = [ReportItem(inputs, denoise_result)]
        write_whole(html, render_page(items, title="What was kept, what was dropped"))
    if as_json:
        print_json(denoise_result.as_json())
    else:
        _print_result(console, inputs, denoise_result, show_reasons)
    print_warnings(error_console, _notes(denoise_result))
    if nothing_denoised(inputs, denoise_result):
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
        return
    kept_texts = _kept_texts(passages, result)
    # Variables such as FORCE_COLOR let Rich take a terminal for a pipe, or a pipe for one.
    if console.is_terminal or console.file.isatty():
        _print_screen(console, kept_texts)
    elif len(kept_texts) > 1:
        # Each under its name, as `head` prints files.
        titled_texts = [f"==> {title} <==\n{text}" for _, title, text in kept_texts]
        echo("\n\n".join(titled_texts))
    else:
        for _, _, text in kept_texts:
            echo(text)


def nothing_denoised(passages: Sequence[Passage], result: DenoiseResult) -> bool:
    """Whether there was no passage, or each of them fell back."""
    if result.failures:
        texts = (passage for passage in passages if passage.text.strip())
        return all(passage.id in result.failures for passage in texts)
    return not passages or (result.fallback is not None and not result.dropped)


def summary_line(passages: Sequence[Passage], result: DenoiseResult) -> str:
    """Return what was done: how much of the text is kept, how many pieces are dropped."""
    input_length = sum(len(passage.text) for passage in passages)
    kept_length = 0
    for passage in result.passages:
        kept_length += sum(map(len, passage.source_spans))
    dropped_count = sum(chunk.score is not None for chunk in result.dropped)
    kept_percent = 100 * kept_length / max(1, input_length)
    line = (
        f"kept {kept_percent:.3g} % of the text "
        f"(passages: {len(passages):,}); dropped pieces: {dropped_count:,}"
    )
    if dropped_count:
        line += "; list them: --why"
    return line


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
    from denoise_core.evaluate.comparison.answering import llm_from_name
    from denoise_core.evaluate.comparison.setting import (
        denoiser_from_setting,
        load_denoiser,
    )

    kind = METHOD_KINDS.get(name)
    amount = None
    if keep is not None:
        amount = parse_keep(keep)
    _check_method(name, amount, tokens, llm)
    chat_model = None
    if llm is not None:
        chat_model = llm_from_name(llm)
    if kind is None:
        return load_denoiser(name, keep=amount, llm=chat_model)
    setting = {"kind": kind, "keep": amount, "tokens": tokens}
    return denoiser_from_setting(setting, llm=chat_model)


def _check_method(
    name: str, amount: float | int | str | None, tokens: int | None, llm: str | None
) -> None:
    """Raise `InputError` for options that do not go with a method."""
    method_names = ", ".join(METHOD_KINDS)
    if name not in METHOD_KINDS and not Path(name).exists():
        raise InputError(
            f"--denoiser {name}: no such file or folder, and none of {method_names}; "
            "'rag-denoise fit' writes a folder, 'rag-denoise evaluate' a denoise.json"
        )
    if tokens is not None and (amount is not None or name not in SCORING_METHODS):
        raise InputError(
            f"--tokens is for {', '.join(SCORING_METHODS)}, and says how much is kept: "
            "leave --keep out"
        )
    if name in SCORING_METHODS and llm is not None:
        raise InputError(
            f"--method {name} asks no model: leave --llm out, or name the method that "
            "asks one: --method s2a-select"
        )
    if name == "s2a-select" and amount is not None:
        raise InputError(
            f"--keep is for methods that score; with --method {name} the model decides"
        )


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


def _kept_texts(
    passages: Sequence[Passage], result: DenoiseResult
) -> list[tuple[float, str, str]]:
    """Best score, title and kept text of each passage; of HTML what a reader sees."""
    html_ids = {passage.id for passage in passages if is_html(passage)}
    best_scores: dict[str, float] = {}
    for chunk in result.kept:
        passage_id = chunk.span.passage_id
        best_score = best_scores.get(passage_id, -math.inf)
        best_scores[passage_id] = max(chunk.score, best_score)
    kept_texts = []
    for passage in result.passages:
        if passage.id in html_ids:  # a kept piece alone may not look like HTML
            passage = replace(passage, text=strip_tags(passage.text))
        text = passage.text_with_header.strip("\n")
        score = best_scores.get(passage.id, -math.inf)
        kept_texts.append((score, _passage_title(passage), text))
    return kept_texts


def _notes(result: DenoiseResult) -> list[str]:
    """What the result says about itself, one line each."""
    notes = []
    for name in ("note", "question_note", "fallback"):
        message = getattr(result, name)
        if message:
            label = name.replace("_", " ")
            notes.append(f"{label}: {message}")
    return notes


def _print_screen(
    console: Console, kept_texts: Sequence[tuple[float, str, str]]
) -> None:
    """Print the kept text, best passage first, at most a screen of it."""
    lines = []
    for _, title, text in sorted(kept_texts, key=itemgetter(0), reverse=True):
        lines.append(Text(title, style="bold"))
        for text_line in escape_control(text).splitlines():
            lines += Text(text_line).wrap(console, console.width)
    shown_count = max(MIN_SHOWN_LINES, console.height - RESERVED_LINES)
    for line in lines[:shown_count]:
        console.print(line, soft_wrap=True)
    hidden_count = len(lines) - shown_count
    if hidden_count > 0:
        print_line(console, f"... {hidden_count} more lines: add '| less'", "dim")


def _passage_title(passage: Passage) -> str:
    """The id and the title, escaped for a pipe too: a heading is no part of the text."""
    title = passage.metadata.get("title") or ""
    return escape_control(f"{passage.id}  {title}".rstrip())


def print_pieces(
    console: Console, passages: tuple[Passage, ...], result: DenoiseResult
) -> None:
    """Print each piece with its score and why it was kept (+) or dropped (-)."""
    if not passages:
        console.print("no passages")
    for passage, pieces in zip(passages, mark_pieces(passages, result), strict=True):
        print_line(console, _passage_title(passage), "bold")
        is_page = is_html(passage)
        for piece in pieces:
            piece_text = piece.text
            if is_page:
                piece_text = strip_tags(piece_text)
            if not piece_text.strip():
                continue
            mark = "-"
            if piece.is_kept:
                mark = "+"
            print_line(console, f"  {mark} {piece_text.strip()}")
            print_line(console, f"    {piece.note}", "dim")
