"""A text read once: its facts and its content words."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

from denoise_core.text.facts.dates import dates
from denoise_core.text.facts.fact import Fact
from denoise_core.text.facts.names import names
from denoise_core.text.facts.numbers import numbers
from denoise_core.text.language import language_of
from denoise_core.text.lexemes import Lexeme, lexemes
from denoise_core.text.stems import Word, content

_KEPT = 4000  # characters of a text whose reading is kept: every claim meets the same windows


def facts(text: str, *, language: str = "") -> tuple[Fact, ...]:
    """Numbers, dates and names of ``text``, by their place. Time grows with its length.

    ``language`` is an ISO 639-1 code that decides how numbers and dates are read (English, German, French,
    Spanish); by default the text's small words tell it.
    """
    return Reading.of(text, language).facts


@dataclass(frozen=True, slots=True)
class Reading:
    """``loose`` are the stems of words that are part of no name."""

    text: str
    language: str
    lexemes: tuple[Lexeme, ...]
    facts: tuple[Fact, ...]
    words: tuple[Word, ...]
    stems: frozenset[str]
    loose: frozenset[str]

    @staticmethod
    def of(text: str, language: str = "") -> Reading:
        return (_read if len(text) <= _KEPT else _read.__wrapped__)(text, language)


@lru_cache(maxsize=4096)
def _read(text: str, language: str) -> Reading:
    language = language or language_of(text)
    found = lexemes(text)
    dated, used = dates(found, language)
    named = list(names(found, language, used))
    told = sorted((*dated, *named, *numbers(found, language, used)), key=lambda f: (f.start, f.end, f.kind))
    words = content(found, language)
    hidden = {at for f in named for at in range(f.start, f.end)}
    stems = frozenset(w.stem for w in words)
    loose = frozenset(w.stem for w in words if w.start not in hidden)
    return Reading(text, language, tuple(found), tuple(told), tuple(words), stems, loose)
