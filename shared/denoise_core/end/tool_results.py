"""How much of a tool's result is kept by default: a fraction of its characters.

Chosen by score, words and records.
"""

from __future__ import annotations

import copy
import math
import sys
from collections import Counter
from collections.abc import Hashable, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from denoise_core.end.denoiser import ENDDenoiser
from denoise_core.end.selection import MarginRule, TokenLimit
from denoise_core.protocols import Denoiser, Scorer
from denoise_core.text.structural import chunk_text, structural_chunker
from denoise_core.text.text_chunk import MAX_CHUNK_CHARACTERS, TextChunk
from denoise_core.text.words import content_words, split_words
from denoise_core.types import Passage

LONG_RESULT_CHARACTERS = 1000
"""A result of at least this length is reduced to `KEPT_FRACTION` of its characters."""

KEPT_FRACTION = 3 / 8

NOTE_CHARACTERS = 75
"""Room for the note that says what is missing."""

REPETITION_PENALTY = 2.0
"""Score that a text loses if better texts already have all of its words."""


def for_tool_results(
    denoiser: Denoiser,
    passages: Sequence[Passage],
    max_characters: int = sys.maxsize,
) -> Denoiser:
    """Return the denoiser with its settings for these texts of a tool's result.

    END chunks them by their structure. With ``keep="auto"`` it keeps the best chunks
    up to `KEPT_FRACTION` of the characters and ``max_characters``, context included; of
    a result shorter than `LONG_RESULT_CHARACTERS` it keeps what is within the margin.
    Any other denoiser is returned unchanged.
    """
    if not isinstance(denoiser, ENDDenoiser):
        return denoiser
    adapted = copy.copy(denoiser)
    adapted.chunker = structural_chunker
    adapted.attaches_context = True
    if not isinstance(adapted.rule, MarginRule):
        return adapted
    characters = 0
    for passage in passages:
        characters += len(passage.text)
    if characters >= LONG_RESULT_CHARACTERS:
        # A smaller limit might hold no record at all.
        max_characters = max(max_characters, 2 * MAX_CHUNK_CHARACTERS)
        kept_characters = int(KEPT_FRACTION * characters)
        limit = min(kept_characters, max_characters) - NOTE_CHARACTERS
        adapted.rule = TokenLimit(limit, len, drop_headers_first=False)
        adapted.scorer = LexicalBoostScorer(adapted.scorer, group_chunks(passages))
    return adapted


class LexicalBoostScorer:
    """Adds word overlap and novelty to a scorer, for rows, log lines and search hits.

    A sentence encoder hardly tells these apart. The score of a text is

    1. the wrapped score plus the IDF overlap with the query, scaled to at most 1;
    2. averaged with a better neighbour's score;
    3. the best score of the text's group;
    4. minus up to `REPETITION_PENALTY`, by the IDF share of its words that better texts
       already have.

    Args:
        scorer: The wrapped scorer.
        group_ids: Group of each text, as `group_chunks` returns them.
    """

    listwise = True

    def __init__(self, scorer: Scorer, group_ids: Sequence[int] = ()) -> None:
        self.scorer = scorer
        self.group_ids = np.array(group_ids, dtype=np.intp)

    def score(self, query: str, texts: Sequence[str]) -> NDArray[np.float32]:
        """Return float32 scores of shape ``(len(texts),)``; higher is better."""
        text_words = []
        for text in texts:
            text_words.append(set(split_words(text)))
        texts_with_word: dict[str, list[int]] = {}
        for i, words in enumerate(text_words):
            for word in words:
                indices = texts_with_word.setdefault(word, [])
                indices.append(i)
        weights = {}
        for word, indices in texts_with_word.items():
            inverse_share = len(texts) / len(indices)
            weights[word] = math.log(1 + inverse_share)
        query_terms = weights.keys() & content_words(query)
        term_weights = []
        for words in text_words:
            shared_words = words & query_terms
            term_weights.append(_total_weight(shared_words, weights))
        overlaps = np.array(term_weights)
        largest_overlap = max(overlaps.max(initial=0), 1e-9)
        scores = np.asarray(self.scorer.score(query, texts))
        scores = scores + overlaps / largest_overlap
        padded_scores = np.pad(scores, 1, constant_values=-np.inf)
        neighbour_scores = np.maximum(padded_scores[:-2], padded_scores[2:])
        better_scores = np.maximum(neighbour_scores, scores)
        scores = (scores + better_scores) / 2
        if len(self.group_ids) == len(texts):
            group_scores = np.full(len(texts), -np.inf)
            np.maximum.at(group_scores, self.group_ids, scores)
            scores = group_scores[self.group_ids]
        query_words = set(split_words(query))
        new_words = []
        for words in text_words:
            new_words.append(words - query_words)
        return _penalize_repetition(scores, new_words, weights, texts_with_word)


def _penalize_repetition(
    scores: NDArray[np.floating],
    text_words: Sequence[set[str]],
    weights: Mapping[str, float],
    texts_with_word: dict[str, list[int]],
) -> NDArray[np.float32]:
    """Rank texts greedily; each loses by the words that texts ranked before it have."""
    total_weights = []
    for words in text_words:
        total_weight = _total_weight(words, weights)
        total_weights.append(total_weight or 1.0)
    all_weights = np.array(total_weights)
    known_weights = np.zeros(len(text_words))
    open_scores = scores.copy()
    final_scores = np.empty(len(text_words), np.float32)
    for _ in text_words:
        known_parts = known_weights / all_weights
        new_scores = open_scores - REPETITION_PENALTY * known_parts
        best = int(new_scores.argmax())
        final_scores[best] = new_scores[best]
        open_scores[best] = -np.inf
        for word in text_words[best]:
            indices = texts_with_word.pop(word, [])
            known_weights[indices] += weights[word]
    return final_scores


def _total_weight(words: set[str], weights: Mapping[str, float]) -> float:
    return sum(weights[word] for word in words)


def group_chunks(passages: Sequence[Passage]) -> list[int]:
    """Group the scored chunks of these passages by record or section.

    Returns:
        For each scored chunk the index of the first one of its group: of a JSON
        record, or of the text under one heading, up to `MAX_CHUNK_CHARACTERS`
        together. A chunk of a longer group is a group by itself.
    """
    group_ids: list[int] = []
    for passage in passages:
        chunks = chunk_text(passage.text).chunks
        header_spans = set()
        scored_chunks = []
        for chunk in chunks:
            if chunk.is_structural:
                header_spans.add(chunk.span)
            elif chunk.is_scored_in(passage.text):
                scored_chunks.append(chunk)
        group_keys = []
        group_sizes = Counter[Hashable]()
        for chunk in scored_chunks:
            group_key = _group_key(chunk, header_spans)
            group_keys.append(group_key)
            group_sizes[group_key] += chunk.length
        first_indices: dict[Hashable, int] = {}
        for n, group_key in enumerate(group_keys, len(group_ids)):
            first_index = first_indices.setdefault(group_key, n)
            if group_sizes[group_key] <= MAX_CHUNK_CHARACTERS:
                group_ids.append(first_index)
            else:
                group_ids.append(n)
    return group_ids


def _group_key(chunk: TextChunk, header_spans: set[tuple[int, int]]) -> Hashable:
    for depth in range(len(chunk.path), 0, -1):
        path_step = chunk.path[depth - 1]
        if isinstance(path_step, int):
            return chunk.path[:depth]
    for context_span in reversed(chunk.context_spans):
        if context_span in header_spans:
            return context_span
    return chunk.start
