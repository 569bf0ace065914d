"""Facts that a claim puts together and its source keeps apart: the sum of one year given for another."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from itertools import combinations

from denoise_core.text.facts.fact import Difference, Fact
from denoise_core.text.facts.kinds.names import is_code
from denoise_core.text.facts.match import HELD, rivals, standing
from denoise_core.text.facts.reading import Reading

_MOST = 12  # facts of one clause that are looked at in pairs
_PARALLEL = 8  # words that tell two clauses apart, when they are two halves of a comparison
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
            kinds = {one.kind, two.kind}
            for place in (source.clause, source.sentence) if len(kinds) == 2 else (source.sentence,):
                if kinds != {"number"} and _apart(one, two, a, b, claim, source, place):
                    found.append(_difference(one, two, a, b, claim, source, place))
                    break
    return found[:1]


def elsewhere(claim: Reading, source: Reading, given: Sequence[Fact] = ()) -> list[Difference]:
    """Facts that stand in the source, but where the rest of the claim's clause does not, while that stands beside
    a rival: "begun under Charles I", who had only bought the land. Not for names, which many sentences have
    several of, but for names in code; and nothing that ``given`` (a question) says is a rival."""
    seen = Counter(s for part in _stems_by(source, source.sentence).values() for s in part)
    out: list[Difference] = []
    for together in _by_clause(claim):
        for fact in together:
            coded = fact.kind == "name" and is_code(fact.norm)
            if fact.kind not in ("number", "date", "time", "numeral") and not coded:
                continue
            own = standing(fact, source.facts)
            others = [t for t in rivals(fact, source.facts) if t not in own and not _said(t, claim, fact)]
            others = [t for t in others if (is_code(t.norm) if coded else not standing(t, given))]
            if not own or not others:
                continue
            at = claim.clause(fact.start)
            rest = {w.stem for w in claim.words if claim.clause(w.start) == at and w.start < fact.start}
            rest |= {w.stem for w in claim.words if claim.clause(w.start) == at and w.start >= fact.end}
            rest &= source.stems
            few = 1 if coded or fact.kind == "numeral" else min(2, len(rest))
            for place, least in ((source.sentence, 1), (source.clause, few)):
                rival = _better(rest, own, others, source, place, seen, least)
                if rival:
                    out.append(_found(fact, rival, claim, source))
                    break
    return out[:1]


def mixed(claim: Reading, source: Reading) -> list[Difference]:
    """Words of two clauses of the claim that stand in two places of the source the other way round: "comes in by
    the south gate and goes out by the north"."""
    own = [(at, words) for at, words in sorted(_stems_by(claim, claim.clause).items()) if words & source.stems]
    for place in (source.sentence, source.clause):
        parts = list(_stems_by(source, place).values())[:_MOST]
        for (at, one), (_, two) in combinations(own[:_MOST], 2):
            first, second = (one - two) & source.stems, (two - one) & source.stems
            if max(len(first), len(second)) > _PARALLEL:
                continue
            for here, there in combinations(parts, 2):
                h, t = here - there, there - here
                split = first & h and first & t and second & h and second & t and one | two <= here | there
                if split and not any(first <= p or second <= p for p in parts):
                    w = next(w for w in claim.words if w.stem in first & t and claim.clause(w.start) == at)
                    return [Difference("crossed", claim.text[w.start : w.end], "", w.start, w.end)]
    return []


def _better(
    rest: set[str],
    own: Sequence[Fact],
    others: Sequence[Fact],
    source: Reading,
    place: Callable[[int], int],
    seen: Counter[str],
    least: int,
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
    enough = len(rest & parts.get(place(rival.start), set())) >= least
    return rival if enough and theirs >= 0.5 * total > 0 and theirs >= _MARGIN * max(mine, 0.01) else None


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
    at = claim.clause(fact.start)
    return any(
        f is not fact and told in standing(f, [told])
        for f in claim.facts
        if f.kind in HELD and claim.clause(f.start) == at
    )


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
