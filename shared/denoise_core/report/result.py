"""A denoised context for a notebook that has the result alone: what was kept, and how much was dropped where."""

from __future__ import annotations

from denoise_core.report.context import Piece, note_of, rendered, values_of_rows
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
        gone = Piece(f"[{len(drop.span):,} characters]", False, note_of(drop))
        parts.setdefault(drop.span.passage_id, []).append((drop.span, gone))
    titles = {p.id: str(p.metadata.get("title", "")) for p in result.passages}
    about = {"gold": False, "rewritten": ()}
    rows = [
        {
            "id": name,
            "title": titles.get(name, ""),
            "pieces": [piece for _, piece in sorted(own, key=_place)],
            **about,
        }
        for name, own in parts.items()
    ]
    return rendered("context.html", items=[values_of_rows(result, rows)[0]])


def _place(part: tuple[Span, Piece]) -> int:
    return part[0].start
