"""Whether an answer answers its question, by a reader of real text."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Protocol, runtime_checkable

from denoise_core.support.judging import Claim
from denoise_core.text.facts import Fact
from denoise_core.text.facts.match import standing
from denoise_core.text.facts.reading import Reading
from denoise_core.text.language import language_of
from denoise_core.types import Passage

_CANDIDATES = 12  # texts that a reader is asked about


class Fitting(Protocol):
    """How a candidate fits, in natural logarithms of probabilities."""

    @property
    def own(self) -> float:
        """Of its best span among all spans; -inf when it stands nowhere."""
        ...

    @property
    def holds(self) -> float:
        """Of that span's window to hold an answer at all."""
        ...


@runtime_checkable
class Reader(Protocol):
    """Reads passages for a question; see `denoise_core.embedded.span_reader`."""

    def fits(self, query: str, candidates: Sequence[str], passages: Sequence[Passage]) -> Sequence[Fitting]:
        """How each candidate fits, in order."""
        ...


def fit_of(reader: Reader, question: str, claim: Claim, passages: Sequence[Passage]) -> float | None:
    """The best fit of a claim, or of what the evidence says in its place (a date in another form): log-probability
    of the span and of its window. None when the reader finds neither anywhere, or cannot say."""
    found = list(dict.fromkeys(t for t in (claim.whole, *_told(question, claim, passages)) if t.strip()))
    fits = [f.own + f.holds for f in reader.fits(question, found[:_CANDIDATES], passages)]
    known = [f for f in fits if not math.isnan(f) and not math.isinf(f)]
    return max(known, default=None)


def _told(question: str, claim: Claim, passages: Sequence[Passage]) -> list[str]:
    """Characters of the evidence that bear out numbers and dates which the question has not."""
    asked = Reading.of(question, language_of(question)).facts
    out: list[str] = []
    said: list[Fact] = [
        f for f in Reading.of(claim.whole).facts if f.kind in ("number", "date", "time", "numeral")
    ]
    for fact in said:
        if standing(fact, asked):
            continue
        for passage in passages:
            source = Reading.of(passage.text)
            out += [passage.text[f.start : f.end] for f in standing(fact, source.facts)[:1]]
    return out
