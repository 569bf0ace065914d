"""Who did it to whom: the same words on the other sides of the same verb."""

from __future__ import annotations

from denoise_core.text.facts.fact import Difference
from denoise_core.text.facts.reading import Reading
from denoise_core.text.stems import Word
from denoise_core.text.wordlists import listed

_BY = frozenset(("by", "von", "por", "par", "durch"))
_BE = listed(
    """
    was were is are been being be wurde wurden wird werden fue fueron ha sido été fut est
    """
)
_TO = frozenset(("to", "an", "à", "a"))
_ORDERED = frozenset(("en", "fr", "es", "de", ""))
_FEW = 8  # content words of an English claim in which "to" is looked at; it stands before verbs too
_REACH = 6  # content words on each side
_LONGEST = 40  # content words of a claim that is looked at


def swapped(claim: Reading, source: Reading) -> list[Difference]:
    """Two words that stand on the two sides of a word in the claim and on the opposite sides in the source, both
    in the active or both in the passive; or on the same sides with one of the two in the passive."""
    if len(claim.words) > _LONGEST or claim.language not in _ORDERED:
        return []
    given = _receiver(claim, source)
    if given:
        return given
    for at, verb in enumerate(claim.words):
        if claim.text[verb.start].isupper() and at:
            continue
        before, after = _sides(claim, at)
        if not before or not after:
            continue
        told = [_sides(source, n) for n, w in enumerate(source.words) if w.stem == verb.stem]
        places = [w for w in source.words if w.stem == verb.stem]
        if not told or len(told) > 3:
            continue
        found = None
        for (left, right), place in zip(told, places, strict=True):
            found = _turned(claim, verb, before, after, source, place, left, right)
            if found is None:
                break
        if found is not None:
            said = f"{found[0]} … {claim.text[verb.start : verb.end]} … {found[1]}"
            place = places[0]
            return [Difference("roles", said, "", verb.start, verb.end, place.start, place.end)]
    return []


def _receiver(claim: Reading, source: Reading) -> list[Difference]:
    """Somebody to whom something is given in the claim, and who gives it in the source."""
    told, said = _marked(source), _marked(claim)
    if not told or not said or (claim.language in ("en", "") and len(claim.words) > _FEW):
        return []
    wrong = (said - told) & source.stems
    other = (told & claim.stems) - said
    for w in claim.words:
        if w.stem in wrong and other:
            return [Difference("roles", f"to {claim.text[w.start : w.end]}", "", w.start, w.end)]
    return []


def _marked(reading: Reading) -> set[str]:
    """Stems of the one or two content words behind "to"."""
    out: set[str] = set()
    for i, x in enumerate(reading.lexemes):
        if x.lower not in _TO or (x.lower == "a" and reading.language != "es"):
            continue
        if x.lower == "an" and reading.language != "de":
            continue
        end = reading.lexemes[min(i + 4, len(reading.lexemes) - 1)].end
        clause = reading.clause(x.start)
        out |= {
            w.stem
            for w in reading.words
            if x.end <= w.start and w.end <= end and reading.clause(w.start) == clause
        }
    return out


def _turned(
    claim: Reading,
    verb: Word,
    before: set[str],
    after: set[str],
    source: Reading,
    place: Word,
    left: set[str],
    right: set[str],
) -> tuple[str, str] | None:
    first = (before - after) & (right - left)
    second = (after - before) & (left - right)
    voice = _passive(claim, verb) == _passive(source, place)
    if first and second and voice and not ((before & left) - right and (after & right) - left):
        return min(first), min(second)
    kept_first, kept_second = (before - after) & (left - right), (after - before) & (right - left)
    if kept_first and kept_second and not voice and not first and not second:
        return min(kept_first), min(kept_second)
    return None


def _sides(reading: Reading, at: int) -> tuple[set[str], set[str]]:
    words = reading.words
    clause = reading.clause(words[at].start)
    before = [w.stem for w in words[max(0, at - _REACH) : at] if reading.clause(w.start) == clause]
    after = [w.stem for w in words[at + 1 : at + 1 + _REACH] if reading.clause(w.start) == clause]
    return set(before), set(after)


def _passive(reading: Reading, verb: Word) -> bool:
    clause = reading.clause(verb.start)
    near = [x.lower for x in reading.lexemes if x.start < verb.start and reading.clause(x.start) == clause]
    behind = [x.lower for x in reading.lexemes if x.start >= verb.end and reading.clause(x.start) == clause]
    return bool(_BE & set(near[-3:])) and bool(_BY & set(behind[:7]))
