"""A text read once: its facts, its content words, its clauses, and which words stand under a negation."""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass
from functools import lru_cache

from denoise_core.text.facts.fact import Fact
from denoise_core.text.facts.read import facts_of
from denoise_core.text.language import language_of
from denoise_core.text.lexemes import Lexeme, lexemes
from denoise_core.text.stems import Word, content
from denoise_core.text.wordlists import listed

_BREAKS = frozenset(",;.!?。，；！？—–")
_JOINS = listed(
    """
    and while whereas but und während aber et tandis mais y e mientras pero
    """
)


@dataclass(frozen=True, slots=True)
class Reading:
    """``clauses`` are the ends (in characters) of the pieces between marks and conjunctions; ``sentences`` those
    of the pieces between full stops. ``loose`` are the stems of words that are part of no name."""

    text: str
    language: str
    lexemes: tuple[Lexeme, ...]
    facts: tuple[Fact, ...]
    words: tuple[Word, ...]
    stems: frozenset[str]
    loose: frozenset[str]
    denied: frozenset[str]
    asserted: frozenset[str]
    clauses: tuple[int, ...]
    sentences: tuple[int, ...]

    @staticmethod
    def of(text: str, language: str = "") -> Reading:
        """Readings of short texts are kept: every candidate meets the same windows."""
        return _kept(text, language) if len(text) <= 4000 else _read(text, language)

    def clause(self, at: int) -> int:
        """The number of the clause that the character is in."""
        return bisect_right(self.clauses, at)

    def sentence(self, at: int) -> int:
        return bisect_right(self.sentences, at)

    def of_kind(self, *kinds: str) -> list[Fact]:
        return [f for f in self.facts if f.kind in kinds]

    def stems_in(self, scope: tuple[int, int] | None) -> set[str]:
        """Stems of the content words within a range of characters."""
        return {w.stem for w in self.words if scope and scope[0] <= w.start and w.end <= scope[1]}


@lru_cache(maxsize=4096)
def _kept(text: str, language: str) -> Reading:
    return _read(text, language)


def _read(text: str, language: str) -> Reading:
    language = language or language_of(text)
    found = lexemes(text)
    told = facts_of(found, language)
    words = content(found, language)
    names = [(f.start, f.end) for f in told if f.kind == "name"]
    scopes = [f.scope for f in told if f.kind == "negation" and f.scope]
    inside = _covered(words, names)
    under = _covered(words, scopes)
    clauses, sentences = _cuts(text, found)
    return Reading(
        text,
        language,
        tuple(found),
        told,
        tuple(words),
        frozenset(w.stem for w in words),
        frozenset(w.stem for w, hidden in zip(words, inside, strict=True) if not hidden),
        frozenset(w.stem for w, denied in zip(words, under, strict=True) if denied),
        frozenset(w.stem for w, denied in zip(words, under, strict=True) if not denied),
        clauses,
        sentences,
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


def _cuts(text: str, found: list[Lexeme]) -> tuple[tuple[int, ...], tuple[int, ...]]:
    clauses: list[int] = []
    sentences: list[int] = []
    for i, x in enumerate(found):
        last = i + 1 == len(found)
        gap = last or text[x.end : x.end + 1].isspace() or x.text in "。！？；，、"
        if x.text in _BREAKS and gap:
            initial = x.text == "." and i and found[i - 1].end == x.start and len(found[i - 1].text) <= 2
            if initial and not last and not found[i + 1].line:
                continue
            clauses.append(x.end)
            if x.text in ".!?。！？":
                sentences.append(x.end)
        elif x.lower in _JOINS and x.shape == "word":
            clauses.append(x.start)
        elif x.line and i:
            clauses.append(x.start)
            sentences.append(x.start)
    return tuple(clauses), tuple(sentences)
