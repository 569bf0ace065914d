"""What facts of one text another does not bear out."""

from __future__ import annotations

from collections.abc import Sequence

from denoise_core.text.facts.crossing import crossed, elsewhere, mixed
from denoise_core.text.facts.fact import Difference, Fact
from denoise_core.text.facts.match import HELD, rivals, standing
from denoise_core.text.facts.reading import Reading
from denoise_core.text.facts.roles import swapped
from denoise_core.text.facts.turning import turned


def differences(claim: str, source: str, *, given: str = "", language: str = "") -> tuple[Difference, ...]:
    """Where ``claim`` says something that ``source`` does not: numbers, dates, names and numerals that do not
    stand there, facts put together that the source keeps apart, and words that turn a statement round
    (negation, direction, quantity, modality, attribution, superlatives).

    The source is what the claim is held against, some sentences; other sentences in it may hide a swap.
    Facts that ``given`` states (a question) need no support. ``language``: see `facts`. Time grows with both
    lengths, and with the product of the numbers of facts in the two.

    >>> [d.kind for d in differences("It rose to $3.2 billion.", "It fell to 3.2 million dollars.")]
    ['direction', 'number']
    """
    one, two = Reading.of(claim, language), Reading.of(source, language)
    known = Reading.of(given, language) if given else None
    return compare(one, two, known)


def compare(claim: Reading, source: Reading, given: Reading | None = None) -> tuple[Difference, ...]:
    """As `differences`, of texts that were read already."""
    known = given.facts if given else ()
    found = [d for f in claim.facts if f.kind in HELD for d in _missing(f, claim, source, known)]
    if not any(d.kind in ("number", "date") for d in found):
        found += crossed(claim, source) or elsewhere(claim, source, known) or mixed(claim, source)
    found += turned(claim, source, known)
    found += swapped(claim, source)
    return tuple(sorted(found, key=lambda d: (d.start, d.end, d.kind)))


def _missing(fact: Fact, claim: Reading, source: Reading, known: Sequence[Fact]) -> list[Difference]:
    if fact.doubtful or standing(fact, source.facts) or standing(fact, known) or _worded(fact, claim, source):
        return []
    instead = rivals(fact, source.facts)
    if fact.kind == "number" and fact.norm == "1" and not any(t.unit == fact.unit for t in instead):
        return []  # "one year" is "a year"
    nearest = instead[0] if instead else None
    return [
        Difference(
            fact.kind,
            claim.text[fact.start : fact.end],
            source.text[nearest.start : nearest.end] if nearest else "",
            fact.start,
            fact.end,
            nearest.start if nearest else None,
            nearest.end if nearest else None,
        )
    ]


def _worded(fact: Fact, claim: Reading, source: Reading) -> bool:
    """A name whose words stand in the source without capitals, or in one line with others: it is no name there."""
    if fact.kind != "name":
        return False
    words = [w for w in claim.words if fact.start <= w.start and w.end <= fact.end]
    return bool(words) and all(w.stem in source.loose for w in words)
