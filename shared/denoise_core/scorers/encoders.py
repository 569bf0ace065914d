"""Models that read texts as scorers: sentence encoders by cosine, cross-encoders question and text together.

A model is a callable, an object of one of the usual forms, or the name or path of a sentence-transformers model.
That is loaded at the first call, without running code that comes with it, and needs the extra ``dense``.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import Any, Protocol, TypeAlias, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from denoise_core._optional import require
from denoise_core.errors import BadScores, InputError
from denoise_core.protocols import to_float32
from denoise_core.runtime.caches import SingleLoadCache

Floats = NDArray[np.float32]
Vectors: TypeAlias = Callable[[list[str]], Any]
PairFunction: TypeAlias = Callable[[list[tuple[str, str]]], Any]


@runtime_checkable
class SentenceModel(Protocol):
    """A model with ``encode`` (sentence-transformers, model2vec)."""

    def encode(self, sentences: list[str], /) -> Any: ...


@runtime_checkable
class LangChainEmbeddings(Protocol):
    """An embedding model of LangChain's form; queries have a method of their own."""

    def embed_documents(self, texts: list[str], /) -> Any: ...

    def embed_query(self, text: str, /) -> Any: ...


@runtime_checkable
class LlamaIndexEmbeddings(Protocol):
    """An embedding model of LlamaIndex's form; queries have a method of their own."""

    def get_text_embedding_batch(self, texts: list[str], /) -> Any: ...

    def get_query_embedding(self, query: str, /) -> Any: ...


@runtime_checkable
class PairModel(Protocol):
    """A model with ``predict`` over pairs, such as sentence-transformers' ``CrossEncoder``."""

    def predict(self, sentences: Any, /) -> Any: ...


EmbeddingModel: TypeAlias = (
    Vectors | SentenceModel | LangChainEmbeddings | LlamaIndexEmbeddings | str
)

_models: SingleLoadCache[Any] = (
    SingleLoadCache()
)  # by kind and name, for as long as somebody uses one


def _by_name(kind: str, name: str) -> Any:
    module = require("sentence_transformers", extra="dense")
    return _models(
        (kind, name), lambda: getattr(module, kind)(name, trust_remote_code=False)
    )


class EmbeddingScorer:
    """Cosine of query and text, -1 to 1.

    ``embed`` is a callable from texts to vectors ``(n, d)``, an object with ``encode``, an embedding model of
    LangChain's or LlamaIndex's form (which embeds queries its own way), or a name or path. A text of zero length
    in the space scores 0. Raises `InputError` for anything else.
    """

    def __init__(self, embed: EmbeddingModel) -> None:
        forms = (str, SentenceModel, LangChainEmbeddings, LlamaIndexEmbeddings)
        if isinstance(embed, type) or not (isinstance(embed, forms) or callable(embed)):  # pyright: ignore
            raise InputError(
                "embed: expected a callable, a model with encode(), an embedding model of LangChain or LlamaIndex "
                f"or a name, got {embed.__name__ if isinstance(embed, type) else type(embed).__name__}"
            )
        self.embed = embed
        self._loaded: tuple[Vectors, Vectors] | None = None
        self._lock = threading.Lock()

    def score(self, query: str, texts: Sequence[str]) -> Floats:
        """Cosines, shape ``(len(texts),)``. Raises `InputError` when a vector is missing or not finite."""
        if not texts:
            return np.zeros(0, dtype=np.float32)
        known = self.text_vectors(texts)
        return np.asarray(
            known @ self.query_vector(query, known.shape[1]), dtype=np.float32
        )

    def text_vectors(self, texts: Sequence[str]) -> Floats:
        """The texts' vectors of length 1 (or 0), shape ``(len(texts), d)``. Raises as `score`."""
        return _unit(self._embedders()[0](list(texts)), len(texts))

    def query_vector(self, query: str, width: int) -> Floats:
        """The query's vector of length 1 (or 0), shape ``(width,)``. Raises as `score`."""
        asked: Floats = _unit(self._embedders()[1]([query]), 1)[0]
        if len(asked) != width:
            raise InputError(
                f"the query's vector has {len(asked)} values, the texts' have {width}"
            )
        return asked

    def _embedders(self) -> tuple[Vectors, Vectors]:
        with self._lock:
            self._loaded = self._loaded or _embedders(self.embed)
            return self._loaded


def _embedders(embed: EmbeddingModel) -> tuple[Vectors, Vectors]:
    """Of texts, and of queries."""
    model = _by_name("SentenceTransformer", embed) if isinstance(embed, str) else embed
    # Before callable: some of these are both.
    if isinstance(model, LlamaIndexEmbeddings):
        return model.get_text_embedding_batch, lambda queries: [
            model.get_query_embedding(q) for q in queries
        ]
    if isinstance(model, LangChainEmbeddings):
        return model.embed_documents, lambda queries: [
            model.embed_query(q) for q in queries
        ]
    both = model.encode if isinstance(model, SentenceModel) else model
    return both, both


def _unit(vectors: Any, n: int) -> Floats:
    """``n`` vectors at length 1, or 0."""
    out = to_float32(vectors)
    if out.ndim != 2 or len(out) != n:
        raise BadScores(
            f"embed must return one vector for each of {n} texts, got an array of shape {out.shape}"
        )
    if not np.isfinite(out).all():
        raise BadScores("embed returned vectors that are not finite (NaN or infinite)")
    length = np.linalg.norm(out, axis=1, keepdims=True)
    return np.asarray(
        np.divide(out, length, out=np.zeros_like(out), where=length > 0),
        dtype=np.float32,
    )


class CrossEncoderScorer:
    """Scores of a cross-encoder, in its own unit.

    ``model`` is a callable from (question, text) pairs to scores ``(n,)``, an object with ``predict``, or a name
    or path.
    """

    def __init__(self, model: PairFunction | PairModel | str) -> None:
        self.model = model
        self._loaded: PairFunction | None = None
        self._lock = threading.Lock()

    def score(self, query: str, texts: Sequence[str]) -> Floats:
        """float32 ``(len(texts),)``. Raises `InputError` when the model does not give one score a pair."""
        if not texts:
            return np.zeros(0, dtype=np.float32)
        with self._lock:
            self._loaded = self._loaded or _predictor(self.model)
        scores = to_float32(self._loaded([(query, t) for t in texts]))
        if scores.ndim == 2 and scores.shape[1] == 1:
            scores = scores[:, 0]
        if scores.shape != (len(texts),):
            raise BadScores(
                f"expected one score for each of {len(texts)} pairs, got an array of shape {scores.shape}; "
                "a model with several classes is no reranker"
            )
        return scores


def _predictor(given: PairFunction | PairModel | str) -> PairFunction:
    model = _by_name("CrossEncoder", given) if isinstance(given, str) else given
    if isinstance(model, PairModel):
        return model.predict
    if callable(model):
        return model
    raise InputError(
        f"model: expected a callable, a model with predict(), or a name, got {type(model).__name__}"
    )
