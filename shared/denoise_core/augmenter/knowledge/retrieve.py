"""Retrievers over passages in memory: BM25, embeddings, several as one; and tables as passages."""

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
from denoise_core.errors import InputError
from denoise_core.protocols import Retriever
from denoise_core.runtime.thread_pool import run_in_pool
from denoise_core.types import Passage, check_passages

if TYPE_CHECKING:
    from denoise_core.scorers.bm25 import BM25Index
    from denoise_core.scorers.encoders import EmbeddingModel


class BM25Retriever:
    """The ``k`` best of ``passages`` by BM25, with the score in ``Passage.score``; none that shares no word.

    The index (bm25s) is built at the first search. ``language`` is a Snowball name; None does not stem. A
    passage's title (``metadata["title"]``) is indexed with its text. Ties keep the order of ``passages``.
    Raises `InputError` for repeated ids, ``k < 1`` or an unknown language.
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
        scores = self.scores(query)
        order = sorted(
            (i for i, s in enumerate(scores) if s > 0), key=lambda i: -scores[i]
        )
        return tuple(
            replace(self.passages[i], score=float(scores[i])) for i in order[: self.k]
        )

    async def aretrieve(self, query: str) -> tuple[Passage, ...]:
        return await run_in_pool(self.retrieve, query)

    def scores(self, query: str) -> Sequence[float]:
        """One BM25 score for each passage, in their order; 0.0 where no word is shared."""
        found: Sequence[float] = self.term_scores(query).sum(0).tolist()
        return found

    def term_scores(self, query: str) -> NDArray[np.float32]:
        """What each word of the query adds: shape ``(words, passages)``; words nobody has are left out.

        Words without content (articles, auxiliaries, question words) count only in a query of nothing else.
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


class DenseRetriever:
    """The ``k`` passages nearest to the query by cosine, exactly (a flat FAISS index, extra ``dense``).

    ``embed`` is what `EmbeddingScorer` takes: a function, an embedding model, or the name of a
    sentence-transformers model. Nothing is loaded or embedded before the first search. Raises `InputError` for
    repeated ids and ``k < 1``, and what `EmbeddingScorer` raises.
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
        self._index: Any = None

    def retrieve(self, query: str) -> tuple[Passage, ...]:
        if not self.passages:
            return ()
        with self._lock:  # models are rarely safe to call from two threads
            if self._index is None:
                known = self._scorer.text_vectors(
                    [with_title_line(p) for p in self.passages]
                )
                self._index = require("faiss", extra="dense").IndexFlatIP(
                    known.shape[1]
                )
                self._index.add(known)
            asked = self._scorer.query_vector(query, self._index.d)[None]
        scores, places = self._index.search(asked, min(self.k, len(self.passages)))
        return tuple(
            replace(self.passages[i], score=float(s))
            for s, i in zip(scores[0], places[0], strict=True)
        )

    async def aretrieve(self, query: str) -> tuple[Passage, ...]:
        return await run_in_pool(self.retrieve, query)


class HybridRetriever:
    """The ``k`` best by the sum of ``1 / (constant + rank)`` over the retrievers, ranks from 1: reciprocal rank
    fusion (Cormack et al. 2009).

    Equal texts count as one passage, under the id it has where it was found first; ties keep that order.
    ``score`` is the sum. Raises `InputError` without retrievers, for ``k < 1`` or a negative ``constant``.
    """

    def __init__(
        self, retrievers: Sequence[Retriever], *, k: int = 10, constant: float = 60.0
    ) -> None:
        if not retrievers or k < 1 or constant < 0:
            raise InputError(
                "expected one retriever or more, k of 1 or more and constant of 0 or more"
            )
        self.retrievers = tuple(retrievers)
        self.k = k
        self.constant = constant

    def retrieve(self, query: str) -> tuple[Passage, ...]:
        return self._fused([r.retrieve(query) for r in self.retrievers])

    async def aretrieve(self, query: str) -> tuple[Passage, ...]:
        return self._fused(
            await asyncio.gather(*(r.aretrieve(query) for r in self.retrievers))
        )

    def _fused(self, lists: Sequence[Sequence[Passage]]) -> tuple[Passage, ...]:
        passages: dict[str, Passage] = {}
        scores: dict[str, float] = {}
        for found in lists:
            seen: set[str] = set()
            for rank, passage in enumerate(found, 1):
                key = with_title_line(passage)
                if key in seen:
                    continue
                seen.add(key)
                passages.setdefault(key, passage)
                scores[key] = scores.get(key, 0.0) + 1 / (self.constant + rank)
        ranked = sorted(scores, key=lambda key: -scores[key])
        return tuple(
            replace(passages[key], score=scores[key]) for key in ranked[: self.k]
        )


def rows_as_passages(
    header: Sequence[str],
    rows: Sequence[Sequence[object]],
    *,
    title: str,
    table_id: str,
) -> tuple[Passage, ...]:
    """``Year is 2017 ; Title is Madden NFL 18``: one passage a row, empty cells left out.

    Ids are ``<table_id>#row<n>``, n from 0; the metadata holds ``title``, ``kind`` ("row"), ``table`` and
    ``row``, so that a chain leads back to the row. Raises `InputError` for a row of another length than the
    header, naming it.
    """
    found = []
    for n, row in enumerate(rows):
        if len(row) != len(header):
            raise InputError(
                f"table {table_id!r}, row {n}: expected {len(header)} cells, got {len(row)}"
            )
        cells = [
            (name, str(cell).strip())
            for name, cell in zip(header, row, strict=True)
            if cell is not None
        ]
        text = " ; ".join(
            f"{name} is {cell}" if name else cell for name, cell in cells if cell
        )
        metadata = {"title": title, "kind": "row", "table": table_id, "row": n}
        found.append(Passage(text, f"{table_id}#row{n}", metadata=metadata))
    return tuple(found)
