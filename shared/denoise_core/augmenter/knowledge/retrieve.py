"""Retrievers over passages in memory: BM25, embeddings, several fused."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from denoise_core._optional import require
from denoise_core.augmenter.prompts import with_title_line
from denoise_core.errors import InputError, MissingExtra
from denoise_core.protocols import Retriever
from denoise_core.runtime.thread_pool import run_in_pool
from denoise_core.types import Passage, check_passages

if TYPE_CHECKING:
    from denoise_core.scorers.bm25 import BM25Index
    from denoise_core.scorers.encoders import EmbeddingModel


_RANK_CONSTANT = 60  # makes high ranks count less; the paper's value


class BM25Retriever:
    """The best passages by BM25; none that shares no word with the query.

    The index (bm25s) is built at the first search. A passage's title
    (``metadata["title"]``) is indexed with its text. Ties keep the passages' order; the
    score is in ``Passage.score``.

    Args:
        passages: The passages to search.
        k: Passages returned at most.
        language: A Snowball name; None does not stem.

    Raises:
        InputError: For repeated ids, ``k`` below 1 or an unknown language.
    """

    def __init__(
        self,
        passages: Sequence[Passage],
        *,
        k: int = 10,
        language: str | None = "english",
    ) -> None:
        if k < 1:
            raise InputError(f"k={k}: expected 1 or more")
        self.passages = check_passages(passages)
        self.k = k
        self.language = language
        self._lock = threading.Lock()
        self._index: BM25Index | None = None

    def retrieve(self, query: str) -> tuple[Passage, ...]:
        """The best passages, with their scores."""
        term_scores = self.term_scores(query)
        passage_scores = term_scores.sum(0)
        negated_scores = -passage_scores
        ranked_indexes = negated_scores.argsort(kind="stable")
        best_indexes = ranked_indexes[: self.k]
        results = []
        for index in best_indexes:
            passage_score = float(passage_scores[index])
            if passage_score > 0:
                passage = self.passages[index]
                scored_passage = replace(passage, score=passage_score)
                results.append(scored_passage)
        return tuple(results)

    async def aretrieve(self, query: str) -> tuple[Passage, ...]:
        """Retrieve on a thread of the pool."""
        return await run_in_pool(self.retrieve, query)

    def term_scores(self, query: str) -> NDArray[np.float32]:
        """The score that each word of the query adds.

        Shape ``(words, passages)``; words that no passage has are left out. Words
        without content (articles, auxiliaries, question words) count only in a query of
        nothing else.
        """
        with self._lock:
            if self._index is None:
                from denoise_core.scorers.bm25 import (
                    BM25Index,
                )  # not before a search: all scorers come with it

                texts = [with_title_line(passage) for passage in self.passages]
                self._index = BM25Index(texts, language=self.language)
        return self._index.term_scores(query)


class DenseRetriever:
    """The passages closest to the query by cosine.

    The search is exact: by a flat FAISS index where the extra ``dense`` is installed, else
    by NumPy with the same cosines. Nothing is loaded or embedded before the first one.

    Args:
        passages: The passages to search.
        embed: A function, an embedding model, or the name of a sentence-transformers
            model, as for `EmbeddingScorer`.
        k: Passages returned at most.

    Raises:
        InputError: For repeated ids and ``k`` below 1.
    """

    def __init__(
        self, passages: Sequence[Passage], embed: EmbeddingModel, *, k: int = 10
    ) -> None:
        from denoise_core.scorers.encoders import (
            EmbeddingScorer,
        )  # not before one is made: all scorers come

        if k < 1:
            raise InputError(f"k={k}: expected 1 or more")
        self.passages = check_passages(passages)
        self.embed = embed
        self.k = k
        self._scorer = EmbeddingScorer(embed)
        self._lock = threading.Lock()
        self._vectors: NDArray[np.float32] | None = None
        self._faiss_index: Any = None

    def retrieve(self, query: str) -> tuple[Passage, ...]:
        """The closest passages, with their cosines."""
        if not self.passages:
            return ()
        with self._lock:  # models are rarely safe to call from two threads
            if self._vectors is None:
                texts = [with_title_line(passage) for passage in self.passages]
                self._vectors = self._scorer.text_vectors(texts)
                self._faiss_index = _flat_index(self._vectors)
            vector_width = self._vectors.shape[1]
            query_vector = self._scorer.query_vector(query, vector_width)
        passage_count = len(self.passages)
        result_count = min(self.k, passage_count)
        if self._faiss_index is None:
            all_cosines = self._vectors @ query_vector
            ranked_indexes = np.argsort(-all_cosines, kind="stable")
            indexes = ranked_indexes[:result_count]
            cosines = all_cosines[indexes]
        else:
            query_row = query_vector[None]
            search_results = self._faiss_index.search(query_row, result_count)
            (cosines,), (indexes,) = search_results
        results = []
        for cosine, index in zip(cosines, indexes, strict=True):
            passage = self.passages[index]
            scored_passage = replace(passage, score=float(cosine))
            results.append(scored_passage)
        return tuple(results)

    async def aretrieve(self, query: str) -> tuple[Passage, ...]:
        """Retrieve on a thread of the pool."""
        return await run_in_pool(self.retrieve, query)


def _flat_index(vectors: NDArray[np.float32]) -> Any:
    """A FAISS index of the vectors; None where FAISS is not installed."""
    try:
        faiss = require("faiss", extra="dense")
    except MissingExtra:
        return None
    vector_width = vectors.shape[1]
    flat_index = faiss.IndexFlatIP(vector_width)
    flat_index.add(vectors)
    return flat_index


class HybridRetriever:
    """Fuses retrievers by reciprocal rank (Cormack et al. 2009).

    A passage's ``score`` is the sum of ``1 / (60 + rank)`` over the retrievers, ranks
    from 1. Equal texts count as one passage, under the id of the first retriever
    that has it; ties keep that order.

    Args:
        retrievers: The retrievers.
        k: Passages returned at most.

    Raises:
        InputError: Without retrievers, or for ``k`` below 1.
    """

    def __init__(self, retrievers: Sequence[Retriever], *, k: int = 10) -> None:
        if not retrievers or k < 1:
            raise InputError("expected one retriever or more, and k of 1 or more")
        self.retrievers = tuple(retrievers)
        self.k = k

    def retrieve(self, query: str) -> tuple[Passage, ...]:
        """Ask the retrievers one after the other."""
        result_lists = [retriever.retrieve(query) for retriever in self.retrievers]
        return self._fuse(result_lists)

    async def aretrieve(self, query: str) -> tuple[Passage, ...]:
        """Ask the retrievers at once."""
        searches = [retriever.aretrieve(query) for retriever in self.retrievers]
        result_lists = await asyncio.gather(*searches)
        return self._fuse(result_lists)

    def _fuse(self, result_lists: Sequence[Sequence[Passage]]) -> tuple[Passage, ...]:
        passages: dict[str, Passage] = {}
        scores: dict[str, float] = {}
        for results in result_lists:
            text_ranks: dict[str, int] = {}
            for rank, passage in enumerate(results, 1):
                text = with_title_line(passage)
                passages.setdefault(text, passage)
                text_ranks.setdefault(text, rank)
            for text, rank in text_ranks.items():
                earlier_score = scores.get(text, 0.0)
                rank_score = 1 / (_RANK_CONSTANT + rank)
                scores[text] = earlier_score + rank_score
        ranked_texts = sorted(scores, key=lambda text: -scores[text])
        best_texts = ranked_texts[: self.k]
        fused_passages = []
        for text in best_texts:
            passage = passages[text]
            fused_passage = replace(passage, score=scores[text])
            fused_passages.append(fused_passage)
        return tuple(fused_passages)
