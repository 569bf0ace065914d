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
from denoise_core.types import Passage


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
    kept = [(s, True, "kept") for p in result.passages for s in p.covered if s.passage_id == passage.id]
    scored = {k.span: k.score for k in result.kept if k.span.passage_id == passage.id}
    if scored:  # finer than the passages, whose neighbouring chunks were merged
        kept = [(span, True, f"kept, score {score:.3f}") for span, score in scored.items()]
    dropped = [
        (d.span, False, d.reason if d.score is None else f"{d.reason}, score {d.score:.3f}")
        for d in result.dropped
        if d.span.passage_id == passage.id
    ]
    found = sorted(kept + dropped, key=lambda f: (f[0].start, f[0].end))
    return tuple(Piece(passage.text[s.start : s.end], keep, note) for s, keep, note in found)


def fragment(passages: Sequence[Passage], result: DenoiseResult, *, gold: Sequence[str] = ()) -> str:
    """One result as an HTML fragment with its own styles, for a notebook's ``HTML(...)``."""
    return _render("fragment", [Shown(tuple(passages), result, frozenset(gold))])


def page(items: Sequence[Shown], *, title: str, lead: str = "", table: Sequence[Sequence[str]] = ()) -> str:
    """Many results as one HTML page. ``table`` is a summary shown on top, its first row the header."""
    return _render("page", items, title=title, lead=lead, table=table)


def _render(kind: str, items: Sequence[Shown], **values: Any) -> str:
    shown = [
        {
            "query": item.result.query,
            "fallback": item.result.fallback,
            "facts": item.facts,
            "passages": [
                {
                    "id": p.id,
                    "title": p.metadata.get("title", ""),
                    "gold": p.id in item.gold,
                    "pieces": pieces(p, item.result),
                    "rewritten": [out.text for out in item.result.passages if out.rewritten and out.id == p.id],
                }
                for p in item.passages
            ],
        }
        for item in items
    ]
    html: str = _template().render(kind=kind, items=shown, **values)
    return html


@cache
def _template() -> Any:
    jinja2 = require("jinja2", extra="cli")
    environment = jinja2.Environment(
        loader=jinja2.PackageLoader("denoise_core", "templates"), autoescape=True, undefined=jinja2.StrictUndefined
    )
    return environment.get_template("result.html")
