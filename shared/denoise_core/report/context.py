"""A denoised context as HTML: kept text plain, dropped text struck through, with scores.

`fragment` is for notebooks, `render_page` for reports of many questions. Both need jinja2
(extra ``cli``). Each passage finds its own writing direction.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cache
from html import escape
from itertools import groupby
from typing import Any

from denoise_core._optional import require
from denoise_core.result import DenoiseResult
from denoise_core.types import Drop, Passage, Span

MAX_PAGE_BYTES = 1_800_000  # of the passages, so that a page stays below 2 MB
MAX_PASSAGE_CHARACTERS = 4_000  # shown of one passage
UNFOLDED_PASSAGES = 12  # of one question
# Bytes of the HTML around a passage and around each of its pieces.
PASSAGE_OVERHEAD, PIECE_OVERHEAD = 500, 200

Fate = tuple[Span, bool, str]  # a range, whether it is kept, and a note


@dataclass(frozen=True, slots=True)
class MarkedText:
    """Consecutive characters of a passage that are kept or dropped together.

    The ``note`` is shown on hover.
    """

    text: str
    is_kept: bool
    note: str


@dataclass(frozen=True, slots=True)
class ReportItem:
    """One question of a report.

    Attributes:
        passages: The passages before denoising.
        result: What the denoiser returned.
        gold: Ids of the passages known to hold the answer.
        notes: What to say about the question.
    """

    passages: tuple[Passage, ...]
    result: DenoiseResult
    gold: frozenset[str] = frozenset()
    notes: tuple[str, ...] = ()


def split_pieces(
    passages: Sequence[Passage], result: DenoiseResult
) -> list[tuple[MarkedText, ...]]:
    """Split each passage into kept and dropped pieces, which join to the passage's text."""
    fates = _fates_by_passage(result)
    passage_pieces = []
    for passage in passages:
        pieces = []
        for span, is_kept, note in fates.get(passage.id, []):
            text = passage.text[span.start : span.end]
            pieces.append(MarkedText(text, is_kept, note))
        passage_pieces.append(tuple(pieces))
    return passage_pieces


def _fates_by_passage(result: DenoiseResult) -> dict[str, list[Fate]]:
    """Each passage's ranges in the text's order, without overlap."""
    scored: dict[str, list[Fate]] = defaultdict(list)
    for keep in sorted(result.kept, key=lambda keep: keep.span.start):
        note = f"kept, score {keep.score:.3f}"
        scored[keep.span.passage_id].append((keep.span, True, note))
    fates: dict[str, list[Fate]] = defaultdict(list)
    for passage in result.passages:
        for span in passage.source_spans:
            fates[span.passage_id] += _fates_in_span(span, scored[span.passage_id])
    for drop in result.dropped:
        fates[drop.span.passage_id].append((drop.span, False, drop_note(drop)))
    for passage_fates in fates.values():
        passage_fates.sort(key=lambda fate: (fate[0].start, fate[0].end))
    return fates


def _fates_in_span(span: Span, scored: Sequence[Fate]) -> list[Fate]:
    """A kept span with its scored chunks, which are finer, and the text between them."""
    fates: list[Fate] = []
    position = span.start
    for fate in scored:
        chunk = fate[0]
        if span.start <= chunk.start and chunk.end <= span.end:
            if chunk.start > position:  # chunks without text have no score
                gap = Span(span.passage_id, position, chunk.start)
                fates.append((gap, True, "kept"))
            fates.append(fate)
            position = chunk.end
    if position < span.end or position == span.start:
        fates.append((Span(span.passage_id, position, span.end), True, "kept"))
    return fates


def drop_note(drop: Drop) -> str:
    """Say why a span was dropped, with its score if it has one."""
    if drop.score is None:
        return drop.reason
    return f"{drop.reason}, score {drop.score:.3f}"


def fragment(
    passages: Sequence[Passage], result: DenoiseResult, *, gold: Sequence[str] = ()
) -> str:
    """Render one result with its own styles, for a notebook's ``HTML(...)``."""
    item = ReportItem(tuple(passages), result, frozenset(gold))
    return render_template("context.html", items=item_values([item]))


def render_page(
    items: Sequence[ReportItem],
    *,
    title: str,
    lead: str = "",
    table: Sequence[Sequence[str]] = (),
) -> str:
    """Render many results as one page.

    Args:
        items: The results.
        title: The page's title.
        lead: A paragraph below it.
        table: A summary at the top; its first row is the header.
    """
    values = item_values(items)
    return render_template(
        "context.html",
        title=title,
        items=values,
        lead=lead,
        table=table,
        unshown=len(items) - len(values),
    )


def item_values(items: Sequence[ReportItem]) -> list[dict[str, Any]]:
    """Compute the values of the macro ``question`` for as many items as a page can hold."""
    bytes_left = MAX_PAGE_BYTES
    values = []
    for item in items:
        if bytes_left <= 0:
            break
        rewritten: dict[str, list[str]] = defaultdict(list)
        for passage in item.result.passages:
            if passage.is_rewritten:
                rewritten[passage.id].append(passage.text[:MAX_PASSAGE_CHARACTERS])
        rows = []
        passage_pieces = split_pieces(item.passages, item.result)
        for passage, pieces in zip(item.passages, passage_pieces, strict=True):
            row = passage_row(passage.id, passage.metadata.get("title", ""), pieces)
            row["gold"] = passage.id in item.gold
            row["rewritten"] = rewritten[passage.id]
            rows.append(row)
        question_values, bytes_left = rows_values(item.result, rows, bytes_left)
        values.append(question_values | {"facts": item.notes})
    return values


def passage_row(
    passage_id: str, title: Any, pieces: Sequence[MarkedText]
) -> dict[str, Any]:
    """Describe a passage for `rows_values`."""
    return {
        "id": passage_id,
        "title": str(title),
        "gold": False,
        "pieces": pieces,
        "rewritten": (),
    }


def rows_values(
    result: DenoiseResult,
    rows: Sequence[dict[str, Any]],
    bytes_left: int = MAX_PAGE_BYTES,
) -> tuple[dict[str, Any], int]:
    """Compute the values of one question from its passages.

    Args:
        result: The question's result.
        rows: The passages, as `passage_row` describes them.
        bytes_left: What the page can still hold; later passages are only counted.

    Returns:
        The values, and the bytes left after them.
    """
    shown_rows: list[dict[str, Any]] = []
    unfolded_count = 0
    for row in rows:
        pieces, hidden_characters = _shorten(row["pieces"])
        bytes_left -= PASSAGE_OVERHEAD
        for piece in pieces:
            escaped_text = escape(piece.text).encode("utf-8", "replace")
            bytes_left -= PIECE_OVERHEAD + len(escaped_text)
        if bytes_left < 0 and shown_rows:
            break
        # Folded when nothing is kept, and beyond the first kept ones.
        is_kept = any(piece.is_kept for piece in row["pieces"])
        group = "dropped"
        if is_kept:
            group = "open" if unfolded_count < UNFOLDED_PASSAGES else "more"
            unfolded_count += 1
        shown_row = {"any_kept": is_kept, "more": hidden_characters, "group": group}
        shown_rows.append({**row, **shown_row, "pieces": pieces})
    groups = groupby(shown_rows, lambda row: row["group"])
    values = {
        "query": result.query,
        "fallback": result.fallback,
        "facts": (),
        "left_out": len(rows) - len(shown_rows),
        "groups": [(group, list(run)) for group, run in groups],
    }
    return values, bytes_left


def _shorten(pieces: Sequence[MarkedText]) -> tuple[list[MarkedText], int]:
    """Cut the pieces at `MAX_PASSAGE_CHARACTERS`, and count the characters cut off."""
    shortened: list[MarkedText] = []
    characters_left = MAX_PASSAGE_CHARACTERS
    hidden_characters = 0
    for piece in pieces:
        if characters_left > 0:
            shortened.append(replace(piece, text=piece.text[:characters_left]))
        hidden_characters += max(0, len(piece.text) - max(0, characters_left))
        characters_left -= len(piece.text)
    return shortened, hidden_characters


def render_template(
    body: str, /, *packages: str, title: str | None = None, **values: Any
) -> str:
    """Fill a template with values, in which every text is escaped.

    Args:
        body: The template's name.
        packages: Other packages with templates.
        title: The title of a page. Without it the result is a part for a notebook, with its
            own styles.
        values: The template's values.
    """
    frame = "part.html" if title is None else "page.html"
    template = _templates((*packages, __package__)).get_template(frame)
    html: str = template.render(body=body, title=title, **values)
    return html


@cache
def _templates(packages: tuple[str, ...]) -> Any:
    jinja2 = require("jinja2", extra="cli")
    loaders = [jinja2.PackageLoader(package, "templates") for package in packages]
    return jinja2.Environment(
        loader=jinja2.ChoiceLoader(loaders),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
    )
