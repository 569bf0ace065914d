"""A denoised context for a notebook that has the result alone: what was kept, and how much was dropped where."""

from __future__ import annotations

from denoise_core.report.context import Piece, rendered, values_of_pieces
from denoise_core.result import DenoiseResult
from denoise_core.types import Span


def fragment(result: DenoiseResult) -> str:
    """The kept text in its places; of what was dropped, whose text the result does not hold, length and reason."""
    parts: dict[str, list[tuple[Span, Piece]]] = {}
    for passage in result.passages:
        at = 0
        for span in passage.covered:
            text = passage.text if passage.rewritten else passage.text[at : at + len(span)]
            at += len(span)
            parts.setdefault(span.passage_id, []).append((span, Piece(text, True, "kept")))
            if passage.rewritten:
                break
    for drop in result.dropped:
        note = drop.reason if drop.score is None else f"{drop.reason}, score {drop.score:.3f}"
        gone = Piece(f"[{len(drop.span):,} characters]", False, note)
        parts.setdefault(drop.span.passage_id, []).append((drop.span, gone))
    titles = {p.id: str(p.metadata.get("title", "")) for p in result.passages}
    rows = [
        (name, titles.get(name, ""), [piece for _, piece in sorted(own, key=lambda part: part[0].start)])
        for name, own in parts.items()
    ]
    return rendered("fragment.html", items=[values_of_pieces(result, rows)])
