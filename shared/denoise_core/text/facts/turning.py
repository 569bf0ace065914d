"""Words that turn a statement round: what the claim denies, reverses, widens or makes certain."""

from __future__ import annotations

from collections.abc import Sequence

from denoise_core.text.facts.fact import Difference, Fact
from denoise_core.text.facts.kinds.senses import opposite
from denoise_core.text.facts.match import standing
from denoise_core.text.facts.reading import Reading
from denoise_core.text.wordlists import EXCEPTIONS, listed

_BEARS_OUT = {  # a quantity is borne out by these
    "all": {"all"},
    "most": {"most", "all"},
    "some": {"some", "most", "all", "few"},
    "few": {"few"},
    "only": {"only"},
}
_CERTAINTY = {"must": {"must"}, "should": {"should", "must"}, "may": {"may", "should", "must", "might"}}
_CERTAINTY |= {"might": {"might", "may", "should", "must"}}
_EXCEPT = EXCEPTIONS | listed("only nur solo sólo seulement")
_NEAR = 4  # content words that a word of quantity or modality reaches


def turned(claim: Reading, source: Reading, given: Sequence[Fact]) -> list[Difference]:
    """The differences of the kinds negation, direction, quantity, modality, attribution and degree."""
    found = [*_directions(claim, source)]
    if not found:
        found += _denials(claim, source)
    found += _reaching(claim, source, "quantity", _BEARS_OUT)
    found += _reaching(claim, source, "modality", _CERTAINTY)
    found += _sureness(claim, source)
    found += _degrees(claim, source, given)
    return found


def _denials(claim: Reading, source: Reading) -> list[Difference]:
    out: list[Difference] = []
    for fact in claim.of_kind("negation"):
        if _EXCEPT & {x.lower for x in source.lexemes}:
            break
        scope = _stems(claim, fact.scope)
        shared = scope & source.stems
        if (
            shared
            and not shared & source.denied
            and 2 * len(shared) >= len(scope)
            and _nearest(fact, claim) in shared
        ):
            other = next((f for f in source.of_kind("negation")), None)
            if other is None or not _reversed(claim, source):
                out.append(_difference(fact, None, claim, source))
    for fact in source.of_kind("negation"):
        if _EXCEPT & {x.lower for x in claim.lexemes}:
            break
        scope = _stems(source, fact.scope)
        shared = (scope & claim.asserted) - claim.denied
        only = shared - source.asserted
        if (
            only
            and 2 * len(shared) >= len(scope & source.stems)
            and _major(only, claim)
            and not _reversed(claim, source)
        ):
            at = next(w for w in claim.words if w.stem in only)
            out.append(
                Difference(
                    "negation",
                    claim.text[at.start : at.end],
                    _text(fact, source),
                    at.start,
                    at.end,
                    fact.start,
                    fact.end,
                )
            )
    return out[:1]


def _nearest(negation: Fact, claim: Reading) -> str:
    """The first content word that is denied; German denies what stands before, too."""
    assert negation.scope is not None
    start = negation.scope[0]
    return next((w.stem for w in claim.words if w.start >= start), "")


def _major(stems: frozenset[str] | set[str], claim: Reading) -> bool:
    return 3 * len(stems) >= len(claim.stems)


def _reversed(claim: Reading, source: Reading) -> bool:
    """An opposite word does what a negation does: "not open" is "closed"."""
    told = {f.norm for f in source.of_kind("direction")}
    return any(opposite(f.norm) in told and f.norm not in told for f in claim.of_kind("direction"))


def _directions(claim: Reading, source: Reading) -> list[Difference]:
    said = [(f, _signed(f, claim)) for f in claim.of_kind("direction")]
    told = [(f, _signed(f, source)) for f in source.of_kind("direction")]
    if said and told:
        told = _with_facts(claim, source, told) or told
    meant = {sign for _, sign in told}
    norms = {sign for _, sign in said}
    out: list[Difference] = []
    places = sorted({(f.start, f.end) for f, _ in said})
    for place in places:
        here = [(f, sign) for f, sign in said if (f.start, f.end) == place]
        agrees = any(sign in meant for _, sign in here)
        both = any(opposite(sign) in norms for _, sign in here)
        against = [(f, t) for f, sign in here for t, other in told if other == opposite(sign)]
        if against and not agrees and not both:
            out.append(_difference(against[0][0], against[0][1], claim, source))
    return out


def _with_facts(claim: Reading, source: Reading, told: list[tuple[Fact, str]]) -> list[tuple[Fact, str]]:
    """Those in the clauses where the claim's numbers and times stand: "the first at 5.12, the last at 23.47"."""
    held = claim.of_kind("number", "date", "time")
    places = {source.clause(t.start) for f in held for t in standing(f, source.facts)}
    return [(f, sign) for f, sign in told if source.clause(f.start) in places]


def _signed(fact: Fact, reading: Reading) -> str:
    """The direction's norm, turned when it stands under a negation."""
    denied = any(
        f.scope and f.scope[0] <= fact.start < f.scope[1] and _next(f, fact, reading)
        for f in reading.of_kind("negation")
    )
    return opposite(fact.norm) if denied else fact.norm


def _next(negation: Fact, fact: Fact, reading: Reading) -> bool:
    """At most one content word stands between the two."""
    low, high = sorted((negation.end, fact.start))
    return sum(low <= w.start and w.end <= high for w in reading.words) <= 1


def _reaching(claim: Reading, source: Reading, kind: str, bears_out: dict[str, set[str]]) -> list[Difference]:
    """Quantities and modals: of those that reach the same words in both, one of the source must bear it out."""
    out: list[Difference] = []
    told = [(f, _after(f, source)) for f in source.of_kind(kind)]
    for fact in claim.of_kind(kind):
        reach = _after(fact, claim)
        meant = [t for t, other in told if len(reach & other) * 2 >= min(len(reach), len(other)) and reach & other]
        if not meant or any(t.norm in bears_out[fact.norm] for t in meant):
            continue
        if kind == "quantity" and fact.norm in ("some", "few") and source.of_kind("negation"):
            continue  # not all are some
        out.append(_difference(fact, meant[0], claim, source))
    return out


def _sureness(claim: Reading, source: Reading) -> list[Difference]:
    """A rumour or a guess that became a fact."""
    if any(f.norm == "doubted" for f in claim.of_kind("attribution")) or claim.of_kind("modality"):
        return []
    doubts = [f for f in source.of_kind("attribution") if f.norm == "doubted"]
    doubts += [f for f in source.of_kind("modality") if f.norm == "might"]
    sure = [f for f in claim.of_kind("attribution") if f.norm == "sure"]
    if any(f.norm == "sure" for f in source.of_kind("attribution")) and sure:
        sure = []
    for doubt in doubts:
        at = source.sentence(doubt.start)
        beside = {w.stem for w in source.words if source.sentence(w.start) == at and w.start > doubt.end}
        elsewhere = {w.stem for w in source.words if source.sentence(w.start) != at}
        shared = claim.stems & beside - elsewhere
        if (sure and shared) or (len(shared) >= 2 and 2 * len(shared) >= len(claim.stems)):
            fact = sure[0] if sure else None
            start, end = (fact.start, fact.end) if fact else (0, len(claim.text))
            return [
                Difference(
                    "attribution", claim.text[start:end], _text(doubt, source), start, end, doubt.start, doubt.end
                )
            ]
    return []


def _degrees(claim: Reading, source: Reading, given: Sequence[Fact]) -> list[Difference]:
    known = {f.norm for f in (*source.of_kind("degree"), *given) if f.kind == "degree"}
    words = {x.lower for x in source.lexemes}
    out = []
    for fact in claim.of_kind("degree"):
        if (
            fact.norm in known
            or fact.norm in words
            or (fact.norm == "only" and words & {"sole", "solely", "unique"})
        ):
            continue
        if any(f.norm == "most" for f in source.of_kind("quantity")):
            continue
        out.append(_difference(fact, None, claim, source))
    return out


def _after(fact: Fact, reading: Reading) -> set[str]:
    """Stems of the content words right behind a word, itself left out, in its sentence."""
    at = reading.sentence(fact.start)
    found = [w.stem for w in reading.words if w.start >= fact.end and reading.sentence(w.start) == at]
    return set(found[:_NEAR])


def _stems(reading: Reading, scope: tuple[int, int] | None) -> set[str]:
    if scope is None:
        return set()
    return {w.stem for w in reading.words if scope[0] <= w.start and w.end <= scope[1]}


def _difference(fact: Fact, told: Fact | None, claim: Reading, source: Reading) -> Difference:
    return Difference(
        fact.kind,
        _text(fact, claim),
        _text(told, source) if told else "",
        fact.start,
        fact.end,
        told.start if told else None,
        told.end if told else None,
    )


def _text(fact: Fact, reading: Reading) -> str:
    return reading.text[fact.start : fact.end]
