"""An answer held against passages, as HTML: point at a claim, and the words on which it rests light up.

No script is needed: a claim links to its quotes, and the browser marks what a link points at.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from denoise_core.report.context import render_template
from denoise_core.spans import tile_spans
from denoise_core.support.judging import ClaimVerdict
from denoise_core.types import Passage

LONGEST = 20_000  # characters of an answer


def render_check(
    question: str,
    answer: str,
    claims: Sequence[ClaimVerdict],
    passages: Sequence[Passage],
    *,
    outcome: str,
    judge: str,
) -> str:
    """A complete page. ``outcome`` is the verdict in a word or a sentence. All texts are escaped."""
    own = claim_sections(answer, claims, passages)
    return render_template(
        "check.html",
        title=question or "Check",
        question=question,
        outcome=outcome,
        judge=judge,
        **own,
    )


def claim_sections(
    answer: str,
    claims: Sequence[ClaimVerdict],
    passages: Sequence[Passage],
    name: str = "c",
) -> dict[str, Any]:
    """What ``check_body.html`` takes. ``name`` begins the ids of this page's places, so that two can stand in one
    notebook."""
    quoted: dict[str, list[tuple[int, int, tuple[str, str]]]] = {}
    for n, claim in enumerate(claims, 1):
        for m, q in enumerate(claim.quotes, 1):
            quoted.setdefault(q.span.passage_id, []).append(
                (q.span.start, q.span.end, (f"{name}{n}q{m}", q.relation))
            )
    said = _cut(answer[:LONGEST], [(c.start, c.end, n) for n, c in enumerate(claims)])
    numbered = [
        (n, p, sorted(quoted[p.id]))
        for n, p in enumerate(passages, 1)
        if p.id in quoted
    ]
    sources = [(n, p, _cut(p.text, ranges)) for n, p, ranges in numbered]
    about = {
        "name": name,
        "known": {p.id: p for p in passages},
        "line_number": line_number,
        "verdict_word": verdict_word,
    }
    return {"claims": claims, "pieces": said, "sources": sources, **about}


def line_number(passage: Passage, at: int) -> int:
    """The line of the passage's text that a character stands in, from 1."""
    return passage.text.count("\n", 0, at) + 1


def verdict_word(claim: ClaimVerdict) -> str:
    """In a word: supported, unsupported, unknown."""
    return (
        "unknown"
        if claim.supported is None
        else "supported"
        if claim.supported
        else "unsupported"
    )


def _cut(
    text: str, ranges: Sequence[tuple[int, int, Any]]
) -> list[tuple[str, list[Any], list[Any]]]:
    """The text at the edges of ranges ``[start, end)``: each piece with what covers it, and what of that begins
    there."""
    pieces = []
    for a, b in tile_spans(
        (at for start, end, _ in ranges for at in (start, end)), 0, len(text)
    ):
        over = [(start, what) for start, end, what in ranges if start <= a and b <= end]
        pieces.append(
            (
                text[a:b],
                [what for _, what in over],
                [what for start, what in over if start == a],
            )
        )
    return pieces
