"""Passages as an index of sentences, to find the one closest to a claim.

Each sentence is read behind its passage's header. What is done for all of the evidence
takes time that grows with its length.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

from denoise_core.support.answers import join_folded_lines, sentence_ranges
from denoise_core.support.judging import Quote
from denoise_core.support.quoting import passage_header
from denoise_core.text.facts.numbers import parse_cardinal
from denoise_core.text.language import detect_language
from denoise_core.text.lexemes import tokenize_text
from denoise_core.text.stems import content_stems
from denoise_core.text.words import split_words
from denoise_core.types import Passage, Span

_NEIGHBOUR_WEIGHT = 0.6  # of a term that only an adjacent sentence has
_MIN_QUOTATION_WORDS = 3


@dataclass(frozen=True, slots=True)
class Sentence:
    """Characters ``[start, end)`` of a passage's text, with its stems and numbers.

    ``passage`` is the passage's index.
    """

    passage: int
    start: int
    end: int
    terms: frozenset[str]


class EvidenceIndex:
    """Passages split into sentences that claims are compared with."""

    def __init__(self, passages: Sequence[Passage]) -> None:
        self.passages = tuple(
            passage
            for passage in passages
            if passage.text.strip() or passage.header.strip()
        )
        self.ids = tuple(passage.id for passage in self.passages)
        self.headers = tuple(passage_header(passage) for passage in self.passages)
        sample = "\n".join(passage.text[:400] for passage in self.passages)
        self.language = detect_language(sample[:4000])
        self.header_terms = [
            content_terms(header, self.language) for header in self.headers
        ]
        self.sentences: list[Sentence] = []
        for index, passage in enumerate(self.passages):
            for sentence in _split_sentences(passage.text, self.language):
                self.sentences.append(Sentence(index, *sentence))
        self.sentence_counts: Counter[str] = Counter()
        for indexed in self.sentences:
            self.sentence_counts.update(indexed.terms)
        texts = []
        for header, passage in zip(self.headers, self.passages, strict=True):
            texts.append(f"{header}\n{passage.text}")
        self.text = "\n".join(texts)

    def rarity(self, term: str) -> float:
        """The weight of a term: higher, the fewer sentences have it; at most 1."""
        count = len(self.sentences)
        if count <= 1:
            return 1.0
        sentence_count = max(1, self.sentence_counts[term])
        return math.log(1 + count / sentence_count) / math.log(1 + count)

    def closest_sentence(
        self, terms: frozenset[str], passage_indexes: frozenset[int] | None = None
    ) -> tuple[float, Sentence | None]:
        """Find the sentence that shares most of the terms.

        Args:
            terms: The terms of a claim.
            passage_indexes: The passages to search; None for all.

        Returns:
            The weighted share of the terms, 0 to 1, that the sentence has with its
            header and the sentences next to it, and the sentence.
        """
        weights = {term: self.rarity(term) for term in terms}
        total_weight = sum(weights.values())
        best_share: float = 0.0
        best_sentence: Sentence | None = None
        for index, sentence in enumerate(self.sentences):
            if passage_indexes is not None and sentence.passage not in passage_indexes:
                continue
            full_terms = sentence.terms | self.header_terms[sentence.passage]
            neighbour_terms = (terms & self._adjacent_terms(index)) - full_terms
            shared = sum(weights[term] for term in terms & full_terms)
            neighbour_weight = sum(weights[term] for term in neighbour_terms)
            shared += _NEIGHBOUR_WEIGHT * neighbour_weight
            if shared > best_share * total_weight:
                best_share, best_sentence = shared / total_weight, sentence
        return best_share, best_sentence

    def _adjacent_terms(self, index: int) -> frozenset[str]:
        """The terms of a sentence and of those next to it in its passage."""
        passage_index = self.sentences[index].passage
        terms: frozenset[str] = frozenset()
        for sentence in self.sentences[max(0, index - 1) : index + 2]:
            if sentence.passage == passage_index:
                terms |= sentence.terms
        return terms

    def find_quotation(self, text: str) -> Quote | None:
        """Find a passage that has the text word for word.

        None when no passage has it, or when it has fewer than three words.
        """
        if len(split_words(text)) < _MIN_QUOTATION_WORDS:
            return None
        for passage in self.passages:
            start = passage.text.find(text)
            if start >= 0:
                return Quote(Span(passage.id, start, start + len(text)), text)
        return None

    def to_quote(self, sentence: Sentence) -> Quote:
        """A sentence as a quote."""
        start, end = sentence.start, sentence.end
        passage = self.passages[sentence.passage]
        return Quote(Span(passage.id, start, end), passage.text[start:end])


@lru_cache(maxsize=1024)
def content_terms(text: str, language: str) -> frozenset[str]:
    """Stems of a text's content words, and its numbers as plain digits."""
    lexemes = tokenize_text(text)
    terms = {word.stem for word in content_stems(lexemes, language)}
    for lexeme in lexemes:
        if lexeme.kind == "number":
            terms.add(lexeme.text.replace(",", "").replace(".", ""))
        elif lexeme.kind == "word":
            number = parse_cardinal(lexeme.folded_text)
            if number is not None:
                terms.add(str(number))
    return frozenset(terms)


@lru_cache(maxsize=128)
def _split_sentences(
    text: str, language: str
) -> tuple[tuple[int, int, frozenset[str]], ...]:
    """The sentences of a passage with their terms, as ``(start, end, terms)``.

    A line break that only folds a long line ends no sentence.
    """
    sentences = []
    for start, end in sentence_ranges(join_folded_lines(text), language):
        sentence_text = text[start:end].rstrip()
        if sentence_text.strip():
            terms = content_terms(sentence_text, language)
            sentences.append((start, start + len(sentence_text), terms))
    return tuple(sentences)
