"""Passages as sentences that a claim can be near to, each read behind its passage's header.

Everything that is done for all of the evidence costs time that grows with its length.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

from denoise_core.support.answers import sentence_ranges, join_folded_lines
from denoise_core.support.judging import Quote
from denoise_core.support.quoting import passage_header
from denoise_core.text.facts.numbers import parse_cardinal
from denoise_core.text.language import detect_language
from denoise_core.text.lexemes import tokenize_text
from denoise_core.text.stems import content_stems
from denoise_core.text.words import split_words
from denoise_core.types import Passage, Span

_NEXT = 0.6  # worth of a word that only the sentence before or behind has
_WORDS = 3  # of a quotation, at least


@dataclass(frozen=True, slots=True)
class Sentence:
    """Characters ``[start, end)`` of a passage's text; ``terms`` are its stems and numbers."""

    passage: int
    start: int
    end: int
    terms: frozenset[str]


class EvidenceIndex:
    """Passages cut into sentences that claims are compared with."""

    def __init__(self, passages: Sequence[Passage]) -> None:
        self.passages = tuple(p for p in passages if p.text.strip() or p.header.strip())
        self.ids = tuple(p.id for p in self.passages)
        self.headers = tuple(passage_header(p) for p in self.passages)
        self.language = detect_language(
            "\n".join(p.text[:400] for p in self.passages)[:4000]
        )
        self.header_terms = [content_terms(h, self.language) for h in self.headers]
        cut = [_cut(p.text, self.language) for p in self.passages]
        self.sentences = [
            Sentence(n, *found) for n, own in enumerate(cut) for found in own
        ]
        self.sentence_counts = Counter(t for s in self.sentences for t in s.terms)
        self.text = "\n".join(
            f"{h}\n{p.text}" for h, p in zip(self.headers, self.passages, strict=True)
        )

    def rarity(self, term: str) -> float:
        """How much a term tells: more, the fewer sentences have it; 1 for one that none has."""
        count = len(self.sentences)
        if count <= 1:
            return 1.0
        return math.log(1 + count / max(1, self.sentence_counts[term])) / math.log(
            1 + count
        )

    def nearest(
        self, terms: frozenset[str], among: frozenset[int] | None = None
    ) -> tuple[float, Sentence | None]:
        """The share of these terms, 0 to 1, that the nearest sentence has with its header and its neighbours, and
        that sentence. ``among`` are the passages to look in, by place; None for all."""
        weights = {term: self.rarity(term) for term in terms}
        total = sum(weights.values())
        best: tuple[float, Sentence | None] = (0.0, None)
        for at, sentence in enumerate(self.sentences):
            if among is not None and sentence.passage not in among:
                continue
            own = sentence.terms | self.header_terms[sentence.passage]
            near = self._neighbouring_terms(at)
            shared = sum(weights[t] for t in terms & own)
            shared += _NEXT * sum(weights[t] for t in (terms & near) - own)
            if shared > best[0] * total:
                best = (shared / total, sentence)
        return best

    def _neighbouring_terms(self, at: int) -> frozenset[str]:
        """The terms of the sentences right before and behind one, in its passage."""
        passage = self.sentences[at].passage
        neighbours = self.sentences[max(0, at - 1) : at + 2]
        return frozenset().union(*(s.terms for s in neighbours if s.passage == passage))

    def quotation(self, text: str) -> Quote | None:
        """Where a passage has the text word for word; None where none has, or it has fewer than three words."""
        if len(split_words(text)) < _WORDS:
            return None
        for passage in self.passages:
            at = passage.text.find(text)
            if at >= 0:
                return Quote(Span(passage.id, at, at + len(text)), text)
        return None

    def quote(self, sentence: Sentence) -> Quote:
        """A sentence as a quote."""
        start, end = sentence.start, sentence.end
        passage = self.passages[sentence.passage]
        return Quote(Span(passage.id, start, end), passage.text[start:end])


@lru_cache(maxsize=1024)
def content_terms(text: str, language: str) -> frozenset[str]:
    """Stems of a text's content words, and its numbers without their marks."""
    parts = tokenize_text(text)
    digits = {
        x.text.replace(",", "").replace(".", "") for x in parts if x.kind == "number"
    }
    spelled = {parse_cardinal(x.folded_text) for x in parts if x.kind == "word"} - {
        None
    }
    stems = {word.stem for word in content_stems(parts, language)}
    return frozenset(stems | digits | {str(value) for value in spelled})


@lru_cache(maxsize=128)
def _cut(text: str, language: str) -> tuple[tuple[int, int, frozenset[str]], ...]:
    """The sentences of a passage with their terms. A line break that only folds a long line is none."""
    cut = []
    for start, end in sentence_ranges(join_folded_lines(text), language):
        part = text[start:end].rstrip()
        if part.strip():
            cut.append((start, start + len(part), content_terms(part, language)))
    return tuple(cut)
