"""Passages as sentences that a claim can be near to, each read behind its passage's header.

Everything that is done for all of the evidence costs time that grows with its length.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

from denoise_core.support.records import groups, headline
from denoise_core.text.chunk import sentences
from denoise_core.text.facts.numbers import cardinal
from denoise_core.text.facts.reading import Reading
from denoise_core.text.language import language_of
from denoise_core.text.lexemes import Lexeme, lexemes
from denoise_core.text.stems import content
from denoise_core.types import Passage, Span

_DAY = re.compile(r"(?:^|[ (])(?:\d{1,2}|[IVX]+)\.[ \u00a0]*$")
_KEPT = 20_000  # characters of a passage whose sentences are kept
_NEXT = 0.6  # worth of a word that only the sentence before or behind has


@dataclass(frozen=True, slots=True)
class Sentence:
    """Characters ``[start, end)`` of a passage's text; ``terms`` are its stems and numbers."""

    passage: int
    start: int
    end: int
    terms: frozenset[str]


class Evidence:
    """Passages ready to have claims held against them."""

    def __init__(self, passages: Sequence[Passage]) -> None:
        self.passages = tuple(p for p in passages if p.text.strip() or p.header.strip())
        self.ids = tuple(p.id for p in self.passages)
        self.heads = tuple(headline(p) for p in self.passages)
        self.language = language_of("\n".join(p.text[:400] for p in self.passages)[:4000])
        self.head_terms = [_terms_of(h, self.language) for h in self.heads]
        self.sentences: list[Sentence] = []
        for n, passage in enumerate(self.passages):
            cut = _cut if len(passage.text) <= _KEPT else _cut.__wrapped__
            self.sentences += [Sentence(n, *found) for found in cut(passage.text, self.language)]
        self.having: dict[str, int] = {}
        for sentence in self.sentences:
            for term in sentence.terms:
                self.having[term] = self.having.get(term, 0) + 1
        self.groups = groups(self.passages)
        shown = "\n".join(f"{h}\n{p.text}" for h, p in zip(self.heads, self.passages, strict=True))
        self.reading = Reading.of(shown, self.language)

    def rarity(self, term: str) -> float:
        """How much a term tells: more, the fewer sentences have it; 1 for one that none has."""
        n = len(self.sentences)
        return math.log(1 + n / max(1, self.having.get(term, 0))) / math.log(1 + n) if n > 1 else 1.0

    def nearest(self, said: frozenset[str], among: frozenset[int] | None = None) -> tuple[float, Sentence | None]:
        """The sentence that says most of these terms with its header and its neighbours, and the share, 0 to 1."""
        total = sum(self.rarity(t) for t in said)
        best: tuple[float, Sentence | None] = (0.0, None)
        for i, sentence in enumerate(self.sentences):
            if among is not None and sentence.passage not in among:
                continue
            own = sentence.terms | self.head_terms[sentence.passage]
            beside = frozenset().union(
                *(s.terms for s in self.sentences[max(0, i - 1) : i + 2] if s.passage == sentence.passage)
            )
            got = sum(self.rarity(t) * (1.0 if t in own else _NEXT) for t in said if t in own or t in beside)
            if got > best[0] * total:
                best = (got / total, sentence)
        return best

    def span(self, sentence: Sentence) -> Span:
        return Span(self.ids[sentence.passage], sentence.start, sentence.end)

    def text(self, sentence: Sentence) -> str:
        return self.passages[sentence.passage].text[sentence.start : sentence.end]


def terms(found: Sequence[Lexeme], language: str) -> list[tuple[str, int, int]]:
    """Stems of content words, and numbers without their marks, each with its characters."""
    out = [(w.stem, w.start, w.end) for w in content(found, language)]
    for x in found:
        if x.shape == "number":
            out.append((x.text.replace(",", "").replace(".", ""), x.start, x.end))
        elif x.shape == "word" and (value := cardinal(x.lower)) is not None:
            out.append((str(value), x.start, x.end))
    return out


def terms_of(text: str, language: str) -> frozenset[str]:
    """Stems and numbers of a text."""
    return frozenset(t for t, _, _ in terms(lexemes(text), language)) if text else frozenset()


_terms_of = lru_cache(maxsize=1024)(terms_of)


@lru_cache(maxsize=512)
def _cut(text: str, language: str) -> tuple[tuple[int, int, frozenset[str]], ...]:
    """The sentences of a passage with their terms. A line break that only folds a long line is none."""
    found = []
    for start, end in sentence_places(unfolded(text), language):
        part = text[start:end].rstrip()
        if part.strip():
            found.append((start, start + len(part), terms_of(part, language)))
    return tuple(found)


def sentence_places(text: str, language: str) -> list[tuple[int, int]]:
    """Sentences as characters; a German day or ordinal with its point ("am 9. Oktober") ends none."""
    known = language if language in ("de", "fr", "es", "zh") else "en"
    out: list[tuple[int, int]] = []
    for span in sentences(Passage(text, "e"), language=known):
        start = span.start
        if out and language == "de" and _DAY.search(text[max(out[-1][0], start - 8) : start]):
            start = out.pop()[0]
        out.append((start, span.end))
    return out


def unfolded(text: str) -> str:
    """The text with a blank for each line break inside a sentence, all places as they were."""
    if "\n" not in text:
        return text
    out = list(text)
    for i, c in enumerate(text):
        if c != "\n" or not 0 < i < len(text) - 1:
            continue
        before, after = text[i - 1], text[i + 1]
        if before in "-‐\u00ad" or ((before.isalpha() or before == ",") and after.islower()):
            out[i] = " "
    return "".join(out)
