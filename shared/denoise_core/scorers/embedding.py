"""Embedding cosine: how close question and text lie in the space of a sentence embedding model."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import Any, Protocol, TypeAlias, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from denoise_core._optional import require
from denoise_core.errors import BadScores, InputError
from denoise_core.running.caches.once import Once
from denoise_core.running.travel import Travels

Vectors: TypeAlias = Callable[[Sequence[str]], Any]


@runtime_checkable
class Encodes(Protocol):
    """A model with ``encode`` (sentence-transformers, model2vec)."""

    def encode(self, sentences: list[str], /) -> Any: ...


class EmbeddingScorer(Travels):
    """Cosine of query and text, -1 to 1.

    ``embed`` is a callable from texts to vectors ``(n, d)``, an object with ``encode``, or the name or
    path of a sentence-transformers model (loaded at the first call; needs the extra ``dense``).
    ``query_embed`` embeds the query where that differs. A text of zero length in the space scores 0.
    """

    named = ("embed",)

    def __init__(self, embed: Vectors | Encodes | str, *, query_embed: Vectors | None = None) -> None:
        self.embed = embed
        self.query_embed = query_embed
        self._loaded: Vectors | None = None
        self._lock = threading.Lock()

    def score(self, query: str, texts: Sequence[str]) -> NDArray[np.float32]:
        """Cosines, shape ``(len(texts),)``. Raises `InputError` when a vector is missing or not finite."""
        if not texts:
            return np.zeros(0, dtype=np.float32)
        embed = self._embedder()
        vectors = _checked(embed(list(texts)), len(texts))
        asked = _checked((self.query_embed or embed)([query]), 1)
        if asked.shape[1] != vectors.shape[1]:
            raise InputError(f"the query's vector has {asked.shape[1]} values, the texts' have {vectors.shape[1]}")
        return np.asarray(_unit(vectors) @ _unit(asked)[0], dtype=np.float32)

    def _embedder(self) -> Vectors:
        with self._lock:
            if self._loaded is None:
                self._loaded = _embedder(self.embed)
            return self._loaded


_models: Once[Any] = Once()  # by name, for as long as somebody uses one


def _embedder(embed: Vectors | Encodes | str) -> Vectors:
    if isinstance(embed, str):
        # "dense" is the extra that brings sentence-transformers; its own default for remote code is off, too.
        name = embed
        module = require("sentence_transformers", extra="dense")
        loaded = _models(name, lambda: module.SentenceTransformer(name, trust_remote_code=False))
        return lambda texts: loaded.encode(list(texts))
    if isinstance(embed, Encodes):  # before callable: a sentence-transformers model is both
        model = embed
        return lambda texts: model.encode(list(texts))
    if callable(embed):
        return embed
    raise InputError(f"embed: expected a callable, a model with encode(), or a name, got {type(embed).__name__}")


def _checked(vectors: Any, n: int) -> NDArray[np.float32]:
    out = np.asarray(vectors, dtype=np.float32)
    if out.ndim != 2 or len(out) != n:
        raise BadScores(f"embed must return one vector for each of {n} texts, got an array of shape {out.shape}")
    if not np.isfinite(out).all():
        raise BadScores("embed returned vectors that are not finite (NaN or infinite)")
    return out


def _unit(vectors: NDArray[np.float32]) -> NDArray[np.float32]:
    length = np.linalg.norm(vectors, axis=1, keepdims=True)
    unit = np.divide(vectors, length, out=np.zeros_like(vectors), where=length > 0)
    return np.asarray(unit, dtype=np.float32)
