"""Align written text with the source sentences that cover its words.

Words are compared by stem and weighted by rarity. Alignment is no check of truth: a
sentence that negates the source aligns with it, too. The reader sees the source
sentences, not the written text.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from rapidfuzz.distance import JaroWinkler

from denoise_core.s2a.pieces import PassageSlice, split_pieces
from denoise_core.text.lexemes import tokenize_text
from denoise_core.text.stems import stem_word
from denoise_core.text.wordlists import FUNCTION_WORDS
from denoise_core.types import Passage, Span

MIN_BEST_COVERAGE = 0.3
"""Share of what was written, by weight, that the best sentence alone must cover."""

MIN_COVERAGE_GAIN = 0.13
"""Share that a further sentence must add."""

MAX_COVERING_SENTENCES = 6
"""Source sentences that cover one written sentence."""

_MIN_WORD_SIMILARITY = 0.92  # Jaro-Winkler similarity of two forms of a word
_UNSEEN_WORD_WEIGHT = 0.7  # weight of a word that no sentence has
_SHORT_WORD_CHARACTERS = 4  # characters up to which a word has one form only
_WITHOUT_GROUP_MARKS = str.maketrans("", "", ",'’\u00a0\u202f ")
_COPIED_RUN_WORDS = 4
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


def align_text(
    written_text: str, source: PassageSlice, question: str, language: str
) -> tuple[WrittenSentence, ...]:
    """Return the written sentences, each with the pieces of the source that cover it.

    A sentence that only repeats the question is left out.
    """
    source_index = SourceIndex(source.piece_texts, language)
    folded_question = question.casefold()
    question_words = folded_question.split()
    written_sentences = []
    written_passage = Passage(written_text, "written")
    sentence_spans = split_pieces(written_passage, language=language)
    for span in sentence_spans:
        sentence_text = written_text[span.start : span.end]
        sentence_text = sentence_text.strip()
        folded_sentence = sentence_text.casefold()
        repeats_question = folded_sentence.split() == question_words
        if not sentence_text or repeats_question:
            continue
        piece_indices = source_index.align(sentence_text)
        covering_spans = tuple(source.pieces[index] for index in piece_indices)
        written_sentence = WrittenSentence(sentence_text, covering_spans)
        written_sentences.append(written_sentence)
    return tuple(written_sentences)


class SourceIndex:
    """The sentences of one source text, by the stems of their words."""

    def __init__(self, sentences: Sequence[str], language: str = "en") -> None:
        self.language = language
        self.sentence_terms: list[set[str]] = []
        self.sentence_runs = list(map(_word_runs, sentences))
        self.source_terms: set[str] = set()
        for sentence in sentences:
            content_terms = _content_terms(sentence, language)
            distinct_terms = set(content_terms)
            self.sentence_terms.append(distinct_terms)
            self.source_terms |= distinct_terms

    def align(self, written_text: str) -> tuple[int, ...]:
        """Return the indices of the sentences that cover the text, in order.

        None does if the best covers too little.
        """
        content_terms = _content_terms(written_text, self.language)
        distinct_terms = dict.fromkeys(content_terms)
        looked_up = itertools.islice(distinct_terms, _MAX_SENTENCE_TERMS)
        covering_terms: list[list[str]] = [[] for _ in self.sentence_terms]
        term_weights = {}
        for term in looked_up:
            source_terms = self._similar_source_terms(term)
            sentence_count = 0
            for index, sentence_terms in enumerate(self.sentence_terms):
                shares_none = source_terms.isdisjoint(sentence_terms)
                if not shares_none:
                    sentence_cover = covering_terms[index]
                    sentence_cover.append(term)
                    sentence_count += 1
            term_weights[term] = _term_weight(term, sentence_count)
        best_sentences = _choose_sentences(covering_terms, term_weights)
        chosen_indices = set(best_sentences)
        if chosen_indices:
            covered_terms = set()
            for index in chosen_indices:
                covered_terms.update(covering_terms[index])
            chosen_indices |= self._copied_sentences(written_text, covered_terms)
        ordered_indices = sorted(chosen_indices)
        return tuple(ordered_indices)

    def _copied_sentences(self, written_text: str, covered_terms: set[str]) -> set[int]:
        """Return the sentences that share a run of four words that is not covered yet."""
        copied_indices = set()
        written_runs = _word_runs(written_text)
        for run in written_runs:
            run_text = " ".join(run)
            run_terms = _content_terms(run_text, self.language)
            is_covered = covered_terms.issuperset(run_terms)
            if is_covered:
                continue
            for index, sentence_runs in enumerate(self.sentence_runs):
                if run in sentence_runs:
                    copied_indices.add(index)
        return copied_indices

    def _similar_source_terms(self, term: str) -> set[str]:
        """Return the words of the source that are the term in some form."""
        similar_terms = {term} & self.source_terms
        has_one_form = len(term) <= _SHORT_WORD_CHARACTERS
        if has_one_form or term[0].isdigit():
            return similar_terms
        for source_term in self.source_terms:
            is_short = len(source_term) <= 2
            if is_short or source_term[0].isdigit():
                continue
            similarity = JaroWinkler.similarity(
                term,
                source_term,
                score_cutoff=_MIN_WORD_SIMILARITY,
            )
            if similarity:
                similar_terms.add(source_term)
        return similar_terms


def _choose_sentences(
    covering_terms: list[list[str]], term_weights: dict[str, float]
) -> list[int]:
    """Return the sentences that cover most by weight.

    The best comes first; further ones follow while each adds enough.
    """
    total_weight = sum(term_weights.values())
    sentence_indices: list[int] = []
    covered_terms = set()
    while total_weight and len(sentence_indices) < MAX_COVERING_SENTENCES:
        best_gain = 0.0
        best_index = 0
        for index, terms in enumerate(covering_terms):
            new_terms = [term for term in terms if term not in covered_terms]
            new_weights = [term_weights[term] for term in new_terms]
            new_weight = sum(new_weights)
            weight_gain = new_weight / total_weight
            if weight_gain > best_gain:
                best_gain = weight_gain
                best_index = index
        least_gain = MIN_COVERAGE_GAIN if sentence_indices else MIN_BEST_COVERAGE
        if best_gain < least_gain:
            break
        sentence_indices.append(best_index)
        best_terms = covering_terms[best_index]
        covered_terms.update(best_terms)
    return sentence_indices


def _term_weight(term: str, sentence_count: int) -> float:
    """Return the weight of a word by the number of sentences that have it.

    A number counts whole; a word that no sentence has may be a form of another one.
    """
    first_character = term[0]
    if first_character.isdigit():
        return 1.0
    if sentence_count:
        return 1.0 / (1 + sentence_count)
    return _UNSEEN_WORD_WEIGHT


def _word_runs(text: str) -> set[tuple[str, ...]]:
    """Return the runs of so many words that nobody writes them twice by chance."""
    lexemes = tokenize_text(text)
    words = [lexeme.folded_text for lexeme in lexemes if lexeme.kind != "mark"]
    word_runs = set()
    run_count = len(words) - _COPIED_RUN_WORDS + 1
    for start in range(run_count):
        run_end = start + _COPIED_RUN_WORDS
        word_run = tuple(words[start:run_end])
        word_runs.add(word_run)
    return word_runs


def _content_terms(text: str, language: str) -> Iterator[str]:
    """Yield words of content by stem, ideographs one by one, numbers without grouping."""
    for lexeme in tokenize_text(text):
        if lexeme.kind == "number":
            yield lexeme.text.translate(_WITHOUT_GROUP_MARKS)
        elif lexeme.kind == "ideograph":
            yield lexeme.text
        elif lexeme.kind == "word":
            word = lexeme.folded_text.removesuffix("'s")
            word_parts = word.split("-")
            for word_part in word_parts:
                if word_part and word_part not in FUNCTION_WORDS:
                    yield stem_word(word_part, language)
