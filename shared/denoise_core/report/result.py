"""A denoised context for a notebook that has only the result, not the passages.

A result does not hold the dropped text, so its length and the reason are shown instead.
"""

from __future__ import annotations

from collections import defaultdict

from denoise_core.report.context import (
    MarkedText,
    PassageRow,
    drop_note,
    render_template,
    rows_values,
)
from denoise_core.result import DenoiseResult


def fragment(result: DenoiseResult) -> str:
    """Render by passage what is kept, then the lengths of what is dropped."""
    pieces: dict[str, list[MarkedText]] = defaultdict(list)
    for passage in result.passages:
        kept_piece = MarkedText(passage.text, True, "kept")
        first_span = passage.source_spans[0]
        kept_pieces = pieces[first_span.passage_id]
        kept_pieces.append(kept_piece)
    for drop in result.dropped:
        length_note = f"[{len(drop.span):,} characters]"
        reason_note = drop_note(drop)
        dropped_piece = MarkedText(length_note, False, reason_note)
        source_pieces = pieces[drop.span.passage_id]
        source_pieces.append(dropped_piece)
    titles = {}
    for passage in result.passages:
        raw_title = passage.metadata.get("title", "")
        titles[passage.id] = str(raw_title)
    passage_rows = []
    for passage_id, passage_pieces in pieces.items():
        title = titles.get(passage_id, "")
        passage_row = PassageRow(passage_id, title, passage_pieces)
        passage_rows.append(passage_row)
    page_values, _ = rows_values(result, passage_rows)
    return render_template("context.html", items=[page_values])
