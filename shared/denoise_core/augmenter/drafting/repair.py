"""Repair before redraft: whole claims that do not hold are taken away, when what is left still answers.

Nothing is put in, and nothing is taken out of a quotation, a title or code: what goes is a sentence, a list item
or a table's row, with its citations. A draft that cannot be cut so is written anew.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from denoise_core.augmenter.memory import Attempt
from denoise_core.spans import complement_spans, join_spans, merge_spans
from denoise_core.support.answers import ParsedAnswer, AnswerUnit, parse_answer
from denoise_core.support.judging import AnswerVerdict

LEAST = (
    0.2  # share of a candidate, in characters of claims, that must stay for a repair
)

_POINTS_BACK = re.compile(
    r"^\W*(?:it|its|he|his|she|her|they|their|this|that|these|those|there|such|both|and|but|however|also|then|so|"
    r"therefore|moreover|furthermore|instead|otherwise)\b",
    re.IGNORECASE,
)


def failing(
    parsed: ParsedAnswer, verdict: AnswerVerdict
) -> tuple[AnswerUnit, ...] | None:
    """The claims that a finding of the verdict is about; None when one is about none, or about the whole."""
    failed: set[AnswerUnit] = set()
    for finding in verdict.findings:
        pieces = [
            p for p in parsed.claims if p.start < finding.end and finding.start < p.end
        ]
        if not pieces:
            return None
        failed.update(pieces)
    return tuple(p for p in parsed.claims if p in failed)


def holding(candidate: str, verdict: AnswerVerdict) -> tuple[str, ...]:
    """The claims that no finding of the verdict is about, as they are in the candidate; none when a finding is
    about the whole."""
    parsed = parse_answer(candidate)
    wrong = failing(parsed, verdict)
    if not wrong:
        return ()
    return tuple(candidate[p.start : p.end] for p in parsed.claims if p not in wrong)


def repaired(candidate: str, verdict: AnswerVerdict) -> str:
    """The candidate without the claims that do not hold; empty when it cannot be cut, or little would be left.

    A sentence that points back ("It was ...") goes with the one right before it: what it points at is gone. A line
    that announced a list goes when all of the list did.
    """
    parsed = parse_answer(candidate)
    wrong = failing(parsed, verdict) if verdict.outcome == "fail" else None
    if not wrong:
        return ""
    gone = _going(parsed, wrong)
    stays = [p for p in parsed.claims if p not in gone]
    cuts = _cuts(parsed, gone, stays)
    if cuts is None or not stays:
        return ""
    text = _without(candidate, cuts)
    left = [p.text for p in parse_answer(text).claims]
    if not set(left) <= {p.text for p in stays}:
        return ""  # what is left reads otherwise: markup was parted
    return (
        text
        if sum(map(len, left))
        >= max(1, LEAST * sum(len(p.text) for p in parsed.claims))
        else ""
    )


def holds_in(attempt: Attempt) -> str:
    """What part of an attempt holds, as text; all of one that passed."""
    if attempt.verdict.passed:
        return attempt.candidate
    return (
        " ".join(holding(attempt.candidate, attempt.verdict))
        if attempt.verdict.outcome == "fail"
        else ""
    )


def _going(parsed: ParsedAnswer, wrong: Sequence[AnswerUnit]) -> list[AnswerUnit]:
    """The claims that are wrong, and the sentences that point back at one that goes."""
    gone: list[AnswerUnit] = []
    for before, piece in zip((None, *parsed.claims), parsed.claims, strict=False):
        follows = (
            piece.kind == "sentence"
            and before in gone
            and bool(_POINTS_BACK.match(piece.text))
        )
        if piece in wrong or follows:
            gone.append(piece)
    return gone


def _cuts(
    parsed: ParsedAnswer, gone: Sequence[AnswerUnit], stays: Sequence[AnswerUnit]
) -> list[tuple[int, int]] | None:
    """What to take out; None when a claim cannot be cut, or one that holds would go with it."""
    cuts = [p.cut for p in gone if p.cut is not None]
    held = [p for p in stays if p.kind != "cell"]
    if len(cuts) < len(gone) or any(
        a <= p.start and p.end <= b for p in held for a, b in cuts
    ):
        return None
    return cuts + [
        p.cut
        for p in parsed.units
        if p.kind == "lead" and p.cut and _announced(p, parsed, gone)
    ]


def _announced(
    lead: AnswerUnit, parsed: ParsedAnswer, gone: Sequence[AnswerUnit]
) -> bool:
    """Every claim that stands under the line is gone."""
    under = [
        p for p in parsed.claims if p.label and p.label[0] == lead.text.rstrip(" :：")
    ]
    return bool(under) and all(p in gone for p in under)


def _without(text: str, cuts: list[tuple[int, int]]) -> str:
    return join_spans(text, complement_spans(merge_spans(cuts), 0, len(text))).strip()
