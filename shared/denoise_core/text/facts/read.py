"""All facts of a text, in order."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

from denoise_core.text.facts.fact import Fact
from denoise_core.text.facts.kinds.dates import dates
from denoise_core.text.facts.kinds.names import names
from denoise_core.text.facts.kinds.numbers import numbers
from denoise_core.text.language import language_of
from denoise_core.text.lexemes import Lexeme, lexemes

_KEPT = 4000  # characters of a text whose facts are kept


def facts(text: str, *, language: str = "") -> tuple[Fact, ...]:
    """Numbers, dates, times, names, and numerals of names of ``text``, by their place. Time grows with
    its length.

    ``language`` is an ISO 639-1 code that decides how numbers and months are read (English, German, French,
    Spanish); by default the text's small words tell it.
    """
    return _kept(text, language) if len(text) <= _KEPT else facts_of(lexemes(text), language or language_of(text))


@lru_cache(maxsize=2048)
def _kept(text: str, language: str) -> tuple[Fact, ...]:
    return facts_of(lexemes(text), language or language_of(text))


def facts_of(found: Sequence[Lexeme], language: str) -> tuple[Fact, ...]:
    """As `facts`, of lexemes that were read already."""
    dated, used = dates(found, language)
    named = names(found, language, used)
    ends = {f.end for f in named if f.kind == "numeral"}
    counted = [n for n in numbers(found, language, used) if n.end not in ends]
    return tuple(sorted((*dated, *named, *counted), key=lambda f: (f.start, f.end, f.kind)))
