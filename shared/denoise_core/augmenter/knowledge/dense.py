"""Dense retrieval: embeddings in a FAISS index (extra ``dense``)."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from denoise_core._optional import require
from denoise_core.augmenter.engine import titled
from denoise_core.errors import InputError
from denoise_core.running.offload import offload
from denoise_core.running.recipes import Travels
from denoise_core.types import Passage, check_passages

Embed: TypeAlias = Callable[[list[str]], Any]
"""Texts to an array of shape ``(texts, width)``; it is normalised here."""


class DenseRetriever(Travels):
    """The ``k`` passages nearest to the query by cosine, exactly (a flat index).

    ``embed`` is a function, or the name of a sentence-transformers model. Nothing is loaded or embedded
    before the first search. Raises `InputError` for repeated ids, ``k < 1`` or embeddings of a wrong shape.
    """

    def __init__(self, passages: Sequence[Passage], embed: Embed | str, *, k: int = 10) -> None:
        if k < 1:
            raise InputError(f"k={k}: expected 1 or more")
        self.passages = check_passages(passages)
        self.embed = embed
        self.k = k
        self._lock = threading.Lock()
        self._index: Any = None
        self._function: Embed | None = None

    def retrieve(self, query: str) -> tuple[Passage, ...]:
        if not self.passages:
            return ()
        with self._lock:  # models are rarely safe to call from two threads
            if self._index is None:
                vectors = self._vectors([titled(p) for p in self.passages])
                index = require("faiss", extra="dense").IndexFlatIP(vectors.shape[1])
                index.add(vectors)
                self._index = index
            asked = self._vectors([query])
        if asked.shape[1] != self._index.d:
            raise InputError(f"embed gave width {asked.shape[1]} for the query and {self._index.d} for passages")
        scores, places = self._index.search(asked, min(self.k, len(self.passages)))
        return tuple(
            replace(self.passages[i], score=float(s)) for s, i in zip(scores[0], places[0], strict=True) if i >= 0
        )

    async def aretrieve(self, query: str) -> tuple[Passage, ...]:
        return await offload(self.retrieve, query)

    def _vectors(self, texts: list[str]) -> NDArray[np.float32]:
        if self._function is None:
            self._function = _model(self.embed) if isinstance(self.embed, str) else self.embed
        found = np.asarray(self._function(texts), dtype=np.float32)
        if found.ndim != 2 or len(found) != len(texts):
            raise InputError(f"embed: expected an array of shape ({len(texts)}, width), got {found.shape}")
        if not np.isfinite(found).all():
            raise InputError("embed: expected finite numbers")
        return np.ascontiguousarray(found / np.maximum(np.linalg.norm(found, axis=1, keepdims=True), 1e-12))


def _model(name: str) -> Embed:
    model = require("sentence_transformers", extra="dense").SentenceTransformer(name)

    def embed(texts: list[str]) -> Any:
        return model.encode(texts, convert_to_numpy=True)

    return embed
