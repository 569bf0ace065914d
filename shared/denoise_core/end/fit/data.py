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
    corpus = [p for p in check_passages(passages) if p.text.strip()]
    if len(corpus) < 2 or negatives < 1:
        raise InputError(
            f"{len(corpus)} passages with text, negatives={negatives}: "
            "expected at least 2 passages, so that some are irrelevant, and 1 "
            "negative"
        )
    index = BM25Index([p.text for p in corpus])
    passage_order = list(range(len(corpus)))
    random.Random(seed).shuffle(passage_order)
    questions: list[Question] = []
    for i in passage_order:
        if len(questions) == n:
            break
        sentence_and_rest = _draw_sentence(corpus[i], random.Random(f"{seed}/{i}"))
        if sentence_and_rest is None:
            continue
        text, remaining_passage = sentence_and_rest
        by_similarity = np.argsort(-index.scores(text), kind="stable").tolist()
        # A copy is relevant too.
        other_indices = [j for j in by_similarity if corpus[j].text != corpus[i].text]
        similar = other_indices[: (negatives + 1) // 2]
        less_similar = sorted(other_indices[len(similar) :])
        random_count = min(negatives - len(similar), len(less_similar))
        generator = random.Random(f"{seed}/{i}/{text}")
        drawn = similar + generator.sample(less_similar, random_count)
        listed = [remaining_passage, *[corpus[j] for j in drawn]]
        generator.shuffle(listed)
        question = Question(
            text,
            tuple(listed),
            frozenset({remaining_passage.id}),
            id=remaining_passage.id,
        )
        questions.append(question)
    if not questions:
        raise InputError(
            f"none of {len(passages)} passages has two sentences, one of them of "
            f"{MIN_QUESTION_WORDS} words or more: pass longer chunks, or write "
            "questions of your own"
        )
    return tuple(questions)


def _draw_sentence(
    passage: Passage, generator: random.Random
) -> tuple[str, Passage] | None:
    """A sentence of the passage as question, and the passage without it."""
    sentences = sentence_spans(passage)
    usable_sentences = []
    for span in sentences:
        if len(passage.text[span.start : span.end].split()) >= MIN_QUESTION_WORDS:
            usable_sentences.append(span)
    if len(sentences) < 2 or not usable_sentences:
        return None
    drawn = generator.choice(usable_sentences)
    remaining_passage = extract_spans(
        passage, [span for span in sentences if span != drawn]
    )
    if remaining_passage is None or not remaining_passage.text.strip():
        return None
    return passage.text[drawn.start : drawn.end].strip(), remaining_passage
