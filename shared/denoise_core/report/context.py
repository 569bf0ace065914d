"""A denoised context as HTML: kept text plain, dropped text struck through, with scores.

`render_page` needs jinja2 (extra ``cli``). Each passage finds its own writing direction.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from html import escape
from itertools import chain, groupby
from operator import itemgetter
from typing import Any

from denoise_core._optional import require
from denoise_core.result import DenoiseResult
from denoise_core.spans import tile_spans
from denoise_core.types import Drop, Passage

MAX_PAGE_BYTES = 1_800_000  # of the passages, so that a page stays below 2 MB
MAX_PASSAGE_CHARACTERS = 4_000  # shown of one passage
UNFOLDED_PASSAGES = 12  # of one question
# Bytes of the HTML around a passage and around each of its pieces.
PASSAGE_OVERHEAD = 500
PIECE_OVERHEAD = 200


@dataclass(frozen=True, slots=True)
class MarkedText:
    """Consecutive characters of a passage that are kept or dropped together.

    The ``note`` is shown on hover.
    """

    text: str
    is_kept: bool
    note: str


@dataclass(frozen=True, slots=True)
class PassageRow:
    """A passage as the macro ``passage`` shows it; ``rewritten`` is what a model wrote."""

    id: str
    title: str
    pieces: Sequence[MarkedText]
    gold: bool = False
    rewritten: Sequence[str] = ()

    @property
    def any_kept(self) -> bool:
        """Whether something of it is kept."""
        return any(piece.is_kept for piece in self.pieces)

    @property
    def shown_pieces(self) -> list[MarkedText]:
        """The pieces, cut at `MAX_PASSAGE_CHARACTERS`."""
        shown_pieces = []
        characters_left = MAX_PASSAGE_CHARACTERS
        for piece in self.pieces:
            if characters_left > 0:
                shown_text = piece.text[:characters_left]
                shown_piece = replace(piece, text=shown_text)
                shown_pieces.append(shown_piece)
            characters_left -= len(piece.text)
        return shown_pieces

    @property
    def more(self) -> int:
        """The characters that are not shown."""
        text_length = sum(len(piece.text) for piece in self.pieces)
        hidden_length = text_length - MAX_PASSAGE_CHARACTERS
        return max(0, hidden_length)


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


def mark_pieces(
    passages: Sequence[Passage], result: DenoiseResult
) -> list[tuple[MarkedText, ...]]:
    """Split each passage into kept and dropped pieces, which join to the passage's text."""
    kept_notes: dict[str, dict[tuple[int, int], str]] = defaultdict(dict)
    drops: dict[str, dict[int, Drop]] = defaultdict(dict)
    for kept_passage in result.passages:
        for span in kept_passage.source_spans:
            passage_notes = kept_notes[span.passage_id]
            passage_notes[span.start, span.end] = "kept"
    for chunk in result.kept:
        span = chunk.span
        passage_notes = kept_notes[span.passage_id]
        passage_notes[span.start, span.end] = f"kept, score {chunk.score:.3f}"
    for drop in result.dropped:
        passage_drops = drops[drop.span.passage_id]
        passage_drops[drop.span.start] = drop
    passage_pieces = []
    for passage in passages:
        own_notes = kept_notes[passage.id]
        own_drops = drops[passage.id]
        pieces = _mark_passage(passage, own_notes, own_drops)
        passage_pieces.append(pieces)
    return passage_pieces


def _mark_passage(
    passage: Passage,
    kept_notes: Mapping[tuple[int, int], str],
    drops: Mapping[int, Drop],
) -> tuple[MarkedText, ...]:
    """Cut a passage at every edge of a kept range, by its note, and of a drop, by its start."""
    kept_edges = chain.from_iterable(kept_notes)
    edges = list(kept_edges)
    for drop in drops.values():
        edges += [drop.span.start, drop.span.end]
    # What a later step dropped may be a part of what an earlier one kept.
    dropped_until = len(passage.text)
    note = "not in the result"
    if kept_notes:
        dropped_until = 0
    pieces = []
    for start, end in tile_spans(edges, 0, len(passage.text)):
        if start in drops:
            current_drop = drops[start]
            dropped_until = current_drop.span.end
            note = drop_note(current_drop)
        piece_text = passage.text[start:end]
        if start < dropped_until:
            piece = MarkedText(piece_text, False, note)
        else:
            kept_note = kept_notes.get((start, end), "kept")
            piece = MarkedText(piece_text, True, kept_note)
        pieces.append(piece)
    return tuple(pieces)


def drop_note(drop: Drop) -> str:
    """Say why a span was dropped, with its score if it has one."""
    if drop.score is None:
        return drop.reason
    return f"{drop.reason}, score {drop.score:.3f}"


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
    template_values = item_values(items)
    unshown_count = len(items) - len(template_values)
    return render_template(
        "context.html",
        title=title,
        items=template_values,
        lead=lead,
        table=table,
        unshown=unshown_count,
    )


def item_values(items: Sequence[ReportItem]) -> list[dict[str, Any]]:
    """Compute the values of the macro ``question`` for as many items as a page can hold."""
    bytes_left = MAX_PAGE_BYTES
    template_values = []
    for report_item in items:
        if bytes_left <= 0:
            break
        result = report_item.result
        rewritten_texts: dict[str, list[str]] = defaultdict(list)
        for kept_passage in result.passages:
            if kept_passage.is_rewritten:
                shown_text = kept_passage.text[:MAX_PASSAGE_CHARACTERS]
                own_texts = rewritten_texts[kept_passage.id]
                own_texts.append(shown_text)
        passage_rows = []
        passage_pieces = mark_pieces(report_item.passages, result)
        for passage, pieces in zip(report_item.passages, passage_pieces, strict=True):
            raw_title = passage.metadata.get("title", "")
            is_gold = passage.id in report_item.gold
            passage_row = PassageRow(
                passage.id,
                str(raw_title),
                pieces,
                is_gold,
                rewritten_texts[passage.id],
            )
            passage_rows.append(passage_row)
        question_values, bytes_left = rows_values(
            result, passage_rows, bytes_left, report_item.notes
        )
        template_values.append(question_values)
    return template_values


def rows_values(
    result: DenoiseResult,
    passage_rows: Sequence[PassageRow],
    bytes_left: int = MAX_PAGE_BYTES,
    notes: Sequence[str] = (),
) -> tuple[dict[str, Any], int]:
    """Compute the values of one question from its passages.

    Args:
        result: The question's result.
        passage_rows: The passages.
        bytes_left: What the page can still hold; later passages are only counted.
        notes: What to say about the question.

    Returns:
        The values, and the bytes left after them.
    """
    grouped_rows: list[tuple[str, PassageRow]] = []
    kept_count = 0
    for passage_row in passage_rows:
        bytes_left -= PASSAGE_OVERHEAD
        for piece in passage_row.shown_pieces:
            escaped_text = escape(piece.text).encode("utf-8", "replace")
            bytes_left -= PIECE_OVERHEAD + len(escaped_text)
        if bytes_left < 0 and grouped_rows:
            break
        # Folded when nothing is kept, and beyond the first kept ones.
        group_name = "dropped"
        if passage_row.any_kept:
            kept_count += 1
            group_name = "more"
            if kept_count <= UNFOLDED_PASSAGES:
                group_name = "open"
        grouped_rows.append((group_name, passage_row))
    row_groups = []
    for group_name, run in groupby(grouped_rows, itemgetter(0)):
        group_rows = [passage_row for _, passage_row in run]
        row_groups.append((group_name, group_rows))
    hidden_count = len(passage_rows) - len(grouped_rows)
    template_values = {
        "query": result.query,
        "fallback": result.fallback,
        "facts": notes,
        "left_out": hidden_count,
        "groups": row_groups,
    }
    return template_values, bytes_left


def render_template(
    body: str, /, *packages: str, title: str | None = None, **template_values: Any
) -> str:
    """Fill a template with values, in which every text is escaped.

    Args:
        body: The template's name.
        packages: Other packages with templates.
        title: The title of a page. Without it the result is a part for a notebook, with its
            own styles.
        template_values: The template's values.
    """
    frame_name = "page.html"
    if title is None:
        frame_name = "part.html"
    all_packages = (*packages, __package__)
    environment = _templates(all_packages)
    page_template = environment.get_template(frame_name)
    html: str = page_template.render(body=body, title=title, **template_values)
    return html


@cache
def _templates(packages: tuple[str, ...]) -> Any:
    jinja2 = require("jinja2", extra="cli")
    template_loaders = [
        jinja2.PackageLoader(package, "templates") for package in packages
    ]
    choice_loader = jinja2.ChoiceLoader(template_loaders)
    return jinja2.Environment(
        loader=choice_loader,
        autoescape=True,
        undefined=jinja2.StrictUndefined,
    )
