"""A denoised context for a notebook that has the result alone: what was kept, and how much was dropped where."""

from __future__ import annotations

from collections import defaultdict
from operator import itemgetter

from denoise_core.report.context import (
    MarkedText,
    note_of,
    render_template,
    values_of_rows,
)
from denoise_core.result import DenoiseResult


def fragment(result: DenoiseResult) -> str:
    """The kept text in its places; of what was dropped, whose text the result does not hold, length and reason."""
    parts = defaultdict[str, list[tuple[int, MarkedText]]](list)
    for passage in result.passages:
        at = 0
        for span in passage.source_spans[: 1 if passage.is_rewritten else None]:
            text = (
                passage.text
                if passage.is_rewritten
                else passage.text[at : at + len(span)]
            )
            at += len(span)
            parts[span.passage_id].append((span.start, MarkedText(text, True, "kept")))
    for drop in result.dropped:
        gone = MarkedText(f"[{len(drop.span):,} characters]", False, note_of(drop))
        parts[drop.span.passage_id].append((drop.span.start, gone))
    titles = {p.id: str(p.metadata.get("title", "")) for p in result.passages}
    rows = []
    for i, own in parts.items():
        pieces = [piece for _, piece in sorted(own, key=itemgetter(0))]
        rows.append(
            {
                "id": i,
                "title": titles.get(i, ""),
                "gold": False,
                "pieces": pieces,
                "rewritten": (),
            }
        )
    return render_template("context.html", items=[values_of_rows(result, rows)[0]])
