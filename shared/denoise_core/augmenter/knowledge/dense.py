"""Dense retrieval: embeddings in a FAISS index (extra ``dense``)."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from denoise_core._optional import require
from denoise_core.augmenter.engine import titled
from denoise_core.errors import InputError
from denoise_core.running.offload import offload
from denoise_core.running.recipes import Travels
from denoise_core.types import Passage, check_passages

if TYPE_CHECKING:
    from denoise_core.scorers.encoders import Embeds


class DenseRetriever(Travels):
    """The ``k`` passages nearest to the query by cosine, exactly (a flat index).

    ``embed`` is what `EmbeddingScorer` takes: a function, an embedding model, or the name of a
    sentence-transformers model. Nothing is loaded or embedded before the first search. Raises `InputError` for
    repeated ids and ``k < 1``, and what `EmbeddingScorer` raises.
    """

    named = ("embed",)

    def __init__(self, passages: Sequence[Passage], embed: Embeds, *, k: int = 10) -> None:

        from denoise_core.scorers.encoders import EmbeddingScorer  # not before one is made: all scorers come

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
                known = self._scorer.vectors([titled(p) for p in self.passages])
                self._index = require("faiss", extra="dense").IndexFlatIP(known.shape[1])
                self._index.add(known)
            asked = self._scorer.asked(query, self._index.d)[None]
        scores, places = self._index.search(asked, min(self.k, len(self.passages)))
        return tuple(replace(self.passages[i], score=float(s)) for s, i in zip(scores[0], places[0], strict=True))

    async def aretrieve(self, query: str) -> tuple[Passage, ...]:
        return await offload(self.retrieve, query)
