"""Align written text with the source sentences that cover its words.

Words are compared by stem and weighted by rarity. Alignment is no check of truth: a
sentence that negates the source aligns with it, too. The reader sees the source
sentences, not the written text.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from rapidfuzz.distance import JaroWinkler

from denoise_core.s2a.options import Options
from denoise_core.s2a.pieces import split_pieces
from denoise_core.s2a.replies import SliceOutcome
from denoise_core.text.lexemes import tokenize_text
from denoise_core.text.stems import stem_word
from denoise_core.text.wordlists import FUNCTION_WORDS
from denoise_core.types import Passage, Span

NOT_COVERED = "no written sentence matches it"
MIN_BEST_COVERAGE = 0.3
"""Share of what was written, by weight, that the best sentence alone must cover."""

MIN_COVERAGE_GAIN = 0.13
"""Share that a further sentence must add."""

MAX_COVERING_SENTENCES = 6
"""Source sentences that cover one written sentence."""

_MIN_WORD_SIMILARITY = 0.92  # Jaro-Winkler similarity of two forms of a word
_UNSEEN_WORD_WEIGHT = 0.7  # weight of a word that no sentence has
_COPIED_RUN_WORDS = 4  # words in a row that nobody writes twice by chance
_SHORT_WORD_CHARACTERS = 4  # characters up to which a word has one form only
_DIGIT_GROUP_MARK = re.compile(r"[,'’\u00a0\u202f ](?=\d{3})")
_MAX_SENTENCE_TERMS = 400  # words of a written sentence that are looked up


@dataclass(frozen=True, slots=True)
class WrittenSentence:
    """One sentence that a model wrote.

    Attributes:
        text: The sentence.
        spans: The source sentences that cover it; none if nothing does.
    """

    text: str
    spans: tuple[Span, ...] = ()


def align_outcome(
    outcome: SliceOutcome, options: Options, question: str
) -> tuple[SliceOutcome, list[WrittenSentence]]:
    """Return a written outcome with the pieces to keep, and its own sentences.

    Kept are the source sentences that cover what was written. A sentence that only
    repeats the question is left out.
    """
    passage = outcome.part.passage
    pieces = outcome.part.pieces
    written_text = outcome.written_text or ""
    source_index = SourceIndex(outcome.part.piece_texts, options.language)
    written_sentences: list[WrittenSentence] = []
    kept_places: dict[int, int] = {}
    for span in split_pieces(
        Passage(written_text, passage.id), language=options.language
    ):
        sentence_text = written_text[span.start : span.end]
        sentence_text = sentence_text.strip()
        if (
            not sentence_text
            or sentence_text.casefold().split() == question.casefold().split()
        ):
            continue
        covering_indices = source_index.align(sentence_text)
        kept_places.update(dict.fromkeys(covering_indices, 0))
        spans = []
        for index in covering_indices:
            spans.append(pieces[index])
        written_sentences.append(WrittenSentence(sentence_text, tuple(spans)))
    problem = None
    if written_sentences and not kept_places and options.shown_text == "source":
        problem = "no sentence of the text covers anything that was written"
    drop_reasons = dict.fromkeys(range(len(pieces)), NOT_COVERED)
    return replace(
        outcome, kept_places=kept_places, problem=problem, drop_reasons=drop_reasons
    ), written_sentences


class SourceIndex:
    """The sentences of one source text, indexed by word stems and word runs."""

    def __init__(self, sentences: Sequence[str], language: str = "en") -> None:
        self.language = language
        self.sentence_terms = [
            frozenset(_content_terms(sentence_runs, language))
            for sentence_runs in sentences
        ]
        self.sentence_runs = [
            {
                tuple(w[i : i + _COPIED_RUN_WORDS])
                for i in range(len(w) - _COPIED_RUN_WORDS + 1)
            }
            for w in map(_folded_words, sentences)
        ]
        self.source_terms = frozenset().union(*self.sentence_terms)
        self.similar_terms: dict[str, frozenset[str]] = {}

    def align(self, written_text: str) -> tuple[int, ...]:
        """Return the indices of the sentences that cover the text, in order.

        None does if the best covers too little.
        """
        wanted_terms = list(dict.fromkeys(_content_terms(written_text, self.language)))[
            :_MAX_SENTENCE_TERMS
        ]
        covering_terms = [
            [
                term
                for term in wanted_terms
                if self._similar_source_terms(term) & source_terms
            ]
            for source_terms in self.sentence_terms
        ]
        term_weights = {
            term: _term_weight(term, sum(term in h for h in covering_terms))
            for term in wanted_terms
        }
        chosen_indices = _choose_sentences(covering_terms, term_weights)
        if not chosen_indices:
            return ()
        covered_terms: set[str] = set()
        for index in chosen_indices:
            covered_terms.update(covering_terms[index])
        copied_indices = self._copied_sentences(written_text, covered_terms)
        return tuple(sorted({*chosen_indices, *copied_indices}))

    def _copied_sentences(
        self, written_text: str, covered_terms: set[str]
    ) -> list[int]:
        """Return the sentences that share a run of four words that is not covered yet."""
        written_words = _folded_words(written_text)
        runs = {
            tuple(written_words[i : i + _COPIED_RUN_WORDS])
            for i in range(len(written_words) - _COPIED_RUN_WORDS + 1)
        }
        runs = {
            r
            for r in runs
            if any(
                term not in covered_terms
                for w in r
                for term in _content_terms(w, self.language)
            )
        }
        return [
            n
            for n, sentence_runs in enumerate(self.sentence_runs)
            if not runs.isdisjoint(sentence_runs)
        ]

    def _similar_source_terms(self, term: str) -> frozenset[str]:
        """Return the words of the source that are the term in some form."""
        if term not in self.similar_terms:
            similar_terms = {term} & self.source_terms
            if len(term) > _SHORT_WORD_CHARACTERS and not term[0].isdigit():
                comparable_terms = (
                    source_term
                    for source_term in self.source_terms
                    if len(source_term) > 2 and not source_term[0].isdigit()
                )
                similar_terms |= {
                    source_term
                    for source_term in comparable_terms
                    if JaroWinkler.similarity(
                        term, source_term, score_cutoff=_MIN_WORD_SIMILARITY
                    )
                    >= _MIN_WORD_SIMILARITY
                }
            self.similar_terms[term] = frozenset(similar_terms)
        return self.similar_terms[term]


def _choose_sentences(
    covering_terms: list[list[str]], term_weights: dict[str, float]
) -> list[int]:
    """Return the sentences that cover most by weight.

    The best comes first; further ones follow while each adds enough.
    """
    total_weight = sum(term_weights.values())
    sentence_indices: list[int] = []
    covered_terms: set[str] = set()
    while (
        total_weight
        and covering_terms
        and len(sentence_indices) < MAX_COVERING_SENTENCES
    ):
        coverage_gains = [
            sum(
                term_weights[term]
                for term in sentence_terms
                if term not in covered_terms
            )
            / total_weight
            for sentence_terms in covering_terms
        ]
        best_index = max(range(len(coverage_gains)), key=coverage_gains.__getitem__)
        if coverage_gains[best_index] < (
            MIN_COVERAGE_GAIN if sentence_indices else MIN_BEST_COVERAGE
        ):
            break
        sentence_indices.append(best_index)
        covered_terms.update(covering_terms[best_index])
    return sentence_indices


def _term_weight(term: str, sentence_count: int) -> float:
    """Return the weight of a word by the number of sentences that have it.

    A number counts whole; a word that no sentence has may be a form of another one.
    """
    if term[0].isdigit():
        return 1.0
    if sentence_count:
        return 1.0 / (1 + sentence_count)
    return _UNSEEN_WORD_WEIGHT


def _folded_words(text: str) -> list[str]:
    return [
        lexeme.folded_text for lexeme in tokenize_text(text) if lexeme.kind != "mark"
    ]


def _content_terms(text: str, language: str) -> Iterator[str]:
    """Yield words of content by stem, ideographs one by one, numbers without grouping."""
    for lexeme in tokenize_text(text):
        if lexeme.kind == "number":
            yield _DIGIT_GROUP_MARK.sub("", lexeme.text)
        elif lexeme.kind == "ideograph":
            yield lexeme.text
        elif lexeme.kind == "word":
            word = lexeme.folded_text.removesuffix("'s")
            for word_part in word.split("-"):
                if word_part and word_part not in FUNCTION_WORDS:
                    yield stem_word(word_part, language)
