"""What facts of one text another does not say: numbers, dates, times, names and numerals that stand nowhere in it.

Of claims that people labelled (grounding sets and FEVER-symmetric, `make bench ONLY=facts`) a date that is missing
speaks for a wrong claim 3.1 to 1, a number 1.7 to 1, a name 1.6 to 1. Directions, roles, quantities, modality,
attribution and facts put together otherwise were read here once, and spoke for nothing.
"""

from __future__ import annotations

from collections.abc import Sequence

from denoise_core.text.facts.fact import Difference, Fact
from denoise_core.text.facts.match import HELD, rivals, standing
from denoise_core.text.facts.reading import Reading


def differences(claim: str, source: str, *, given: str = "", language: str = "") -> tuple[Difference, ...]:
    """Where ``claim`` says something that ``source`` does not: facts that do not stand there.

    Facts that ``given`` states (a question) need no support. ``language``: see `facts`. Time grows with both
    lengths, and with the product of the numbers of facts in the two.

    >>> [d.kind for d in differences("It rose to $3.2 billion in 2021.", "It rose to 3.2 million dollars.")]
    ['number', 'date']
    """
    one, two = Reading.of(claim, language), Reading.of(source, language)
    known = Reading.of(given, language) if given else None
    return compare(one, two, known)


def compare(claim: Reading, source: Reading, given: Reading | None = None) -> tuple[Difference, ...]:
    """As `differences`, of texts that were read already."""
    known = given.facts if given else ()
    found = [d for f in claim.facts if f.kind in HELD for d in _missing(f, claim, source, known)]
    return tuple(sorted(found, key=lambda d: (d.start, d.end, d.kind)))


def _missing(fact: Fact, claim: Reading, source: Reading, known: Sequence[Fact]) -> list[Difference]:
    if fact.doubtful or standing(fact, source.facts) or standing(fact, known) or _worded(fact, claim, source):
        return []
    instead = rivals(fact, source.facts)
    if fact.kind == "number" and fact.norm == "1" and not any(t.unit == fact.unit for t in instead):
        return []  # "one year" is "a year"
    return [_difference(fact.kind, fact, claim, instead[0] if instead else None, source)]


def _worded(fact: Fact, claim: Reading, source: Reading) -> bool:
    """A name whose words stand in the source without capitals, or in one line with others: it is no name there."""
    if fact.kind != "name":
        return False
    words = [w for w in claim.words if fact.start <= w.start and w.end <= fact.end]
    return bool(words) and all(w.stem in source.loose for w in words)


def _difference(kind: str, fact: Fact, claim: Reading, told: Fact | None, source: Reading) -> Difference:
    stands = source.text[told.start : told.end] if told else ""
    first, last = (told.start, told.end) if told else (None, None)
    return Difference(kind, claim.text[fact.start : fact.end], stands, fact.start, fact.end, first, last)
