"""Labelled questions without a person or a model: sentences of documents.

A sentence of a passage becomes the question; the rest of the passage is the relevant one
(the inverse cloze task; Lee et al., 2019). Irrelevant passages are from the same documents:
half of them the most similar in words, because a retriever will bring those, half at
random. Such labels are rougher than a person's.
"""

from __future__ import annotations

import random
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from denoise_core.errors import InputError
from denoise_core.question import Question
from denoise_core.scorers.bm25 import BM25Index
from denoise_core.text.chunk import extract_spans, sentence_spans
from denoise_core.types import Passage, check_passages

DEFAULT_NEGATIVES = 10  # as many as the paper has for each question
MIN_QUESTION_WORDS = 6  # of a sentence that can be a question


def questions_from_documents(
    passages: Sequence[Passage],
    *,
    n: int | None = None,
    negatives: int = DEFAULT_NEGATIVES,
    seed: int = 0,
) -> tuple[Question, ...]:
    """Questions drawn from sentences of ``passages`` (the chunks you will denoise).

    A passage gives a question if it has two sentences, one of six words or more.

    Args:
        passages: At least two.
        n: Questions at most.
        negatives: Irrelevant passages per question.
        seed: Decides everything.

    Raises:
        InputError: Fewer than two passages, or none that can give a question.
    """
    passage_corpus = _Corpus(passages, negatives, seed)
    drawn_questions: list[Question] = []
    for i in passage_corpus.shuffled_indices():
        if len(drawn_questions) == n:
            break
        sentence_and_rest = _draw_sentence(
            passage_corpus.passages[i], random.Random(f"{seed}/{i}")
        )
        if sentence_and_rest is not None:
            drawn_questions.append(passage_corpus.build_question(i, *sentence_and_rest))
    if not drawn_questions:
        raise InputError(
            f"none of {len(passages)} passages has two sentences, one of them of "
            f"{MIN_QUESTION_WORDS} words or more: pass longer chunks, or write "
            "questions of your own"
        )
    return tuple(drawn_questions)


class _Corpus:
    """Passages with text; builds questions with the most similar and random others."""

    def __init__(self, passages: Sequence[Passage], negatives: int, seed: int) -> None:
        self.passages = [p for p in check_passages(passages) if p.text.strip()]
        if len(self.passages) < 2 or negatives < 1:
            raise InputError(
                f"{len(self.passages)} passages with text, negatives={negatives}: "
                "expected at least 2 passages, so that some are irrelevant, and 1 "
                "negative"
            )
        self.negatives = negatives
        self.seed = seed
        self._index: BM25Index | None = None

    def shuffled_indices(self) -> list[int]:
        """Positions of the passages in random order."""
        shuffled_order = list(range(len(self.passages)))
        random.Random(self.seed).shuffle(shuffled_order)
        return shuffled_order

    def build_question(self, i: int, text: str, relevant: Passage) -> Question:
        """``text`` as a question on passage i, which is listed as ``relevant``."""
        random_generator = random.Random(f"{self.seed}/{i}/{text}")
        source_text = self.passages[i].text
        other_passages = []
        for j, passage in enumerate(self.passages):
            if j != i and passage.text != source_text:  # a copy is relevant too
                other_passages.append(j)
        bm25_scores = self._bm25_scores(text)
        by_similarity = sorted(other_passages, key=lambda j: -bm25_scores[j])
        similar_passages = by_similarity[: (self.negatives + 1) // 2]
        less_similar = [j for j in other_passages if j not in similar_passages]
        random_count = min(self.negatives - len(similar_passages), len(less_similar))
        listed_passages = [relevant]
        for j in similar_passages + random_generator.sample(less_similar, random_count):
            listed_passages.append(self.passages[j])
        random_generator.shuffle(listed_passages)
        return Question(
            text, tuple(listed_passages), frozenset({relevant.id}), id=relevant.id
        )

    def _bm25_scores(self, text: str) -> NDArray[np.float32]:
        if self._index is None:
            self._index = BM25Index([p.text for p in self.passages])
        return self._index.scores(text)


def _draw_sentence(
    passage: Passage, random_generator: random.Random
) -> tuple[str, Passage] | None:
    """A sentence of the passage as question, and the passage without it."""
    passage_sentences = sentence_spans(passage)
    sentence_texts = []
    usable_sentences = []
    for i, span in enumerate(passage_sentences):
        sentence_texts.append(passage.text[span.start : span.end].strip())
        if len(sentence_texts[i].split()) >= MIN_QUESTION_WORDS:
            usable_sentences.append(i)
    if len(passage_sentences) < 2 or not usable_sentences:
        return None
    drawn_sentence = random_generator.choice(usable_sentences)
    other_sentences = list(passage_sentences)
    del other_sentences[drawn_sentence]
    passage_rest = extract_spans(passage, other_sentences)
    if passage_rest is None or not passage_rest.text.strip():
        return None
    return sentence_texts[drawn_sentence], passage_rest
