"""Passages as an index of sentences, to find the one closest to a claim.

Each sentence is read behind its passage's header. What is done for all of the evidence
takes time that grows with its length.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from denoise_core.support.answers import join_folded_lines, sentence_ranges
from denoise_core.support.judging import Quote
from denoise_core.support.quoting import passage_header
from denoise_core.text.facts.numbers import parse_cardinal
from denoise_core.text.language import detect_language
from denoise_core.text.lexemes import tokenize_text
from denoise_core.text.stems import content_stems
from denoise_core.text.words import split_words
from denoise_core.types import Passage, Span
from denoise_core.weighted_cache import cache_by_bytes

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
        self.passages = tuple(filter(has_words, passages))
        self.ids = tuple(passage.id for passage in self.passages)
        self.headers = tuple(map(passage_header, self.passages))
        samples = [passage.text[:400] for passage in self.passages]
        sample_text = "\n".join(samples)
        self.language = detect_language(sample_text[:4000])
        self.header_terms: list[frozenset[str]] = []
        for header in self.headers:
            header_terms = content_terms(header, self.language)
            self.header_terms.append(header_terms)
        self.sentences: list[Sentence] = []
        self.sentence_counts: Counter[str] = Counter()
        for index, passage in enumerate(self.passages):
            for start, end, terms in _split_sentences(passage.text, self.language):
                sentence = Sentence(index, start, end, terms)
                self.sentences.append(sentence)
                self.sentence_counts.update(terms)
        full_texts = []
        for header, passage in zip(self.headers, self.passages, strict=True):
            full_text = f"{header}\n{passage.text}"
            full_texts.append(full_text)
        self.text = "\n".join(full_texts)

    def rarity(self, term: str) -> float:
        """The weight of a term: higher, the fewer sentences have it; at most 1."""
        count = len(self.sentences)
        if count <= 1:
            return 1.0
        sentence_count = max(1, self.sentence_counts[term])
        term_weight = math.log(1 + count / sentence_count)
        highest_weight = math.log(1 + count)
        return term_weight / highest_weight

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
            passage_index = sentence.passage
            if passage_indexes is not None and passage_index not in passage_indexes:
                continue
            full_terms = sentence.terms | self.header_terms[passage_index]
            adjacent_terms = terms & self._adjacent_terms(index)
            neighbour_terms = adjacent_terms - full_terms
            common_weight = sum(weights[term] for term in terms & full_terms)
            neighbour_weight = sum(weights[term] for term in neighbour_terms)
            common_weight += _NEIGHBOUR_WEIGHT * neighbour_weight
            if common_weight > best_share * total_weight:
                best_share = common_weight / total_weight
                best_sentence = sentence
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
                end = start + len(text)
                span = Span(passage.id, start, end)
                return Quote(span, text)
        return None

    def to_quote(self, sentence: Sentence) -> Quote:
        """A sentence as a quote."""
        passage = self.passages[sentence.passage]
        span = Span(passage.id, sentence.start, sentence.end)
        sentence_text = passage.text[sentence.start : sentence.end]
        return Quote(span, sentence_text)


def has_words(passage: Passage) -> bool:
    """Whether its text or its header says anything."""
    has_text = bool(passage.text.strip())
    return has_text or bool(passage.header.strip())


@cache_by_bytes("terms", 8 * 2**20, bytes_per_character=10)
def content_terms(text: str, language: str) -> frozenset[str]:
    """Stems of a text's content words, and its numbers as plain digits."""
    lexemes = tokenize_text(text)
    terms = {word.stem for word in content_stems(lexemes, language)}
    for lexeme in lexemes:
        if lexeme.kind == "number":
            plain_digits = lexeme.text.replace(",", "").replace(".", "")
            terms.add(plain_digits)
        elif lexeme.kind == "word":
            number = parse_cardinal(lexeme.folded_text)
            if number is not None:
                terms.add(str(number))
    return frozenset(terms)


@cache_by_bytes("sentences", 16 * 2**20, bytes_per_character=40)
def _split_sentences(
    text: str, language: str
) -> tuple[tuple[int, int, frozenset[str]], ...]:
    """The sentences of a passage with their terms, as ``(start, end, terms)``.

    A line break that only folds a long line ends no sentence.
    """
    sentences = []
    joined_text = join_folded_lines(text)
    for start, end in sentence_ranges(joined_text, language):
        sentence_text = text[start:end].rstrip()
        if sentence_text.strip():
            terms = content_terms(sentence_text, language)
            sentence_end = start + len(sentence_text)
            sentences.append((start, sentence_end, terms))
    return tuple(sentences)
