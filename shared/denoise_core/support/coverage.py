"""How much of what a claim says a window says: the share of its words and facts, by how much each tells.

What the window says in another sentence than most of the clause counts less, unless that sentence takes up what
was said before ("She ..."): words that are near each other need not be said of each other.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from denoise_core.support.evidence import Evidence, Window, terms
from denoise_core.text.facts.match import HELD, standing
from denoise_core.text.facts.reading import Reading

ASKED = 0.4  # weight of a word that the question says already: repeating it proves little
_MISSING = 1.6  # weight of a missing word that other sentences have: another thing's attribute
_MISSING_ASKED = 2.0  # of a word of the question, where the sentence refers to nothing before it
_ALIKE = 0.8  # worth of another form or a word of the same sense
_TAKEN_UP = 0.9  # worth of a word in another sentence of the passage, when one of them takes the other up
_SAME_PASSAGE = 0.5
_OTHER_PASSAGE = 0.3


@dataclass(frozen=True, slots=True)
class Asked:
    """The question, read once."""

    reading: Reading
    terms: frozenset[str]


@dataclass(frozen=True, slots=True)
class Term:
    """A word or number of a claim, with its characters in the claim."""

    norm: str
    weight: float
    start: int
    end: int
    clause: int


def said_by(claim: Reading, asked: Asked) -> list[Term]:
    """Each word of the claim once."""
    out: dict[str, Term] = {}
    for norm, start, end in terms(claim.lexemes, claim.language):
        weight = ASKED if norm in asked.terms else 1.0
        out.setdefault(norm, Term(norm, weight, start, end, claim.clause(start)))
    return list(out.values())


def rough(said: Sequence[Term], window: Window, evidence: Evidence) -> float:
    """The share of words alone, for choosing windows."""
    got = sum(t.weight * evidence.rarity(t.norm) * found(t.norm, window.terms, evidence) for t in said)
    return got / sum(t.weight * evidence.rarity(t.norm) for t in said)


def coverage(
    claim: Reading, said: Sequence[Term], source: Reading, window: Window, evidence: Evidence
) -> tuple[float, tuple[Term, ...]]:
    """The share, 0 to 1, and the words that the window does not say."""
    borne = [f for f in claim.facts if f.kind in HELD and standing(f, source.facts)]
    got = total = 0.0
    missing: list[Term] = []
    for clause in sorted({t.clause for t in said}):
        mine = [t for t in said if t.clause == clause]
        core = max(range(len(window.sentences)), key=lambda n: _in(mine, n, window, evidence))
        for term in mine:
            told = term.weight * evidence.rarity(term.norm)
            worth = _worth(term, core, claim, window, source, evidence)
            if worth < 1 and any(f.start <= term.start and term.end <= f.end for f in borne):
                worth = max(worth, 1.0 if len(window.sentences) == 1 else 0.9)
            got += told * worth
            known = term.norm in evidence.having or term.norm in evidence.heads_having
            heavy = 1.0
            if known and term.weight == 1.0:
                heavy = _MISSING
            elif known and not window.takes_up(core):
                heavy = _MISSING_ASKED / ASKED
            total += told * (worth + (1 - worth) * heavy)
            if not worth:
                missing.append(term)
    return (got / total if total else 0.0), tuple(missing)


def found(norm: str, among: frozenset[str], evidence: Evidence) -> float:
    """1 for the word itself, less for another form of it, 0 for none."""
    if norm in among:
        return 1.0
    return _ALIKE if any(f in among for f in evidence.forms(norm)[1:]) else 0.0


def _in(mine: Sequence[Term], n: int, window: Window, evidence: Evidence) -> float:
    own = window.sentences[n].terms
    return sum(t.weight * evidence.rarity(t.norm) * found(t.norm, own, evidence) for t in mine)


def _worth(term: Term, core: int, claim: Reading, window: Window, source: Reading, evidence: Evidence) -> float:
    here = window.sentences[core]
    at_head = found(term.norm, evidence.head_terms[here.passage], evidence)
    worth = max(found(term.norm, here.terms, evidence), at_head)
    for n, other in enumerate(window.sentences):
        if n == core or worth == 1.0:
            continue
        there = max(
            found(term.norm, other.terms, evidence), found(term.norm, evidence.head_terms[other.passage], evidence)
        )
        if other.passage != here.passage:
            there *= _OTHER_PASSAGE
        else:
            there *= _TAKEN_UP if window.takes_up(max(n, core)) else _SAME_PASSAGE
        worth = max(worth, there)
    if not worth and _synonym(term, claim, source):
        worth = _ALIKE
    return worth


def _synonym(term: Term, claim: Reading, source: Reading) -> bool:
    """The window has a word of the same direction: fell for decreased, bought for acquired."""
    own = {f.norm for f in claim.of_kind("direction") if (f.start, f.end) == (term.start, term.end)}
    return bool(own & {f.norm for f in source.of_kind("direction")})
