"""Repair before redraft: what holds stays, the rest is corrected or cut, when what is left still answers."""

from __future__ import annotations

import re
from dataclasses import replace

from denoise_core.augmenter.engine import without_citations
from denoise_core.augmenter.memory import Attempt, Verdict
from denoise_core.text.chunk import sentences
from denoise_core.types import Passage

LEAST = 0.2  # share of a candidate, in characters of words, that must stay for a repair

# A sentence that only carries the others and says nothing when they are gone.
_CARRIER = re.compile(
    r"^\W*(?:here (?:is|are)|the following|as follows|in (?:summary|short)|sources?)\b.*:\W*$", re.I
)
_POINTS_BACK = re.compile(
    r"^\W*(?:it|its|he|his|she|her|they|their|this|that|these|those|there|such|both|and|but|however|also|then|so|"
    r"therefore|moreover|furthermore|instead|otherwise)\b",
    re.IGNORECASE,
)


def split(candidate: str) -> tuple[str, ...]:
    """The sentences of a candidate with the white space behind them; joined they give it back."""
    return tuple(candidate[s.start : s.end] for s in sentences(Passage(candidate, "draft")))


def holding(candidate: str, verdict: Verdict) -> tuple[str, ...]:
    """The sentences that no reason of the verdict speaks of; none when a reason speaks of the whole.

    A claim of a reason is found by its words: judges leave out markup and citations.
    """
    claims = [_plain(r.claim) for r in verdict.reasons]
    if not claims or any(not c for c in claims):
        return ()
    kept = []
    for sentence in split(candidate):
        own = _plain(sentence)
        if own and not any(c in own or own in c for c in claims):
            kept.append(sentence)
    return tuple(kept)


def corrected(candidate: str, verdict: Verdict) -> str:
    """The candidate with the evidence's own value in the place of each that differs, as the reasons give it; what
    cannot be corrected is cut as in `repaired`. Empty when no reason gives a value, or one stands in its sentence
    twice: which is meant nobody knows.
    """
    if verdict.outcome != "fail":
        return ""
    whole = list(split(candidate))
    left = []
    for reason in verdict.reasons:
        claim = _plain(reason.claim)
        mine = [n for n, s in enumerate(whole) if claim and (claim in _plain(s) or _plain(s) in claim)]
        if (
            reason.instead
            and len(mine) == 1
            and all(whole[mine[0]].count(said) == 1 for said, _ in reason.instead)
        ):
            for said, stands in reason.instead:
                whole[mine[0]] = whole[mine[0]].replace(said, stands)
        else:
            left.append(reason)
    if len(left) == len(verdict.reasons):
        return ""
    text = "".join(whole)
    return repaired(text, replace(verdict, reasons=tuple(left))) if left else text.strip()


def repaired(candidate: str, verdict: Verdict) -> str:
    """The candidate with the sentences that do not hold cut out; empty when that would leave no answer.

    A sentence that points back ("It was ...") goes with a cut sentence right before it: what it points at is gone.
    Line breaks and list marks of what stays are kept as they were. A candidate of one sentence has no repair here,
    and neither has one of whose words less than `LEAST` would stay: that is another answer, which the model should
    write.
    """
    if verdict.outcome != "fail":
        return ""
    whole = split(candidate)
    stays = set(holding(candidate, verdict))
    if not stays or len(stays) == len(whole):
        return ""
    left: list[str] = []
    cut_before = False
    for sentence in whole:
        keep = sentence in stays and not (cut_before and _POINTS_BACK.match(sentence))
        if keep:
            left.append(sentence)
        cut_before = not keep
    while left and _CARRIER.match(left[-1].strip()):
        left.pop()
    text = "".join(left).strip()
    return text if len(_plain(text)) >= max(1, LEAST * len(_plain(candidate))) else ""


def holds_in(attempt: Attempt) -> str:
    """What part of an attempt holds, as text; all of one that passed."""
    if attempt.verdict.passed:
        return attempt.candidate
    return (
        "".join(holding(attempt.candidate, attempt.verdict)).strip() if attempt.verdict.outcome == "fail" else ""
    )


def _plain(text: str) -> str:
    return " ".join(re.findall(r"\w+", without_citations(text).casefold()))
