"""A denoised context as HTML: kept text plain, dropped text struck through and said to be, scores beside it.

For notebooks (`fragment`) and for reports of many questions (`page`). Needs jinja2 (extra ``cli``); all
text is escaped, and each passage finds its own writing direction.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from html import escape
from typing import Any

from denoise_core._optional import require
from denoise_core.result import DenoiseResult
from denoise_core.types import Passage, Span

LARGEST = 1_800_000  # bytes that the passages of one page may take, so that it stays below 2 MB
LONGEST = 4_000  # characters shown of one passage
OPEN = 12  # passages of one question that are not folded


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
    facts: tuple[str, ...] = ()


def all_pieces(passages: Sequence[Passage], result: DenoiseResult) -> list[tuple[Piece, ...]]:
    """Each passage cut where its fate changes; the texts joined give the passage's text back."""
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
    return rendered("fragment.html", items=values_of([Shown(tuple(passages), result, frozenset(gold))]))


def page(items: Sequence[Shown], *, title: str, lead: str = "", table: Sequence[Sequence[str]] = ()) -> str:
    """Many results as one HTML page. ``table`` is a summary shown on top, its first row the header."""
    shown = values_of(items)
    return rendered(
        "result.html", items=shown, title=title, lead=lead, table=table, unshown=len(items) - len(shown)
    )


def values_of(items: Sequence[Shown]) -> list[dict[str, Any]]:
    """What the macro ``question`` of ``parts.html`` takes, for each item, as long as `LARGEST` holds."""
    left = LARGEST
    out = []
    for item in items:
        values = _values(item, left)
        left -= values.pop("size")
        out.append(values)
        if left <= 0:
            break
    return out


def _values(item: Shown, room: int) -> dict[str, Any]:
    """One item; passages beyond ``room`` bytes are counted and not shown."""
    rewritten: dict[str, list[str]] = {}
    for out in item.result.passages:
        if out.rewritten:
            rewritten.setdefault(out.id, []).append(out.text[:LONGEST])
    cuts = all_pieces(item.passages, item.result)
    rows = [(p.id, str(p.metadata.get("title", "")), cut) for p, cut in zip(item.passages, cuts, strict=True)]
    return values_of_pieces(item.result, rows, item.gold, item.facts, rewritten, room)


def values_of_pieces(
    result: DenoiseResult,
    rows: Sequence[tuple[str, str, Sequence[Piece]]],
    gold: frozenset[str] = frozenset(),
    facts: Sequence[str] = (),
    rewritten: Mapping[str, Sequence[str]] | None = None,
    room: int = LARGEST,
) -> dict[str, Any]:
    """One item of passages that are cut already: (id, title, pieces) each."""
    shown: list[dict[str, Any]] = []
    size = 0
    for name, title, cut in rows:
        whole, more = _shortened(cut)
        own = {
            "id": name,
            "title": title,
            "gold": name in gold,
            "any_kept": any(piece.kept for piece in cut),
            "pieces": whole,
            "more": more,
            "rewritten": (rewritten or {}).get(name, []),
        }
        size += 500 + sum(200 + len(escape(piece.text).encode("utf-8", "replace")) for piece in whole)
        if size > room and shown:
            break
        shown.append(own)
    return {
        "query": result.query,
        "fallback": result.fallback,
        "facts": facts,
        "passages": shown,
        "groups": _groups(shown),
        "left_out": len(rows) - len(shown),
        "size": size,
    }


def _shortened(cut: Sequence[Piece]) -> tuple[list[Piece], int]:
    """The pieces up to `LONGEST` characters, and how many characters that leaves out."""
    out: list[Piece] = []
    left = LONGEST
    for piece in cut:
        if left <= 0:
            break
        out.append(replace(piece, text=piece.text[:left]))
        left -= len(piece.text)
    return out, max(0, -left) + sum(len(p.text) for p in cut[len(out) :])


def _groups(passages: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Runs of passages in their order: folded where nothing was kept, and beyond `OPEN` that are open."""
    out: list[dict[str, Any]] = []
    opened = 0
    for p in passages:
        kind = "dropped" if not p["any_kept"] else "open" if opened < OPEN else "more"
        opened += kind == "open"
        if not out or out[-1]["kind"] != kind:
            out.append({"kind": kind, "folded": kind != "open", "passages": []})
        out[-1]["passages"].append(p)
    for group in out:
        n = len(group["passages"])
        names = ", ".join(p["title"] or p["id"] for p in group["passages"][:4])
        what = "dropped whole" if group["kind"] == "dropped" else "kept, folded"
        gold = " (one holds the answer)" if any(p["gold"] for p in group["passages"]) else ""
        group["said"] = f"{n} {what}{gold}: {names}{' ...' if n > 4 else ''}"
    return out


def rendered(template: str, /, *package: str, **values: Any) -> str:
    """A template with ``values``; every text in them is escaped. ``package`` is another with templates, which
    may use ours."""
    html: str = _templates((*package, __package__)).get_template(template).render(**values)
    return html


@cache
def _templates(packages: tuple[str, ...]) -> Any:
    jinja2 = require("jinja2", extra="cli")
    return jinja2.Environment(
        loader=jinja2.ChoiceLoader([jinja2.PackageLoader(p, "templates") for p in packages]),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
    )
