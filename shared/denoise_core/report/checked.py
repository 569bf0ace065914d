"""An answer held against passages, as HTML: point at a claim, and the words on which it rests light up.

No script is needed: a claim links to its quotes, and the browser marks what a link points at.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

from denoise_core.report.context import rendered
from denoise_core.support.judging import Judged
from denoise_core.types import Passage

_AROUND = 400  # characters of a passage shown before and behind its quotes
_LONGEST = 20_000  # characters of an answer


def to_html(
    question: str, answer: str, claims: Sequence[Judged], passages: Sequence[Passage], *, said: str, judge: str
) -> str:
    """A complete page. ``said`` is the outcome in a word or a sentence. All texts are escaped."""
    return rendered("check.html", question=question, **checked(answer, claims, passages), said=said, judge=judge)


def checked(answer: str, claims: Sequence[Judged], passages: Sequence[Passage], name: str = "c") -> dict[str, Any]:
    """What ``check_body.html`` takes. ``name`` begins the ids of this page's places, so that two can stand in one
    notebook."""
    rows = [_row(n, c, passages, name) for n, c in enumerate(claims, 1)]
    return {
        "pieces": _pieces(answer[:_LONGEST], claims, name),
        "claims": rows,
        "sources": [s for n, p in enumerate(passages, 1) if (s := _source(n, p, claims, name))],
    }


def line_of(passage: Passage, at: int) -> int:
    """The line of the passage's text that a character stands in, from 1."""
    return passage.text.count("\n", 0, at) + 1


def verdict_of(claim: Judged) -> str:
    """In a word: supported, unsupported, unknown."""
    return "unknown" if claim.supported is None else "supported" if claim.supported else "unsupported"


def _row(number: int, claim: Judged, passages: Sequence[Passage], name: str) -> dict[str, Any]:
    known = {p.id: p for p in passages}
    quotes = [
        {
            "id": f"{name}{number}q{n}",
            "text": q.text,
            "relation": q.relation,
            "where": f"{q.span.passage_id}, line {line_of(known[q.span.passage_id], q.span.start)}",
        }
        for n, q in enumerate(claim.quotes, 1)
        if q.span.passage_id in known
    ]
    return {
        "number": number,
        "id": f"{name}{number}",
        "text": claim.text,
        "verdict": verdict_of(claim),
        "probability": claim.probability,
        "why": claim.why,
        "differs": [str(d) for d in claim.differs if d.said != claim.text],
        "quotes": quotes,
    }


def _pieces(answer: str, claims: Sequence[Judged], name: str) -> list[dict[str, Any]]:
    """The answer cut at the edges of its claims; each piece is of the claim that begins last before it ends."""
    edges = sorted({0, len(answer), *(min(x, len(answer)) for c in claims for x in (c.start, c.end))})
    out = []
    for a, b in pairwise(edges):
        own = [n for n, c in enumerate(claims, 1) if c.start <= a and b <= c.end]
        verdict = verdict_of(claims[own[-1] - 1]) if own else ""
        out.append({"text": answer[a:b], "verdict": verdict, "to": f"{name}{own[-1]}" if own else ""})
    return out


def _source(number: int, passage: Passage, claims: Sequence[Judged], name: str) -> dict[str, Any] | None:
    """The passage with its quotes as links' ends, shortened around them; None where none is quoted."""
    spans = sorted(
        (q.span.start, q.span.end, f"{name}{n}q{m}", q.relation)
        for n, c in enumerate(claims, 1)
        for m, q in enumerate(c.quotes, 1)
        if q.span.passage_id == passage.id
    )
    if not spans:
        return None
    text = passage.text
    edges = sorted({x for a, b, _, _ in spans for x in (a, b)})
    parts: list[dict[str, Any]] = [_plain(text[: edges[0]], after=False)]
    placed: set[str] = set()
    for a, b in pairwise(edges):
        own = [s for s in spans if s[0] <= a and b <= s[1]]
        if not own:
            parts.append(_plain(text[a:b], after=True))
            continue
        fresh = [s[2] for s in own if s[2] not in placed]
        placed.update(fresh)
        parts.append({"text": text[a:b], "ids": fresh, "relation": own[0][3]})
    parts.append(_plain(text[edges[-1] :], after=True))
    return {"number": number, "id": passage.id, "header": passage.header, "parts": parts}


def _plain(text: str, *, after: bool) -> dict[str, Any]:
    if len(text) > _AROUND:
        text = f"{text[:_AROUND]} …" if after else f"… {text[-_AROUND:]}"
    return {"text": text, "ids": [], "relation": ""}
