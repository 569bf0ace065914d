"""A retriever over passages in memory: BM25."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from denoise_core.augmenter.prompts import with_title_line
from denoise_core.errors import InputError
from denoise_core.runtime.thread_pool import run_in_pool
from denoise_core.types import Passage, check_passages

if TYPE_CHECKING:
    from denoise_core.scorers.bm25 import BM25Index


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
        scores = self.term_scores(query).sum(0)
        order = (-scores).argsort(kind="stable")
        results = []
        for index in order[: self.k]:
            if scores[index] > 0:
                score = float(scores[index])
                results.append(replace(self.passages[index], score=score))
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

                self._index = BM25Index(
                    [with_title_line(p) for p in self.passages], language=self.language
                )
        return self._index.term_scores(query)
