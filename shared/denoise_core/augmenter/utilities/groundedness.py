"""The default judge: the checker of `denoise_core.support` as a utility.

Knowledge-F1 is no threshold for a running loop: the same right answer scores lower with every passage that is
added, and copying a passage scores 1. The checker holds each claim of the candidate against the window of the
evidence that supports most of it.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from denoise_core.augmenter.memory import Reason, Verdict, WorkingMemory
from denoise_core.augmenter.utilities.measured import measured
from denoise_core.augmenter.utility import Measured, without_effects
from denoise_core.augmenter.vectors import KeptVectors
from denoise_core.errors import InputError
from denoise_core.running.effects import Flow
from denoise_core.support import Check, Claim, Reader, check
from denoise_core.support.check import COVERAGE
from denoise_core.support.copying import copied_from
from denoise_core.support.meaning import Embed
from denoise_core.text.words import content_words, words

_FAILS = frozenset(("length", "empty", "question"))  # kinds of saying nothing that another draft can put right
_VALUES = frozenset(("number", "date", "time", "name", "numeral"))
_REST = 2  # words beside a value that the evidence must say for its own value to take the place
_SAYINGS = {
    "number": "a number stands in no evidence that says the rest",
    "date": "a date stands in no evidence that says the rest",
    "time": "a time stands in no evidence that says the rest",
    "name": "a name stands in no evidence that says the rest",
    "numeral": "a name's number stands in no evidence that says the rest",
    "negation": "the evidence says the opposite",
    "direction": "the evidence says the opposite",
    "quantity": "the evidence says it of more or fewer",
    "modality": "the evidence says it with another force",
    "attribution": "the evidence does not say it as a fact",
    "crossed": "the evidence says this of something else",
    "roles": "the evidence says it the other way round",
    "degree": "the evidence makes no such comparison",
    "unsupported": "the evidence does not say this",
}


@dataclass(frozen=True, slots=True)
class Groundedness:
    """Passes when the evidence supports every claim of the candidate and nothing says that it answers another
    question; see `denoise_core.support.check`.

    ``threshold`` is the share of a claim's words that a window of the evidence must say. ``reader`` is a reader of
    real text, which vetoes what stands in the evidence but does not answer; words alone cannot see that. ``embed``
    (texts to vectors) finds claims in other words. `embedded` has both, from the extra ``embedded``.

    A bare yes or no, an abstention, evidence that contradicts itself or is in another language are unknown.
    ``copy_cap``: the share of a candidate of more than 40 words that may be one unbroken quotation; a copy is
    grounded, but it is no answer. Raises `InputError` for values outside [0, 1].
    """

    threshold: float = COVERAGE
    copy_cap: float = 0.9
    reader: Reader | None = None
    embed: Embed | None = None

    def __post_init__(self) -> None:
        for name in ("threshold", "copy_cap"):
            if not 0.0 <= getattr(self, name) <= 1.0:
                raise InputError(f"Groundedness({name}={getattr(self, name)}): expected 0 to 1")
        if self.reader is not None and not isinstance(self.reader, Reader):
            raise InputError(
                f"Groundedness(reader={type(self.reader).__name__}): expected an object with "
                "fits(query, candidates, passages), such as denoise_core.embedded.span_reader()"
            )

    @classmethod
    def embedded(cls, *, threshold: float = COVERAGE, copy_cap: float = 0.9) -> Groundedness:
        """With the reader and the encoder that ship, both loaded here, once a process. Raises `MissingExtra`
        without the extra ``embedded``."""
        from denoise_core.embedded import encoder, span_reader

        return cls(threshold, copy_cap, span_reader(), KeptVectors(encoder().vectors))

    @property
    def name(self) -> str:
        """What it is called in an answer: by what it judges."""
        if self.embed is None:
            return "words" if self.reader is None else "words and reader"
        return "words and encoder" if self.reader is None else "words, reader and encoder"

    @property
    def measured(self) -> tuple[Measured, ...]:
        """Its error rates as shipped; none with another threshold, which nobody measured."""
        return measured(self.name) if self.threshold == COVERAGE else ()

    def assess(self, memory: WorkingMemory, candidate: str) -> Flow[Verdict]:
        return without_effects(self.judge(memory, candidate))

    def judge(self, memory: WorkingMemory, candidate: str) -> Verdict:
        """The verdict on a candidate, at once and outside a loop."""
        return self.verdict(self.check(memory, candidate), memory, candidate)

    def check(self, memory: WorkingMemory, candidate: str) -> Check:
        """What the checker says, with places."""
        return check(
            memory.question, candidate, memory.evidence, self.reader, embed=self.embed, coverage=self.threshold
        )

    def verdict(self, found: Check, memory: WorkingMemory, candidate: str) -> Verdict:
        """What a finished check says of the candidate: pass, fail or unknown, with a reason for each claim."""
        copied = copied_from(candidate, memory.evidence, self.copy_cap)
        if copied is not None:
            why = "repeats the evidence word for word instead of answering"
            return Verdict("fail", min(found.score, 0.3), (Reason(why, "copy", passage_id=copied),))
        if found.passed:
            return Verdict("pass", found.score)
        reasons = tuple(_reasons(found)) or (Reason(found.reason, found.kind, candidate),)
        failed = found.supported is False or found.answers is False or found.kind in _FAILS
        return Verdict("fail" if failed else "unknown", found.score, reasons)


def _reasons(found: Check) -> list[Reason]:
    out = []
    for claim in found.claims:
        if claim.supported is not False:
            continue
        kind = claim.differences[0].kind if claim.differences else "unsupported"
        missing = tuple(d.said for d in claim.differences) or claim.missing
        where = claim.evidence[0].passage_id if claim.evidence else None
        said = _SAYINGS.get(kind, claim.why)
        out.append(Reason(said, kind, claim.text.strip(), where, missing, _instead(claim, answers=found.answers)))
    return out


def _instead(claim: Claim, *, answers: bool | None) -> tuple[tuple[str, str], ...]:
    """The one value that differs, with the evidence's own, when the evidence says all the rest of the claim."""
    if len(claim.differences) != 1 or answers is False:
        return ()
    told = claim.differences[0]
    if told.kind not in _VALUES or not told.stands or told.source_start is None:
        return ()
    if _measure(told.said) != _measure(told.stands):  # metres are not put in the place of dollars
        return ()
    inside = set(words(told.said))
    rest = [w for w in content_words(claim.text) if w not in inside]
    missing = {w for m in claim.missing for w in words(m)} - inside
    return ((told.said, told.stands),) if len(rest) >= _REST and not missing & set(rest) else ()


def _measure(value: str) -> list[str]:
    """What is said beside the digits: unit, currency and scale; of a name nothing."""
    return sorted(re.findall(r"[^\W\d]+|[$€£¥%]", value.casefold())) if re.search(r"\d", value) else []
