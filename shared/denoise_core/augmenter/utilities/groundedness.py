"""Online groundedness: does the evidence say what the candidate says? No model, no weights.

Knowledge-F1 is no threshold for a running loop: the same right answer scores lower with every passage that
is added, and copying a passage scores 1. This holds each sentence of the candidate against the single passage
that supports it best, by the share of its content words found there, and then by rules: numbers, dates and
names that no passage holds, and a negation on one side only.
"""

from __future__ import annotations

from dataclasses import dataclass

from denoise_core.augmenter.engine import cited_numbers, titled, without_citations
from denoise_core.augmenter.memory import Reason, Verdict, WorkingMemory
from denoise_core.augmenter.utilities.claims import Source, Support, claims_of, support, tokens_of
from denoise_core.augmenter.utility import without_effects
from denoise_core.errors import InputError
from denoise_core.running.effects import Flow
from denoise_core.support.abstention import abstains
from denoise_core.text.words import words

_COPY_WORDS = 40  # a shorter quotation is a fine answer
_FLOOR = 0.25  # no single claim may have less support, however good the others are
_STRICT = frozenset(("number", "negation"))  # rules whose breach fails a claim whatever its words
_LONGEST = 20_000  # characters of a candidate that are checked; beyond it nothing can be vouched for
_BARE = frozenset(("yes", "no", "true", "false"))


@dataclass(frozen=True, slots=True)
class Groundedness:
    """Passes when the mean support of the claims reaches ``threshold``, no claim is without any, and none
    has a number no passage holds or says the opposite of the passage it was held against.

    A bare yes or no is unknown: words cannot be held against evidence there. A text of more than 20,000
    characters fails unread. ``copy_cap``: the share of a candidate of more than 40 words that may be one
    unbroken quotation; a copy is grounded, but it is no answer. Raises `InputError` for values outside [0, 1].
    """

    threshold: float = 0.55
    copy_cap: float = 0.9

    def __post_init__(self) -> None:
        for name in ("threshold", "copy_cap"):
            if not 0.0 <= getattr(self, name) <= 1.0:
                raise InputError(f"Groundedness({name}={getattr(self, name)}): expected 0 to 1")

    def assess(self, memory: WorkingMemory, candidate: str) -> Flow[Verdict]:
        return without_effects(self.judge(memory, candidate))

    def judge(self, memory: WorkingMemory, candidate: str) -> Verdict:
        if len(candidate) > _LONGEST:
            too_long = f"the answer has {len(candidate)} characters; write at most {_LONGEST}"
            return Verdict("fail", 0.0, (Reason(too_long, "length"),))
        text = without_citations(candidate).strip()
        if not words(text):
            return Verdict("fail", 0.0, (Reason("the answer is empty", "empty"),))
        if abstains(candidate):
            return Verdict("unknown", 0.0, (Reason("the answer says that it does not know", "abstention"),))
        if set(words(text)) <= _BARE:
            return Verdict("unknown", 0.0, (Reason("a bare yes or no cannot be checked by its words", "bare"),))
        sources = [Source.of(p.id, titled(p)) for p in memory.evidence if p.text.strip()]
        if not sources:
            return Verdict("unknown", 0.0, (Reason("there is no evidence to hold it against", "empty_evidence"),))
        found = [support(claim, sources) for claim in claims_of(text, memory.question)]
        score = sum(s.score for s in found) / len(found)
        least = self.threshold if score < self.threshold else _FLOOR
        reasons = [_reason(s) for s in found if s.score < least or not _STRICT.isdisjoint(s.broken)]
        reasons += _bad_citations(candidate, len(memory.evidence))
        copied = _copying(text, sources, self.copy_cap)
        if copied:
            score = min(score, self.threshold / 2)
        reasons += copied
        passed = not reasons and score >= self.threshold
        return Verdict("pass" if passed else "fail", round(score, 6), tuple(reasons))


def _reason(found: Support) -> Reason:
    kind = found.broken[0] if found.broken else "unsupported"
    return Reason(_SAYINGS[kind], kind, found.claim.text, found.source.passage_id, found.missing)


_SAYINGS = {
    "number": "a number or date stands in no evidence",
    "entity": "a name stands in no evidence",
    "negation": "the evidence says the opposite",
    "unsupported": "the evidence does not say this",
}


def _bad_citations(candidate: str, shown: int) -> list[Reason]:
    wrong = [n for n in cited_numbers(candidate) if not 1 <= n <= shown]
    if not wrong:
        return []
    names = tuple(f"[{n}]" for n in wrong)
    return [Reason(f"cites evidence that was not given; there is [1] to [{shown}]", "citation", missing=names)]


def _copying(text: str, sources: list[Source], cap: float) -> list[Reason]:
    said = tokens_of(text)
    if len(said) <= _COPY_WORDS or cap >= 1.0:
        return []
    for source in sources:
        copied = source.longest_run(said)
        if copied > _COPY_WORDS and copied > cap * len(said):
            why = "repeats the evidence word for word instead of answering"
            return [Reason(why, "copy", passage_id=source.passage_id)]
    return []
