"""What code alone can say of a claim: which of its facts the evidence does not have, or has of another record.

Words alone never say that a claim is supported: that the same words stand near each other does not mean that the
same is said. They say what contradicts it, and where the nearest words stand.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import lru_cache
from typing import TypeAlias

from denoise_core.running.effects import Flow
from denoise_core.support.evidence import Evidence, terms_of
from denoise_core.support.judging import Claim, FlowJudge, Judged, Judgement, Quote
from denoise_core.support.records import Field, Record, keys_of
from denoise_core.text.facts.dates import bears_out
from denoise_core.text.facts.fact import Difference, Fact
from denoise_core.text.facts.reading import Reading, compare, standing
from denoise_core.text.lexemes import lexemes
from denoise_core.types import Passage, Span

_SAME = 0.4
"""Share of a claim's words from which on a sentence speaks of the same: its dates decide where the claim has
another. Of 2,392 claims labelled by people (`make bench ONLY=facts`) 5 right and 24 wrong. A number or name that
stands nowhere does not decide (84 and 159, 213 and 363): it is named."""
NEAR = 0.5  # share of a claim's words from which on a sentence is shown as the nearest
INSTALL = "its words stand in the evidence; no model judged it: give judge="
_SPEAKERS = frozenset(("i", "i'm", "i've", "i'd", "i'll", "we", "we've", "ich", "wir", "je", "j'ai", "nous", "yo"))
SPEAKS = "it speaks of the one who answers; the evidence cannot tell"
_Differs: TypeAlias = tuple[Difference, ...]
_SHOWN = 80  # characters of a value that is said in words


class Words(FlowJudge):
    """Judges by what code can prove: never supported; unsupported where a number, date or denial differs, or where
    a value stands in another record than the rest of the claim; else unknown, with the nearest words."""

    @property
    def id(self) -> str:
        return "words"

    def flow(self, question: str, claims: Sequence[Claim], passages: Sequence[Passage]) -> Flow[Judgement]:
        evidence = Evidence(passages)
        return Judgement(tuple(hold(question, c, evidence) for c in claims))
        yield


def hold(question: str, claim: Claim, evidence: Evidence) -> Judged:
    """One claim against the evidence."""
    language, whole = evidence.language, claim.whole
    reading, asked = Reading.of(whole, language), terms_of(question, language)
    said = terms_of(whole, language)
    share, sentence = evidence.nearest(said - asked or said)
    near = () if sentence is None else (evidence.quote(sentence),)
    own = Reading.of(whole).language

    def judged(
        supported: bool | None, kind: str, why: str, quotes: tuple[Quote, ...] = (), differs: _Differs = ()
    ) -> Judged:
        return Judged(claim.text, claim.start, claim.end, supported, None, quotes, differs, kind, why)

    if own and language and own != language and share < NEAR:
        return judged(None, "language", "it is in another language than the evidence")
    if claim.kind == "polarity":
        return judged(None, "bare", "words cannot tell whether the evidence says yes or no", near)
    if speaks(whole):
        return judged(None, "action", SPEAKS, near)
    other = of_another(reading, evidence)
    if other is not None:
        told, quote = other
        why = "the evidence says this of another record"
        return judged(False, "record", why, (quote,), (_placed(told, claim),))
    known = Reading.of(question, language).facts
    found = [d for d in compare(reading, evidence.reading, known) if d.kind != "name"]
    differs = tuple(_placed(d, claim) for d in found)
    same, nearest = evidence.nearest(said)
    if nearest is not None and same >= _SAME:
        quote = evidence.quote(nearest)
        beside = Reading.of(f"{evidence.heads[nearest.passage]}\n{quote.text}", language)
        against = next((p for d, p in zip(found, differs, strict=True) if _otherwise(d, reading, beside)), None)
        if against is not None:
            return judged(False, "date", str(against), (replace(quote, relation="contradicts"),), differs)
    if differs:
        return judged(None, differs[0].kind, "; ".join(str(d) for d in differs[:3]), near, differs)
    if share >= NEAR:
        return judged(None, "words", INSTALL, near)
    return judged(None, "far", "no passage says it in these words; give judge= to have it read")


def _otherwise(told: Difference, claim: Reading, near: Reading) -> bool:
    """A date where the nearest sentence has dates, none of which leaves room for it: not a part of it, either."""
    said = next((f.norm for f in claim.facts if f.kind == told.kind == "date" and f.start == told.start), "")
    dates = [f.norm for f in near.facts if f.kind == "date"]
    return bool(said and dates) and not any(bears_out(said, d) or bears_out(d, said) for d in dates)


def speaks(text: str) -> bool:
    """It begins by what the one who answers did or does, which no evidence can tell."""
    return any(x.lower in _SPEAKERS for x in lexemes(text[:100])[:3])


def of_another(claim: Reading, evidence: Evidence) -> tuple[Difference, Quote] | None:
    """A value of the claim that stands in a record which fits the rest of the claim less than a sibling does, or
    under another column than the claim names."""
    items, language = _items(claim), evidence.language
    for group in evidence.groups:
        fits = [[_says(item, f"{r.label}\n{r.text}", language) for item in items] for r in group]
        telling = [n for n in range(len(items)) if not all(f[n] for f in fits)]  # what all say tells none apart
        for fact in claim.facts:
            having = [n for n, r in enumerate(group) if any(_in(fact, claim, f.value, language) for f in r.fields)]
            if not having or len(having) == len(group):
                continue
            rest = [n for n in telling if not (items[n][0] < fact.end and fact.start < items[n][1])]
            fit = [sum(f[n] for n in rest) for f in fits]
            best, own = max(range(len(group)), key=lambda n: fit[n]), max(having, key=lambda n: fit[n])
            record = group[best] if fit[best] > fit[own] else group[own]
            if fit[best] > fit[own]:
                field = next((f for f in record.fields if _rival(fact, f)), record.fields[0])
            elif (column := _column(fact, claim, record, language)) is not None:
                field = column
            else:
                continue
            said, stands = claim.text[fact.start : fact.end], field.value if len(field.value) <= _SHOWN else ""
            span = Span(evidence.ids[record.passage], field.start, field.end)
            told = Difference("record", said, stands, fact.start, fact.end, field.start, field.end)
            return told, Quote(span, field.value, "contradicts")
    return None


def _items(claim: Reading) -> list[tuple[int, int, str | Fact]]:
    """The claim's words, as keys, and its numbers and dates, each with its characters."""
    facts = [f for f in claim.facts if f.kind != "name"]
    out: list[tuple[int, int, str | Fact]] = [(f.start, f.end, f) for f in facts]
    at = 0
    for raw in claim.text.split():
        at = claim.text.index(raw, at)
        if not any(f.start < at + len(raw) and at < f.end for f in facts):
            out += [(at, at + len(raw), key) for key in keys_of(raw)]
        at += len(raw)
    return out


def _says(item: tuple[int, int, str | Fact], text: str, language: str) -> bool:
    told = item[2]
    return told in _keys(text) if isinstance(told, str) else bool(standing(told, Reading.of(text, language).facts))


def _in(fact: Fact, claim: Reading, value: str, language: str) -> bool:
    """A value bears the fact out, or has its figures or words: what a header says of them is not in it."""
    if standing(fact, Reading.of(value, language).facts):
        return True
    keys = keys_of(claim.text[fact.start : fact.end])
    wanted = {k for k in keys if fact.kind == "name" or any(c.isdigit() for c in k)}
    return bool(wanted) and wanted <= _keys(value)


def _rival(fact: Fact, field: Field) -> bool:
    return any(f.kind == fact.kind for f in Reading.of(field.value).facts)


def _column(fact: Fact, claim: Reading, record: Record, language: str) -> Field | None:
    """In a record whose columns are things of one kind (zones, models), the field that the claim names, where the
    value stands in another."""
    said = _keys(claim.text)
    named = [(len(said & _keys(f.name)), f) for f in record.fields if f.name]
    mine = [n for n, f in named if _in(fact, claim, f.value, language)]
    if not mine:
        return None
    most, field = max(named, key=lambda x: x[0])
    said_too = any(_in(f, claim, field.value, language) for f in claim.facts)
    return field if most > max(mine) and _rival(fact, field) and not said_too else None


@lru_cache(maxsize=2048)
def _keys(text: str) -> frozenset[str]:
    return frozenset(keys_of(text))


def _placed(told: Difference, claim: Claim) -> Difference:
    """With places in the answer: where its words stand in the claim's characters, else the whole claim."""
    at = claim.text.find(told.said)
    first, last = (claim.start + at, claim.start + at + len(told.said)) if at >= 0 else (claim.start, claim.end)
    return replace(told, start=first, end=last)
