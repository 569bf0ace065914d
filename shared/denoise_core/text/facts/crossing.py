"""Facts that a claim puts together and its source keeps apart: the sum of one year given for another."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from itertools import combinations

from denoise_core.text.facts.fact import Difference, Fact
from denoise_core.text.facts.match import HELD, rivals, standing
from denoise_core.text.facts.reading import Reading

_MOST = 12  # facts of one clause that are looked at in pairs
_MARGIN = 2.0  # so many times more of the rest must stand beside a rival than beside the fact


def crossed(claim: Reading, source: Reading) -> list[Difference]:
    """Pairs of facts of one clause of the claim that stand in two clauses (or sentences) of the source, each
    beside another fact of the other's kind."""
    found: list[Difference] = []
    for together in _by_clause(claim):
        places = {id(f): standing(f, source.facts) for f in together}
        for one, two in combinations(together[:_MOST], 2):
            a, b = places[id(one)], places[id(two)]
            if not a or not b:
                continue
            for place in (source.clause, source.sentence):
                if _apart(one, two, a, b, claim, source, place):
                    found.append(_difference(one, two, a, b, claim, source, place))
                    break
    return found[:1]


def elsewhere(claim: Reading, source: Reading, asked: frozenset[str] = frozenset()) -> list[Difference]:
    """Facts that stand in the source, but where the rest of the claim (and of what is ``asked``) does not, while
    that stands beside a rival: "begun under Charles I", who had only bought the land."""
    seen = Counter(s for part in _stems_by(source, source.sentence).values() for s in part)
    out: list[Difference] = []
    for together in _by_clause(claim):
        for fact in together:
            if fact.doubtful:
                continue
            own = standing(fact, source.facts)
            others = [t for t in rivals(fact, source.facts) if t not in own and not _said(t, claim, fact)]
            if not own or not others:
                continue
            at = claim.clause(fact.start)
            rest = {
                w.stem for w in claim.words if claim.clause(w.start) == at and not fact.start <= w.start < fact.end
            }
            rest = {s for s in rest | asked if s in seen}
            for place in (source.sentence, source.clause):
                rival = _better(rest, own, others, source, place, seen)
                if rival:
                    out.append(_found(fact, rival, claim, source))
                    break
    return out[:1]


def _better(
    rest: set[str],
    own: Sequence[Fact],
    others: Sequence[Fact],
    source: Reading,
    place: Callable[[int], int],
    seen: Counter[str],
) -> Fact | None:
    parts = _stems_by(source, place)

    def worth(facts: Sequence[Fact]) -> tuple[float, Fact]:
        return max(
            ((sum(1 / seen[s] for s in rest & parts.get(place(f.start), set())), f) for f in facts),
            key=lambda x: x[0],
        )

    total = sum(1 / seen[s] for s in rest)
    mine, _ = worth(own)
    theirs, rival = worth(others)
    if place(rival.start) in {place(f.start) for f in own}:
        return None
    return rival if theirs >= 0.5 * total > 0 and theirs >= _MARGIN * max(mine, 0.01) else None


def _apart(
    one: Fact,
    two: Fact,
    a: Sequence[Fact],
    b: Sequence[Fact],
    claim: Reading,
    source: Reading,
    place: Callable[[int], int],
) -> bool:
    here, there = {place(f.start) for f in a}, {place(f.start) for f in b}
    if here & there:
        return False
    taken = [*a, *b]
    of_two = {place(t.start) for t in rivals(two, source.facts) if t not in taken and not _said(t, claim, two)}
    of_one = {place(t.start) for t in rivals(one, source.facts) if t not in taken and not _said(t, claim, one)}
    return here <= of_two and there <= of_one


def _by_clause(claim: Reading) -> list[list[Fact]]:
    parts: dict[int, list[Fact]] = {}
    for fact in claim.facts:
        if fact.kind in HELD:
            parts.setdefault(claim.clause(fact.start), []).append(fact)
    return list(parts.values())


def _stems_by(source: Reading, place: Callable[[int], int]) -> dict[int, set[str]]:
    parts: dict[int, set[str]] = {}
    for w in source.words:
        parts.setdefault(place(w.start), set()).add(w.stem)
    return parts


def _said(told: Fact, claim: Reading, fact: Fact) -> bool:
    return any(f is not fact and told in standing(f, [told]) for f in claim.facts if f.kind in HELD)


def _difference(
    one: Fact,
    two: Fact,
    a: Sequence[Fact],
    b: Sequence[Fact],
    claim: Reading,
    source: Reading,
    place: Callable[[int], int],
) -> Difference:
    here = place(a[0].start)
    instead = next(t for t in rivals(two, source.facts) if t not in (*a, *b) and place(t.start) == here)
    return _found(two, instead, claim, source)


def _found(fact: Fact, instead: Fact, claim: Reading, source: Reading) -> Difference:
    said, stands = claim.text[fact.start : fact.end], source.text[instead.start : instead.end]
    return Difference("crossed", said, stands, fact.start, fact.end, instead.start, instead.end)
