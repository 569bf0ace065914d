"""A checked answer as HTML: point at a claim, and the words that support it light up.

No script is needed: a claim links to its quotes, and the browser marks a link's target.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import Any

from denoise_core.report.context import render_template
from denoise_core.spans import tile_spans
from denoise_core.support.judging import ClaimVerdict
from denoise_core.types import Passage

MAX_ANSWER_CHARACTERS = 20_000

# Start and end of a half-open range of characters, and what it marks.
MarkedRange = tuple[int, int, Any]


def render_check(
    question: str,
    answer: str,
    claims: Sequence[ClaimVerdict],
    passages: Sequence[Passage],
    *,
    outcome: str,
    judge: str,
) -> str:
    """Render a page.

    Args:
        question: The question, if there is one.
        answer: The answer.
        claims: Its claims with their verdicts.
        passages: The evidence.
        outcome: The verdict on the whole, in a word or a sentence.
        judge: The judge's name.
    """
    return render_template(
        "check.html",
        title=question or "Check",
        question=question,
        outcome=outcome,
        judge=judge,
        **claim_sections(answer, claims, passages),
    )


def claim_sections(
    answer: str,
    claims: Sequence[ClaimVerdict],
    passages: Sequence[Passage],
    id_prefix: str = "c",
) -> dict[str, Any]:
    """Compute the values of ``check_body.html``.

    Args:
        answer: The answer.
        claims: Its claims with their verdicts.
        passages: The evidence.
        id_prefix: The beginning of the HTML ids. Two answers in one notebook need different
            ones.
    """
    quoted_ranges: dict[str, list[MarkedRange]] = defaultdict(list)
    for claim_number, claim in enumerate(claims, 1):
        for quote_number, claim_quote in enumerate(claim.quotes, 1):
            quote_id = f"{id_prefix}{claim_number}q{quote_number}"
            quote_mark = (quote_id, claim_quote.relation)
            span = claim_quote.span
            quoted_ranges[span.passage_id].append((span.start, span.end, quote_mark))
    claim_ranges = []
    for claim_index, claim in enumerate(claims):
        claim_ranges.append((claim.start, claim.end, claim_index))
    quoted_sources = []
    for number, passage in enumerate(passages, 1):
        if passage.id in quoted_ranges:
            marked_text = _split_at_marks(
                passage.text, sorted(quoted_ranges[passage.id])
            )
            quoted_sources.append((number, passage, marked_text))
    return {
        "claims": claims,
        "pieces": _split_at_marks(answer[:MAX_ANSWER_CHARACTERS], claim_ranges),
        "sources": quoted_sources,
        "name": id_prefix,
        "known": {passage.id: passage for passage in passages},
        "line_number": line_number,
        "verdict_word": verdict_word,
    }


def line_number(passage: Passage, offset: int) -> int:
    """Return the line of the passage's text, from 1, that contains a character."""
    return passage.text.count("\n", 0, offset) + 1


def verdict_word(claim: ClaimVerdict) -> str:
    """Say the verdict in a word: supported, unsupported or unknown."""
    if claim.supported is None:
        return "unknown"
    if claim.supported:
        return "supported"
    return "unsupported"


def _split_at_marks(
    text: str, ranges: Sequence[MarkedRange]
) -> list[tuple[str, list[Any], list[Any]]]:
    """Each piece of the text with the marks that cover it, and those that begin there."""
    range_edges = []
    for start, end, _ in ranges:
        range_edges += [start, end]
    marked_pieces = []
    for piece_start, piece_end in tile_spans(range_edges, 0, len(text)):
        covering_marks = []
        new_marks = []
        for start, end, quote_mark in ranges:
            if start <= piece_start and piece_end <= end:
                covering_marks.append(quote_mark)
                if start == piece_start:
                    new_marks.append(quote_mark)
        marked_pieces.append((text[piece_start:piece_end], covering_marks, new_marks))
    return marked_pieces
