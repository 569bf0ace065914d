"""Whether an answer answers its question: by what the question asks for, and by a reader of real text."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from typing import Protocol, runtime_checkable

from denoise_core.support.coverage import Asked, found
from denoise_core.support.evidence import Evidence, Sentence
from denoise_core.support.result import Claim
from denoise_core.text.facts import Fact
from denoise_core.text.facts.match import standing
from denoise_core.text.facts.reading import Reading
from denoise_core.text.language import language_of
from denoise_core.types import Passage

_WHEN = re.compile(
    r"\b(?:when|(?:what|which) (?:year|date|day|decade|century|month)|wann|seit wann"
    r"|(?:in )?welche[mrsn]? (?:jahr|monat)|quand"
    r"|en quelle année|cuándo|(?:en )?qué (?:año|fecha|década))\b",
    re.IGNORECASE,
)
_HOW_MANY = re.compile(
    r"\b(?:how (?:many|much|long|tall|high|old|far|fast|deep|wide|heavy|big|large|cold|hot)"
    r"|wie ?viele?|wie (?:hoch|lang|alt|schnell|tief|groß|schwer)"
    r"|combien|cuánt[oa]s?|qué altura|qué edad)\b",
    re.IGNORECASE,
)
_YES_NO = re.compile(
    r"^\W*(?:is|are|was|were|do|does|did|has|have|had|can|could|will|would|should|must|may|am|ist|sind|war|waren|hat|haben|kann|können"
    r"|darf|dürfen|muss|müssen|gibt|wird|wurde|est-ce|es|era|fue|son|está|están|hay|puede|pueden|tiene|debe)\b",
    re.IGNORECASE,
)


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


def fit_of(
    reader: Reader, question: str, texts: Sequence[str], claims: Sequence[Claim], passages: Sequence[Passage]
) -> float | None:
    """The best fit of the answer, of one of its claims, or of what the evidence says in its place (a date in
    another form): log-probability of the span and of its window. None when the reader finds none of them anywhere,
    or cannot say."""
    found = list(dict.fromkeys(t for t in (" ".join(texts), *texts, *_told(question, claims, passages)) if t))
    fits = [f.own + f.holds for f in reader.fits(question, found[:_CANDIDATES], passages)]
    known = [f for f in fits if not math.isnan(f) and not math.isinf(f)]
    return max(known, default=None)


def _told(question: str, claims: Sequence[Claim], passages: Sequence[Passage]) -> list[str]:
    """Characters of the evidence that bear out numbers and dates which the question has not."""
    texts = {p.id: p.text for p in passages}
    asked = Reading.of(question).facts
    out = []
    for claim in claims:
        said = Reading.of(claim.text, language_of(claim.text, "en")).facts
        for span in claim.evidence:
            told = texts[span.passage_id][span.start : span.end]
            source = Reading.of(told)
            for fact in said:
                if fact.kind in ("number", "date", "time", "numeral") and not standing(fact, asked):
                    out += [told[f.start : f.end] for f in standing(fact, source.facts)[:1]]
    return out


def of_kind(question: str, claims: Sequence[Reading]) -> bool | None:
    """Whether the claims have what the question asks for: a date for when, a number for how many. None for a
    question that asks for nothing that words can tell, or that asks for several things."""
    said: list[Fact] = [f for c in claims for f in c.facts]
    if _WHEN.search(question):
        return True if any(f.kind in ("date", "time", "number") for f in said) else _relative(claims)
    if _HOW_MANY.search(question):
        return (
            None
            if any(f.kind in ("number", "date", "time", "quantity", "negation") for f in said)
            else _relative(claims)
        )
    return None


def off(claims: Sequence[Claim], asked: Asked, evidence: Evidence) -> bool:
    """Without a reader: what a short answer rests on says little of the question, while a sentence that does not
    hold the answer says most of it, and the first refers to nothing before it."""
    if len(claims) != 1 or not claims[0].evidence or len(asked.terms) < 2:
        return False
    if not Reading.of(claims[0].text, evidence.language).stems & asked.terms:
        return False  # a bare name says nothing of what it is said of
    spans = {(s.passage_id, s.start) for s in claims[0].evidence}
    own = [s for s in evidence.sentences if (evidence.ids[s.passage], s.start) in spans]
    said = Reading.of(claims[0].text, evidence.language).stems - asked.terms
    bearing = [s for s in own if said & s.terms] or own
    if any(s.anaphor for s in bearing) or not said:
        return False

    def worth(sentence: Sentence) -> float:
        here = sentence.terms | evidence.head_terms[sentence.passage]
        return sum(evidence.rarity(t) * found(t, here, evidence) for t in asked.terms)

    total = sum(evidence.rarity(t) for t in asked.terms if t in evidence.having or t in evidence.heads_having)
    mine = max(worth(s) for s in bearing) if bearing else 0.0
    best = max((worth(s) for s in evidence.sentences if not said & s.terms), default=0.0)
    return best >= _MOST * total > 0 and best >= _MARGIN * mine


def yes_or_no(question: str) -> bool:
    return bool(_YES_NO.match(question))


_CANDIDATES = 12  # texts that a reader is asked about
_MOST = 0.6  # share of the question's words that the better sentence has
_MARGIN = 3.0  # so many times more than the answer's own
_VAGUE = frozenset(
    [
        "never",
        "always",
        "before",
        "after",
        "during",
        "until",
        "while",
        "since",
        "often",
        "daily",
        "weekly",
        "monthly",
        "early",
        "late",
        "soon",
        "none",
        "every",
        "twice",
        "once",
        "nie",
        "immer",
        "vor",
        "nach",
        "während",
        "bis",
        "seit",
        "täglich",
        "nunca",
        "siempre",
        "antes",
        "después",
        "mientras",
        "jamais",
        "toujours",
        "avant",
        "après",
        "winter",
        "spring",
        "summer",
        "autumn",
        "fall",
        "easter",
        "christmas",
        "morning",
        "evening",
        "night",
        "noon",
        "midnight",
    ]
)


def _relative(claims: Sequence[Reading]) -> bool | None:
    """A time or amount in words ("after the war") may answer; without any it does not."""
    return None if any(x.lower in _VAGUE for c in claims for x in c.lexemes) else False
