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
PASSAGE_OVERHEAD = 500
PIECE_OVERHEAD = 200

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


def mark_pieces(
    passages: Sequence[Passage], result: DenoiseResult
) -> list[tuple[MarkedText, ...]]:
    """Split each passage into kept and dropped pieces, which join to the passage's text."""
    text_fates = _fates_by_passage(result)
    passage_pieces = []
    for source_passage in passages:
        marked_texts = []
        for kept_span, is_kept, fate_note in text_fates.get(source_passage.id, []):
            piece_text = source_passage.text[kept_span.start : kept_span.end]
            marked_texts.append(MarkedText(piece_text, is_kept, fate_note))
        passage_pieces.append(tuple(marked_texts))
    return passage_pieces


def _fates_by_passage(result: DenoiseResult) -> dict[str, list[Fate]]:
    """Each passage's ranges in the text's order, without overlap."""
    scored_fates: dict[str, list[Fate]] = defaultdict(list)
    for kept_chunk in sorted(result.kept, key=lambda kept_chunk: kept_chunk.span.start):
        fate_note = f"kept, score {kept_chunk.score:.3f}"
        scored_fates[kept_chunk.span.passage_id].append(
            (kept_chunk.span, True, fate_note)
        )
    text_fates: dict[str, list[Fate]] = defaultdict(list)
    for source_passage in result.passages:
        for kept_span in source_passage.source_spans:
            text_fates[kept_span.passage_id] += _fates_in_span(
                kept_span, scored_fates[kept_span.passage_id]
            )
    for drop in result.dropped:
        text_fates[drop.span.passage_id].append((drop.span, False, drop_note(drop)))
    for passage_fates in text_fates.values():
        passage_fates.sort(key=lambda text_fate: (text_fate[0].start, text_fate[0].end))
    return text_fates


def _fates_in_span(kept_span: Span, scored_fates: Sequence[Fate]) -> list[Fate]:
    """A kept span with its scored chunks, which are finer, and the text between them."""
    text_fates: list[Fate] = []
    text_position = kept_span.start
    for text_fate in scored_fates:
        chunk = text_fate[0]
        if kept_span.start <= chunk.start and chunk.end <= kept_span.end:
            if chunk.start > text_position:  # chunks without text have no score
                gap_span = Span(kept_span.passage_id, text_position, chunk.start)
                text_fates.append((gap_span, True, "kept"))
            text_fates.append(text_fate)
            text_position = chunk.end
    if text_position < kept_span.end or text_position == kept_span.start:
        text_fates.append(
            (Span(kept_span.passage_id, text_position, kept_span.end), True, "kept")
        )
    return text_fates


def drop_note(drop: Drop) -> str:
    """Say why a span was dropped, with its score if it has one."""
    if drop.score is None:
        return drop.reason
    return f"{drop.reason}, score {drop.score:.3f}"


def fragment(passages: Sequence[Passage], result: DenoiseResult) -> str:
    """Render one result with its own styles, for a notebook's ``HTML(...)``."""
    report_item = ReportItem(tuple(passages), result)
    return render_template("context.html", items=item_values([report_item]))


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
    return render_template(
        "context.html",
        title=title,
        items=template_values,
        lead=lead,
        table=table,
        unshown=len(items) - len(template_values),
    )


def item_values(items: Sequence[ReportItem]) -> list[dict[str, Any]]:
    """Compute the values of the macro ``question`` for as many items as a page can hold."""
    bytes_left = MAX_PAGE_BYTES
    template_values = []
    for report_item in items:
        if bytes_left <= 0:
            break
        rewritten_texts: dict[str, list[str]] = defaultdict(list)
        for source_passage in report_item.result.passages:
            if source_passage.is_rewritten:
                rewritten_texts[source_passage.id].append(
                    source_passage.text[:MAX_PASSAGE_CHARACTERS]
                )
        passage_rows = []
        passage_pieces = mark_pieces(report_item.passages, report_item.result)
        for source_passage, marked_texts in zip(
            report_item.passages, passage_pieces, strict=True
        ):
            passage_values = passage_view(
                source_passage.id,
                source_passage.metadata.get("title", ""),
                marked_texts,
            )
            passage_values["gold"] = source_passage.id in report_item.gold
            passage_values["rewritten"] = rewritten_texts[source_passage.id]
            passage_rows.append(passage_values)
        question_values, bytes_left = rows_values(
            report_item.result, passage_rows, bytes_left
        )
        template_values.append(question_values | {"facts": report_item.notes})
    return template_values


def passage_view(
    passage_id: str, title: Any, marked_texts: Sequence[MarkedText]
) -> dict[str, Any]:
    """Describe a passage for `rows_values`."""
    return {
        "id": passage_id,
        "title": str(title),
        "gold": False,
        "pieces": marked_texts,
        "rewritten": (),
    }


def rows_values(
    result: DenoiseResult,
    passage_rows: Sequence[dict[str, Any]],
    bytes_left: int = MAX_PAGE_BYTES,
) -> tuple[dict[str, Any], int]:
    """Compute the values of one question from its passages.

    Args:
        result: The question's result.
        passage_rows: The passages, as `passage_row` describes them.
        bytes_left: What the page can still hold; later passages are only counted.

    Returns:
        The values, and the bytes left after them.
    """
    shown_rows: list[dict[str, Any]] = []
    unfolded_count = 0
    for passage_values in passage_rows:
        marked_texts, hidden_characters = _shorten_marked_texts(
            passage_values["pieces"]
        )
        bytes_left -= PASSAGE_OVERHEAD
        for marked_text in marked_texts:
            escaped_text = escape(marked_text.text).encode("utf-8", "replace")
            bytes_left -= PIECE_OVERHEAD + len(escaped_text)
        if bytes_left < 0 and shown_rows:
            break
        # Folded when nothing is kept, and beyond the first kept ones.
        all_pieces = passage_values["pieces"]
        is_kept = any(marked_text.is_kept for marked_text in all_pieces)
        group_name = "dropped"
        if is_kept:
            group_name = "more"
            if unfolded_count < UNFOLDED_PASSAGES:
                group_name = "open"
            unfolded_count += 1
        shown_row = {
            "any_kept": is_kept,
            "more": hidden_characters,
            "group": group_name,
        }
        shown_rows.append({**passage_values, **shown_row, "pieces": marked_texts})
    row_groups = []
    for group_name, run in groupby(shown_rows, lambda shown_row: shown_row["group"]):
        row_groups.append((group_name, list(run)))
    template_values = {
        "query": result.query,
        "fallback": result.fallback,
        "facts": (),
        "left_out": len(passage_rows) - len(shown_rows),
        "groups": row_groups,
    }
    return template_values, bytes_left


def _shorten_marked_texts(
    marked_texts: Sequence[MarkedText],
) -> tuple[list[MarkedText], int]:
    """Cut the pieces at `MAX_PASSAGE_CHARACTERS`, and count the characters cut off."""
    shown_pieces: list[MarkedText] = []
    characters_left = MAX_PASSAGE_CHARACTERS
    hidden_characters = 0
    for marked_text in marked_texts:
        if characters_left > 0:
            shown_pieces.append(
                replace(marked_text, text=marked_text.text[:characters_left])
            )
        text_length = len(marked_text.text)
        shown_length = max(0, characters_left)
        hidden_characters += max(0, text_length - shown_length)
        characters_left -= text_length
    return shown_pieces, hidden_characters


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
    environment = _templates((*packages, __package__))
    page_template = environment.get_template(frame_name)
    html: str = page_template.render(body=body, title=title, **template_values)
    return html


@cache
def _templates(packages: tuple[str, ...]) -> Any:
    jinja2 = require("jinja2", extra="cli")
    template_loaders = [
        jinja2.PackageLoader(package, "templates") for package in packages
    ]
    return jinja2.Environment(
        loader=jinja2.ChoiceLoader(template_loaders),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
    )
