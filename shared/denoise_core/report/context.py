"""A denoised context as HTML: kept text plain, dropped text struck through and said to be, scores beside it.

For notebooks (`fragment`) and for reports of many questions (`page`). Needs jinja2 (extra ``cli``); all
text is escaped, and each passage finds its own writing direction.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cache
from html import escape
from itertools import count, groupby
from typing import Any

from denoise_core._optional import require
from denoise_core.result import DenoiseResult
from denoise_core.types import Drop, Passage, Span

LARGEST = 1_800_000  # bytes that the passages of one page may take, so that it stays below 2 MB
LONGEST = 4_000  # characters shown of one passage
OPEN = 12  # passages of one question that are not folded


@dataclass(frozen=True, slots=True)
class MarkedText:
    """Consecutive characters of one passage that met the same fate; ``note`` is shown on hover."""

    text: str
    is_kept: bool
    note: str


@dataclass(frozen=True, slots=True)
class ReportItem:
    """One question with its passages and what became of them.

    ``gold`` are ids of passages known to hold the answer, where that is known.
    """

    passages: tuple[Passage, ...]
    result: DenoiseResult
    gold: frozenset[str] = frozenset()
    notes: tuple[str, ...] = ()


def split_pieces(
    passages: Sequence[Passage], result: DenoiseResult
) -> list[tuple[MarkedText, ...]]:
    """Each passage cut where its fate changes; the texts joined give the passage's text back."""
    parts = _by_passage(result)
    return [
        tuple(
            MarkedText(p.text[s.start : s.end], kept, note)
            for s, kept, note in parts.get(p.id, [])
        )
        for p in passages
    ]


def _by_passage(result: DenoiseResult) -> dict[str, list[tuple[Span, bool, str]]]:
    """For each passage id its ranges as (span, kept, note), in the text's order and without overlap."""
    scored, out = (
        defaultdict[str, list[tuple[Span, bool, str]]](list) for _ in range(2)
    )
    for keep in sorted(result.kept, key=lambda k: k.span.start):
        scored[keep.span.passage_id].append(
            (keep.span, True, f"kept, score {keep.score:.3f}")
        )
    for passage in result.passages:
        for span in passage.source_spans:
            own, at = out[span.passage_id], span.start
            for part in scored[span.passage_id]:
                # Scored chunks are finer than the passages, whose neighbouring chunks were merged.
                if span.start <= part[0].start and part[0].end <= span.end:
                    if part[0].start > at:  # chunks without text are not scored
                        own.append(
                            (Span(span.passage_id, at, part[0].start), True, "kept")
                        )
                    own.append(part)
                    at = part[0].end
            if at < span.end or at == span.start:
                own.append((Span(span.passage_id, at, span.end), True, "kept"))
    for drop in result.dropped:
        out[drop.span.passage_id].append((drop.span, False, note_of(drop)))
    return {
        i: sorted(parts, key=lambda part: (part[0].start, part[0].end))
        for i, parts in out.items()
    }


def note_of(drop: Drop) -> str:
    """Why it was dropped, with its score where it has one."""
    return (
        drop.reason if drop.score is None else f"{drop.reason}, score {drop.score:.3f}"
    )


def fragment(
    passages: Sequence[Passage], result: DenoiseResult, *, gold: Sequence[str] = ()
) -> str:
    """One result as an HTML fragment with its own styles, for a notebook's ``HTML(...)``."""
    return render_template(
        "context.html",
        items=values_of([ReportItem(tuple(passages), result, frozenset(gold))]),
    )


def render_page(
    items: Sequence[ReportItem],
    *,
    title: str,
    lead: str = "",
    table: Sequence[Sequence[str]] = (),
) -> str:
    """Many results as one HTML page. ``table`` is a summary shown on top, its first row the header."""
    shown = values_of(items)
    about = {"lead": lead, "table": table, "unshown": len(items) - len(shown)}
    return render_template("context.html", title=title, items=shown, **about)


def values_of(items: Sequence[ReportItem]) -> list[dict[str, Any]]:
    """What the macro ``question`` of ``parts.html`` takes, for each item, as long as `LARGEST` holds."""
    left, out = LARGEST, list[dict[str, Any]]()
    for item in items:
        if left <= 0:
            break
        rewritten = defaultdict[str, list[str]](list)
        for made in item.result.passages:
            if made.is_rewritten:
                rewritten[made.id].append(made.text[:LONGEST])
        rows = [
            {
                "id": p.id,
                "title": _title(p),
                "gold": p.id in item.gold,
                "pieces": cut,
                "rewritten": rewritten[p.id],
            }
            for p, cut in zip(
                item.passages, split_pieces(item.passages, item.result), strict=True
            )
        ]
        values, left = values_of_rows(item.result, rows, left)
        out.append(values | {"facts": item.notes})
    return out


def values_of_rows(
    result: DenoiseResult, rows: Sequence[dict[str, Any]], left: int = LARGEST
) -> tuple[dict[str, Any], int]:
    """One item of passages that are cut already, those beyond ``left`` bytes only counted; and what is left."""
    shown: list[dict[str, Any]] = []
    for row in rows:
        pieces, more = _shortened(row["pieces"])
        left -= 500 + sum(
            200 + len(escape(piece.text).encode("utf-8", "replace")) for piece in pieces
        )
        if left < 0 and shown:
            break
        shown.append(
            {
                **row,
                "pieces": pieces,
                "more": more,
                "any_kept": any(p.is_kept for p in row["pieces"]),
            }
        )
    opened = count()

    def fate(row: dict[str, Any]) -> str:
        """Folded where nothing was kept, and beyond `OPEN` that are open."""
        return (
            "dropped"
            if not row["any_kept"]
            else "open"
            if next(opened) < OPEN
            else "more"
        )

    groups = [(kind, list(run)) for kind, run in groupby(shown, fate)]
    about = {
        "query": result.query,
        "fallback": result.fallback,
        "facts": (),
        "left_out": len(rows) - len(shown),
    }
    return {**about, "groups": groups}, left


def _title(passage: Passage) -> str:
    return str(passage.metadata.get("title", ""))


def _shortened(cut: Sequence[MarkedText]) -> tuple[list[MarkedText], int]:
    """The pieces up to `LONGEST` characters, and how many characters that leaves out."""
    out: list[MarkedText] = []
    left = LONGEST
    for piece in cut:
        if left <= 0:
            break
        out.append(replace(piece, text=piece.text[:left]))
        left -= len(piece.text)
    return out, max(0, -left) + sum(len(p.text) for p in cut[len(out) :])


def render_template(
    body: str, /, *package: str, title: str | None = None, **values: Any
) -> str:
    """The template ``body`` filled with ``values``, in which every text is escaped: a whole page under its
    ``title``, without one a part for a notebook with its own styles. ``package`` is another with templates."""
    template = _templates((*package, __package__)).get_template(
        "part.html" if title is None else "page.html"
    )
    html: str = template.render(body=body, title=title, **values)
    return html


@cache
def _templates(packages: tuple[str, ...]) -> Any:
    jinja2 = require("jinja2", extra="cli")
    return jinja2.Environment(
        loader=jinja2.ChoiceLoader(
            [jinja2.PackageLoader(p, "templates") for p in packages]
        ),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
    )
