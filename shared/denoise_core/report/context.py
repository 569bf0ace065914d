"""A denoised context as HTML: kept text plain, dropped text struck through, scores on hover.

For notebooks (`fragment`) and for reports of many questions (`page`). Needs jinja2 (extra ``cli``); all
text is escaped, and each passage finds its own writing direction.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Any

from denoise_core._optional import require
from denoise_core.result import DenoiseResult
from denoise_core.types import Passage, Span


@dataclass(frozen=True, slots=True)
class Piece:
    """Consecutive characters of one passage that met the same fate; ``note`` is shown on hover."""

    text: str
    kept: bool
    note: str


@dataclass(frozen=True, slots=True)
class Shown:
    """One question with its passages and what became of them.

    ``gold`` are ids of passages known to hold the answer, where that is known.
    """

    passages: tuple[Passage, ...]
    result: DenoiseResult
    gold: frozenset[str] = frozenset()
    facts: tuple[str, ...] = field(default=())


def pieces(passage: Passage, result: DenoiseResult) -> tuple[Piece, ...]:
    """The passage cut where its fate changes; the texts joined give the passage's text back."""
    return all_pieces([passage], result)[0]


def all_pieces(passages: Sequence[Passage], result: DenoiseResult) -> list[tuple[Piece, ...]]:
    """`pieces` of many passages, in one pass over the result."""
    parts = _by_passage(result)
    return [
        tuple(Piece(p.text[s.start : s.end], kept, note) for s, kept, note in parts.get(p.id, []))
        for p in passages
    ]


def _by_passage(result: DenoiseResult) -> dict[str, list[tuple[Span, bool, str]]]:
    """For each passage id its ranges as (span, kept, note), in the text's order and without overlap."""
    scored: dict[str, list[tuple[Span, bool, str]]] = {}
    for keep in result.kept:
        scored.setdefault(keep.span.passage_id, []).append((keep.span, True, f"kept, score {keep.score:.3f}"))
    out: dict[str, list[tuple[Span, bool, str]]] = {}
    for passage in result.passages:
        for span in passage.covered:
            # Scored chunks are finer than the passages, whose neighbouring chunks were merged.
            inside = [
                p for p in scored.get(span.passage_id, []) if span.start <= p[0].start and p[0].end <= span.end
            ]
            out.setdefault(span.passage_id, []).extend(_filled(span, inside))
    for drop in result.dropped:
        note = drop.reason if drop.score is None else f"{drop.reason}, score {drop.score:.3f}"
        out.setdefault(drop.span.passage_id, []).append((drop.span, False, note))
    for parts in out.values():
        parts.sort(key=lambda part: (part[0].start, part[0].end))
    return out


def _filled(span: Span, inside: list[tuple[Span, bool, str]]) -> list[tuple[Span, bool, str]]:
    """``inside`` with what it leaves of ``span`` (chunks without text are not scored) filled up as kept."""
    out: list[tuple[Span, bool, str]] = []
    at = span.start
    for part in sorted(inside, key=lambda p: p[0].start):
        if part[0].start > at:
            out.append((Span(span.passage_id, at, part[0].start), True, "kept"))
        out.append(part)
        at = part[0].end
    if at < span.end or not out:
        out.append((Span(span.passage_id, at, span.end), True, "kept"))
    return out


def fragment(passages: Sequence[Passage], result: DenoiseResult, *, gold: Sequence[str] = ()) -> str:
    """One result as an HTML fragment with its own styles, for a notebook's ``HTML(...)``."""
    return _render("fragment", [Shown(tuple(passages), result, frozenset(gold))])


def page(items: Sequence[Shown], *, title: str, lead: str = "", table: Sequence[Sequence[str]] = ()) -> str:
    """Many results as one HTML page. ``table`` is a summary shown on top, its first row the header."""
    return _render("page", items, title=title, lead=lead, table=table)


def _render(kind: str, items: Sequence[Shown], **values: Any) -> str:
    return rendered("result.html", kind=kind, items=values_of(items), **values)


def values_of(items: Sequence[Shown]) -> list[dict[str, Any]]:
    """What the macro ``question`` of ``parts.html`` takes, for each item."""
    return [
        {
            "query": item.result.query,
            "fallback": item.result.fallback,
            "facts": item.facts,
            "passages": [
                {
                    "id": p.id,
                    "title": p.metadata.get("title", ""),
                    "gold": p.id in item.gold,
                    "pieces": cut,
                    "rewritten": written.get(p.id, []),
                }
                for p, cut in zip(item.passages, all_pieces(item.passages, item.result), strict=True)
            ],
        }
        for item in items
        for written in [_rewritten(item.result)]
    ]


def _rewritten(result: DenoiseResult) -> dict[str, list[str]]:
    """What a model wrote in the place of each passage, by id."""
    out: dict[str, list[str]] = {}
    for p in result.passages:
        if p.rewritten:
            out.setdefault(p.id, []).append(p.text)
    return out


def rendered(template: str, **values: Any) -> str:
    """One of the package's templates with ``values``; every text in them is escaped."""
    html: str = _templates().get_template(template).render(**values)
    return html


@cache
def _templates() -> Any:
    jinja2 = require("jinja2", extra="cli")
    return jinja2.Environment(
        loader=jinja2.PackageLoader("denoise_core.report", "templates"),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
    )
