"""Embedding cosine: how close question and text lie in the space of a sentence embedding model."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import Any, Protocol, TypeAlias, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from denoise_core._optional import require
from denoise_core.errors import BadScores, InputError
from denoise_core.protocols import numbers
from denoise_core.running.caches.stores import Once
from denoise_core.running.recipes import Travels

Vectors: TypeAlias = Callable[[Sequence[str]], Any]


@runtime_checkable
class Encodes(Protocol):
    """A model with ``encode`` (sentence-transformers, model2vec)."""

    def encode(self, sentences: list[str], /) -> Any: ...


@runtime_checkable
class EmbedsDocuments(Protocol):
    """An embedding model of LangChain's form; queries have a method of their own."""

    def embed_documents(self, texts: list[str], /) -> Any: ...

    def embed_query(self, text: str, /) -> Any: ...


@runtime_checkable
class EmbedsTexts(Protocol):
    """An embedding model of LlamaIndex's form; queries have a method of their own."""

    def get_text_embedding_batch(self, texts: list[str], /) -> Any: ...

    def get_query_embedding(self, query: str, /) -> Any: ...


Embeds: TypeAlias = Vectors | Encodes | EmbedsDocuments | EmbedsTexts | str


class EmbeddingScorer(Travels):
    """Cosine of query and text, -1 to 1.

    ``embed`` is a callable from texts to vectors ``(n, d)``, an object with ``encode``, an embedding model of
    LangChain's or LlamaIndex's form (which embeds queries its own way), or the name or path of a
    sentence-transformers model (loaded at the first call; needs the extra ``dense``). ``query_embed`` embeds the
    query where that differs. A text of zero length in the space scores 0. Raises `InputError` for anything else.
    """

    named = ("embed",)

    def __init__(self, embed: Embeds, *, query_embed: Vectors | None = None) -> None:
        if not isinstance(embed, str) and not _embeds(embed):
            raise InputError(
                "embed: expected a callable, a model with encode(), an embedding model of LangChain or LlamaIndex "
                f"or a name, got {embed.__name__ if isinstance(embed, type) else type(embed).__name__}"
            )
        self.embed = embed
        self.query_embed = query_embed
        self._loaded: tuple[Vectors, Vectors] | None = None
        self._lock = threading.Lock()

    def score(self, query: str, texts: Sequence[str]) -> NDArray[np.float32]:
        """Cosines, shape ``(len(texts),)``. Raises `InputError` when a vector is missing or not finite."""
        if not texts:
            return np.zeros(0, dtype=np.float32)
        known = self.vectors(texts)
        return np.asarray(known @ self.asked(query, known.shape[1]), dtype=np.float32)

    def vectors(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """The texts' vectors of length 1 (or 0), shape ``(len(texts), d)``. Raises as `score`."""
        return _unit(_checked(self._embedders()[0](list(texts)), len(texts)))

    def asked(self, query: str, width: int) -> NDArray[np.float32]:
        """The query's vector of length 1 (or 0), shape ``(width,)``. Raises as `score`."""
        asked: NDArray[np.float32] = _unit(_checked((self.query_embed or self._embedders()[1])([query]), 1))[0]
        if len(asked) != width:
            raise InputError(f"the query's vector has {len(asked)} values, the texts' have {width}")
        return asked

    def _embedders(self) -> tuple[Vectors, Vectors]:
        with self._lock:
            if self._loaded is None:
                self._loaded = _embedders(self.embed)
            return self._loaded


_models: Once[Any] = Once()  # by name, for as long as somebody uses one


def _embedders(embed: Embeds) -> tuple[Vectors, Vectors]:
    """Of texts, and of queries."""
    if isinstance(embed, str):
        # "dense" is the extra that brings sentence-transformers; its own default for remote code is off, too.
        name = embed
        module = require("sentence_transformers", extra="dense")
        model: Encodes = _models(name, lambda: module.SentenceTransformer(name, trust_remote_code=False))
        return _encodes(model)
    # Before callable: some of these are both.
    if isinstance(embed, EmbedsTexts):
        texts_of = embed
        return (
            lambda texts: texts_of.get_text_embedding_batch(list(texts)),
            lambda queries: [texts_of.get_query_embedding(q) for q in queries],
        )
    if isinstance(embed, EmbedsDocuments):
        documents_of = embed
        return (
            lambda texts: documents_of.embed_documents(list(texts)),
            lambda queries: [documents_of.embed_query(q) for q in queries],
        )
    return _encodes(embed) if isinstance(embed, Encodes) else (embed, embed)


def _encodes(model: Encodes) -> tuple[Vectors, Vectors]:
    def vectors(texts: Sequence[str]) -> Any:
        return model.encode(list(texts))

    return vectors, vectors


def _embeds(value: object) -> bool:
    forms = isinstance(value, (Encodes, EmbedsDocuments, EmbedsTexts))
    return not isinstance(value, type) and (forms or callable(value))


def _checked(vectors: Any, n: int) -> NDArray[np.float32]:
    out = numbers(vectors)
    if out.ndim != 2 or len(out) != n:
        raise BadScores(f"embed must return one vector for each of {n} texts, got an array of shape {out.shape}")
    if not np.isfinite(out).all():
        raise BadScores("embed returned vectors that are not finite (NaN or infinite)")
    return out


def _unit(vectors: NDArray[np.float32]) -> NDArray[np.float32]:
    length = np.linalg.norm(vectors, axis=1, keepdims=True)
    unit = np.divide(vectors, length, out=np.zeros_like(vectors), where=length > 0)
    return np.asarray(unit, dtype=np.float32)
