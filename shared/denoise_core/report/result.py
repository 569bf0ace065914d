"""A denoised context for a notebook that has only the result, not the passages.

A result does not hold the dropped text, so its length and the reason are shown instead.
"""

from __future__ import annotations

from collections import defaultdict
from operator import itemgetter

from denoise_core.report.context import (
    MarkedText,
    drop_note,
    passage_row,
    render_template,
    rows_values,
)
from denoise_core.result import DenoiseResult


def fragment(result: DenoiseResult) -> str:
    """Render kept text and the lengths of dropped text in their original order."""
    pieces: dict[str, list[tuple[int, MarkedText]]] = defaultdict(list)
    for passage in result.passages:
        offset = 0
        spans = passage.source_spans
        if passage.is_rewritten:  # its text has no offsets in the source
            rewritten = MarkedText(passage.text, True, "kept")
            pieces[spans[0].passage_id].append((spans[0].start, rewritten))
            continue
        for span in spans:
            text = passage.text[offset : offset + len(span)]
            offset += len(span)
            kept_piece = MarkedText(text, True, "kept")
            pieces[span.passage_id].append((span.start, kept_piece))
    for drop in result.dropped:
        length = f"[{len(drop.span):,} characters]"
        dropped_piece = MarkedText(length, False, drop_note(drop))
        pieces[drop.span.passage_id].append((drop.span.start, dropped_piece))
    titles = {p.id: p.metadata.get("title", "") for p in result.passages}
    rows = []
    for passage_id, placed_pieces in pieces.items():
        placed_pieces.sort(key=itemgetter(0))
        ordered_pieces = [piece for _, piece in placed_pieces]
        rows.append(passage_row(passage_id, titles.get(passage_id, ""), ordered_pieces))
    values, _ = rows_values(result, rows)
    return render_template("context.html", items=[values])
