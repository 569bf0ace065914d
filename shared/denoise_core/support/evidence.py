"""Passages as an index of sentences, to find the one closest to a claim.

Each sentence is read behind its passage's header. What is done for all of the evidence
takes time that grows with its length.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from functools import cached_property

from denoise_core.support.labels import LabelledEvidence
from denoise_core.text.facts.comparison import ParsedText, parse_text
from denoise_core.text.facts.numbers import parse_cardinal
from denoise_core.text.language import detect_language
from denoise_core.text.lexemes import tokenize_text
from denoise_core.text.stems import content_stems
from denoise_core.types import Passage
from denoise_core.weighted_cache import cache_by_bytes


class EvidenceIndex:
    """Passages split into sentences that claims are compared with."""

    def __init__(self, passages: Sequence[Passage]) -> None:
        self.evidence = LabelledEvidence(passages)
        self.ids = tuple(passage.id for passage in passages)
        all_sentences = self.evidence.sentences.values()
        sentence_texts = [sentence.text for sentence in all_sentences]
        self.text = "\n".join(sentence_texts)
        first_text = self.text[:4000]
        self.language = detect_language(first_text)
        self.sentence_terms: dict[str, frozenset[str]] = {}
        for sentences in self.evidence.passage_sentences:
            header_terms: frozenset[str] = frozenset()
            for sentence in sentences:
                own_terms = content_terms(sentence.text, self.language)
                terms = own_terms | header_terms
                self.sentence_terms[sentence.label] = terms
                is_header = sentence.label.endswith(".0")
                if is_header:
                    header_terms = terms

    @cached_property
    def parsed_text(self) -> ParsedText:
        """All of the sentences, parsed once for all claims."""
        return parse_text(self.text, self.language)

    def closest_sentence(
        self,
        terms: frozenset[str],
        passage_ids: Collection[str] | None = None,
        *,
        other_terms: frozenset[str] = frozenset(),
    ) -> tuple[float, str]:
        """Find the sentence that shares most of the terms, the first of equals.

        Args:
            terms: The terms of a claim.
            passage_ids: The passages to search; None for all.
            other_terms: Terms that decide between sentences with equally many of these.

        Returns:
            The share of the terms, 0 to 1, that the sentence has with its header, and
            its label; "" where no sentence has any.
        """
        most_terms = (0, 0)
        best_label = ""
        for label, sentence_terms in self.sentence_terms.items():
            sentence = self.evidence.sentences[label]
            if passage_ids is not None and sentence.passage_id not in passage_ids:
                continue
            common_terms = terms & sentence_terms
            common_others = other_terms & sentence_terms
            counts = (len(common_terms), len(common_others))
            if common_terms and counts > most_terms:
                most_terms = counts
                best_label = label
        term_count = max(1, len(terms))
        shared_part = most_terms[0] / term_count
        return shared_part, best_label


@cache_by_bytes("terms", 8 * 2**20, bytes_per_character=10)
def content_terms(text: str, language: str) -> frozenset[str]:
    """Stems of a text's content words, and its numbers as plain digits."""
    lexemes = tokenize_text(text)
    stems = content_stems(lexemes, language)
    terms = set(stems)
    for lexeme in lexemes:
        if lexeme.kind == "number":
            plain_digits = lexeme.text.replace(",", "")
            plain_digits = plain_digits.replace(".", "")
            terms.add(plain_digits)
        elif lexeme.kind == "word":
            number = parse_cardinal(lexeme.folded_text)
            if number is not None:
                cardinal_digits = str(number)
                terms.add(cardinal_digits)
    return frozenset(terms)
