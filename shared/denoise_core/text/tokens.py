"""Two writings of one thing as the same words: what texts are compared by word for word.

A token is a lexeme, or the piece of one between hyphens; a number, date or time is what `denoise_core.text.facts`
reads there, in one form (*twenty-one* is 21, *March 5, 1990* is *5 March 1990*). Which words are names and which
deny is taken from the facts, too. `words` counts spelled words, as a search engine does, `stems` compares their
stems; a token says what a word counts as.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal

from denoise_core.text.facts.fact import Fact
from denoise_core.text.facts.kinds.numbers import plain, readings
from denoise_core.text.facts.kinds.units import MONEY_SIGNS
from denoise_core.text.facts.read import facts_of
from denoise_core.text.lexemes import Lexeme, lexemes
from denoise_core.text.wordlists import CONTRACTIONS, EXCEPTIONS, FUNCTION_WORDS

Kind = Literal["number", "name", "negation", "word", "function"]

_KEPT = 4000  # characters of a text whose tokens are kept: each sentence is held against several
_SIGN = re.compile(r"[%$€£¥₹°±<>=≤≥]")
_PUNCTUATION = re.compile(r"[!-/:-@\[-`{-¿‐-‧‹-⁞×÷、。，！？；：（）《》「」『』【】؟،؛।]")
_MEASURED = frozenset(("number", "date", "time"))


@dataclass(frozen=True, slots=True)
class Token:
    """``norm`` is what is compared; the characters are ``[start, end)`` of the text, for the parts of a date
    those of the whole of it."""

    norm: str
    kind: Kind
    start: int
    end: int


def tokens(text: str, language: str = "en") -> list[Token]:
    """The words, numbers and signs of ``text``, without punctuation. Time grows with its length.

    ``language`` is an ISO 639-1 code by which numbers and dates are read; two texts are compared in one.

    >>> [t.norm for t in tokens("On March 5, 1990 it didn't cost $3.2 million.")]
    ['on', '5', 'month3', '1990', 'it', 'did', 'not', 'cost', '$', '3200000']
    """
    return list(_kept(text, language) if len(text) <= _KEPT else _read(text, language))


def is_content(token: Token) -> bool:
    return token.kind != "function"


@lru_cache(maxsize=4096)
def _kept(text: str, language: str) -> tuple[Token, ...]:
    return tuple(_read(text, language))


def _read(text: str, language: str) -> Iterator[Token]:
    found = lexemes(text)
    told = facts_of(found, language)
    measured = {f.start: f for f in told if f.kind in _MEASURED and not f.norm.startswith("w")}  # no weekdays
    denying = {f.start for f in told if f.kind == "negation"} | {x.start for x in found if x.lower in EXCEPTIONS}
    named = _starts_in(found, [f for f in told if f.kind == "name"])
    at = 0  # the end of the last fact
    for x in found:
        if x.start < at:
            continue
        if fact := measured.get(x.start):
            at = fact.end
            yield from _date(fact) if fact.kind == "date" else _number(fact)
        elif x.shape == "mark":
            if _SIGN.match(x.text):
                yield Token(x.text, "number", x.start, x.end)
            elif not _PUNCTUATION.match(x.text):
                yield Token(x.text, "word", x.start, x.end)
        elif x.shape == "number":
            values = readings(x.text, language)
            yield Token(plain(values[0]) if values else x.lower, "number", x.start, x.end)
        else:
            yield from _word(x, x.start in named, x.start in denying)


def _date(fact: Fact) -> Iterator[Token]:
    """Day, month and year, those that are said; what is no such date in one piece."""
    year, *rest = fact.norm.split("-")
    if not year or (rest and not rest[0].isdigit()):
        yield Token(fact.norm, "number", fact.start, fact.end)
        return
    parts = [str(int(day)) for day in rest[1:]] + [f"month{int(month)}" for month in rest[:1]]
    for part in (*parts, *([year] if year != "????" else [])):
        yield Token(part, "number", fact.start, fact.end)


def _number(fact: Fact) -> Iterator[Token]:
    money = fact.unit in MONEY_SIGNS
    if money:
        yield Token(fact.unit, "number", fact.start, fact.end)
    yield Token(fact.norm, "number", fact.start, fact.end)
    if fact.unit and not money:
        share = fact.unit in ("%", "percent", "prozent", "pct", "pourcent")
        yield Token("%" if share else fact.unit, "number" if share else "word", fact.start, fact.end)


def _word(x: Lexeme, named: bool, denies: bool) -> Iterator[Token]:
    if x.lower in CONTRACTIONS or x.lower.endswith("n't"):
        said = CONTRACTIONS.get(x.lower) or (x.lower[:-3], "not")
        yield Token(said[0], "function" if said[0] in FUNCTION_WORDS else "word", x.start, x.end)
        yield Token(said[1], "negation", x.start, x.end)
        return
    parts = x.lower.split("-") if not denies else [x.lower]
    at = x.start
    for part in parts:
        end = at + len(part) if len(parts) > 1 else x.end
        norm = part.removesuffix("'s").strip("'")
        if norm:
            yield Token(norm, _kind(norm, named, denies), at, end)
        at = end + 1


def _kind(norm: str, named: bool, denies: bool) -> Kind:
    if denies:
        return "negation"
    if any(c.isdigit() for c in norm):
        return "number"
    if named:
        return "name"
    return "function" if norm in FUNCTION_WORDS else "word"


def _starts_in(found: Sequence[Lexeme], ranges: Sequence[Fact]) -> set[int]:
    """The starts of the lexemes that lie in one of the ranges, which come in order."""
    out: set[int] = set()
    n = 0
    for x in found:
        while n < len(ranges) and ranges[n].end <= x.start:
            n += 1
        if n < len(ranges) and ranges[n].start <= x.start:
            out.add(x.start)
    return out
