"""A text read once: its facts and its content words."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

from denoise_core.text.facts.fact import Fact
from denoise_core.text.facts.read import facts_of
from denoise_core.text.language import language_of
from denoise_core.text.lexemes import Lexeme, lexemes
from denoise_core.text.stems import Word, content


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
        """Readings of short texts are kept: every candidate meets the same windows."""
        return _kept(text, language) if len(text) <= 4000 else _read(text, language)


@lru_cache(maxsize=4096)
def _kept(text: str, language: str) -> Reading:
    return _read(text, language)


def _read(text: str, language: str) -> Reading:
    language = language or language_of(text)
    found = lexemes(text)
    told = facts_of(found, language)
    words = content(found, language)
    names = [(f.start, f.end) for f in told if f.kind == "name"]
    inside = _covered(words, names)
    return Reading(
        text,
        language,
        tuple(found),
        told,
        tuple(words),
        frozenset(w.stem for w in words),
        frozenset(w.stem for w, hidden in zip(words, inside, strict=True) if not hidden),
    )


def _covered(words: list[Word], ranges: list[tuple[int, int]]) -> list[bool]:
    """For each word, in order, whether one of the ranges holds it."""
    edges = sorted(ranges)
    out: list[bool] = []
    n = reach = 0
    for w in words:
        while n < len(edges) and edges[n][0] <= w.start:
            reach = max(reach, edges[n][1])
            n += 1
        out.append(w.end <= reach)
    return out
