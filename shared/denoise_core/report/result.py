"""A denoised context for a notebook that has only the result, not the passages.

A result does not hold the dropped text, so its length and the reason are shown instead.
"""

from __future__ import annotations

from collections import defaultdict
from operator import itemgetter

from denoise_core.report.context import (
    MarkedText,
    drop_note,
    passage_view,
    render_template,
    rows_values,
)
from denoise_core.result import DenoiseResult


def fragment(result: DenoiseResult) -> str:
    """Render kept text and the lengths of dropped text in their original order."""
    placed_by_id: dict[str, list[tuple[int, MarkedText]]] = defaultdict(list)
    for kept_passage in result.passages:
        text_offset = 0
        source_spans = kept_passage.source_spans
        if kept_passage.is_rewritten:  # its text has no offsets in the source
            rewritten_piece = MarkedText(kept_passage.text, True, "kept")
            placed_by_id[source_spans[0].passage_id].append(
                (source_spans[0].start, rewritten_piece)
            )
            continue
        for source_span in source_spans:
            span_text = kept_passage.text[text_offset : text_offset + len(source_span)]
            text_offset += len(source_span)
            kept_piece = MarkedText(span_text, True, "kept")
            placed_by_id[source_span.passage_id].append((source_span.start, kept_piece))
    for drop in result.dropped:
        length_note = f"[{len(drop.span):,} characters]"
        dropped_piece = MarkedText(length_note, False, drop_note(drop))
        placed_by_id[drop.span.passage_id].append((drop.span.start, dropped_piece))
    title_by_id = {p.id: p.metadata.get("title", "") for p in result.passages}
    passage_rows = []
    for passage_id, placed_pieces in placed_by_id.items():
        placed_pieces.sort(key=itemgetter(0))
        ordered_pieces = [piece for _, piece in placed_pieces]
        passage_rows.append(
            passage_view(passage_id, title_by_id.get(passage_id, ""), ordered_pieces)
        )
    page_values, _ = rows_values(result, passage_rows)
    return render_template("context.html", items=[page_values])
