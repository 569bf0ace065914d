"""A sentence encoder that reads question and passages apart, and scores them in three ways.

One pass over a text gives all signals:

- ``cosine``: of the mean-pooled last layer, the model's own embedding.
- ``maxsim``: late interaction (Khattab and Zaharia, ColBERT, section 3). For each word
  piece of the question the best cosine among the passage's pieces, averaged with weights
  for how rare the piece is in the list.
- ``rest``: the same, with each piece weighted once more by how far the best passage leaves
  it uncovered. A passage that answers the other half of a two-part question ranks high
  there; one that repeats the best passage does not.

A text's embeddings do not depend on the question, so `EmbeddingCache` keeps them by the
text's content: in memory up to a limit, and on disk for other processes, word pieces in
8 bit. The file holds numbers and nothing that is executed.
"""

from __future__ import annotations

import hashlib
import logging
import threading
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, fields
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from denoise_core.embedded.minilm import Floats, MiniLM, load_network, load_tokenizer
from denoise_core.local.batching import split_windows
from denoise_core.runtime.caches import FailSafeStore, SingleLoadCache, SqliteStore
from denoise_core.types import replace_surrogates
from denoise_core.weighted_cache import WeightedLRUCache

CACHE_BYTES = 512 * 2**20
CACHE_FORMAT = 2  # of safetensors, over the weights in 16 bit
CACHE_FILE = "embeddings.sqlite"
BATCH_TEXTS = 64  # texts encoded before their embeddings are stored
MAX_QUERY_TOKENS = 128  # longer questions are cut for maxsim and rest
QUESTION_START = 3  # word pieces, "what are the", that `embed_question` reads apart
# `SentenceEncoder.boost_multi_hop`: how many best texts the others are compared with, and
# how far below such a text, in units of the score, the text closest to it is raised.
BOOST_TEXTS = 2
BOOST_MARGIN = 1.5

log = logging.getLogger("denoise_core")


class SentenceEncoder:
    """MiniLM, which loads at its first use, once a process, without torch.

    Args:
        folder: The encoder's folder.
        name: The model's name; embeddings of another name are never taken from the cache.
        cache_folder: Where to keep the embeddings for other processes. Without it they are
            kept in memory, up to `CACHE_BYTES`.
    """

    names = ("cosine", "maxsim", "rest")
    listwise = True  # the weights of maxsim and rest come from the whole list

    def __init__(
        self,
        folder: Path,
        *,
        name: str | None = None,
        cache_folder: str | Path | None = None,
    ) -> None:
        self.folder = folder
        self.name = name
        self.cache_folder = cache_folder
        self.embedding_cache = EmbeddingCache(name or str(folder), folder=cache_folder)

    def signals(self, query: str, texts: Sequence[str]) -> Floats:
        """Score texts by all three signals.

        A text longer than the model's window is read in parts, and each signal is that of
        its best part.

        Returns:
            float32 ``(len(texts), 3)``: cosine, maxsim and rest, each -1 to 1.
        """
        if not texts:
            return np.zeros((0, 3), dtype=np.float32)
        text_embeddings = self._encode_texts(texts)
        query_embedding, query_vectors, query_ids = self._encode_query(query)
        all_windows = TokenEmbeddings.join(text_embeddings)
        nearest_cosines = _nearest_cosines(all_windows, query_vectors)
        piece_rarity = token_idf(
            query_ids, [text_embedding.ids for text_embedding in text_embeddings]
        )
        maxsim = _weighted_mean(nearest_cosines, piece_rarity, piece_rarity)
        best_coverage = np.clip(nearest_cosines[maxsim.argmax()], 0, 1)
        residual_scores = _weighted_mean(
            nearest_cosines, piece_rarity * (1 - best_coverage), piece_rarity
        )
        cosine = all_windows.sentence @ query_embedding
        window_signals = np.column_stack([cosine, maxsim, residual_scores])
        window_counts = [
            len(text_embedding.parts) for text_embedding in text_embeddings
        ]
        window_owners = np.repeat(np.arange(len(texts)), window_counts)
        signals = np.full((len(texts), 3), -np.inf, dtype=np.float32)
        np.maximum.at(signals, window_owners, window_signals)
        return signals

    def boost_multi_hop(
        self, query: str, texts: Sequence[str], scores: Floats
    ) -> Floats:
        """Raise the scores of texts that continue what the best texts say.

        Only words count that a best text adds to the question and another text shares, the
        rarer the more. No score falls, and the best text stays the best.

        Args:
            query: The question.
            texts: The texts that ``scores`` belong to.
            scores: One score per text.

        Returns:
            Scores ``(len(texts),)``. The text closest to one of the `BOOST_TEXTS` best is
            raised to `BOOST_MARGIN` below it.
        """
        text_embeddings = self._encode_texts(texts)
        query_vectors = self._encode_query(query)[1]
        boosted_scores = scores.copy()
        if len(texts) <= 2 or not len(query_vectors):
            return boosted_scores
        for best_index in np.argsort(-scores, kind="stable")[:BOOST_TEXTS]:
            other_indices = np.delete(np.arange(len(texts)), best_index)
            text_closeness = _closeness_beyond_query(
                text_embeddings[best_index],
                [text_embeddings[i] for i in other_indices],
                query_vectors,
            )
            if text_closeness.std() > 0:
                relative_closeness = (
                    text_closeness - text_closeness.max()
                ) / text_closeness.std()
                score_offsets = (
                    relative_closeness * scores[other_indices].std() - BOOST_MARGIN
                )
                boosted_scores[other_indices] = np.maximum(
                    boosted_scores[other_indices], scores[best_index] + score_offsets
                )
        return boosted_scores

    def embed_texts(self, texts: Sequence[str]) -> Floats:
        """Compute the model's own embeddings: mean-pooled and of length 1.

        A text longer than the window is embedded by its beginning.

        Returns:
            float32 ``(len(texts), width)``.
        """
        if not texts:
            vector_width = self._load()[0].word_embeddings.shape[1]
            return np.zeros((0, vector_width), dtype=np.float32)
        return np.stack(
            [text_embedding.sentence[0] for text_embedding in self._encode_texts(texts)]
        )

    def embed_question(self, query: str) -> Floats:
        """Embed what a question is about and how it begins.

        Returns:
            float32 ``(2 * width,)``: the model's own embedding, then the mean of the first
            `QUESTION_START` word pieces.
        """
        query_embedding, query_vectors, _ = self._encode_query(query)
        start_vector = np.zeros_like(query_embedding)
        if len(query_vectors):
            start_vector = query_vectors[:QUESTION_START].mean(0)
        return np.concatenate([query_embedding, start_vector])

    def precompute(self, texts: Sequence[str]) -> int:
        """Embed texts before any question, such as at indexing time.

        Returns:
            How many of them were not in the cache.
        """
        count_before = self.embedding_cache.computed_count
        for start in range(0, len(texts), BATCH_TEXTS):
            self._encode_texts(texts[start : start + BATCH_TEXTS])
        return self.embedding_cache.computed_count - count_before

    def count_tokens(self, text: str) -> int:
        """Count the word pieces of a text, without the special ones."""
        if not text:
            return 0
        (token_ids,) = self._tokenize([text])
        return len(token_ids)

    def _load(self) -> tuple[MiniLM, Any]:
        return load_encoder(self.folder)

    def _encode_query(self, query: str) -> tuple[Floats, Floats, list[int]]:
        """Embed the question: its embedding, its pieces' vectors ``(n, width)``, their ids."""
        encoder_network, tokenizer = self._load()
        query_ids = self._tokenize([query])[0][:MAX_QUERY_TOKENS]
        window_states = encoder_network.hidden_states(
            [_with_special(query_ids, tokenizer)]
        )[0]
        return _unit(window_states.mean(0)), _unit(window_states[1:-1]), query_ids

    def _encode_texts(self, texts: Sequence[str]) -> list[TokenEmbeddings]:
        return self.embedding_cache.get_or_compute(texts, self._compute_embeddings)

    def _compute_embeddings(self, texts: Sequence[str]) -> list[TokenEmbeddings]:
        encoder_network, tokenizer = self._load()
        max_tokens = encoder_network.max_tokens
        windows_of_text = []
        rows = []
        for token_ids in self._tokenize(texts):
            windows = split_windows(token_ids, max_tokens)
            windows_of_text.append(windows)
            rows += [_with_special(window, tokenizer) for window in windows]
        states = iter(encoder_network.hidden_states(rows))
        text_embeddings = []
        for windows in windows_of_text:
            own_states = list(islice(states, len(windows)))
            text_embeddings.append(TokenEmbeddings.from_states(windows, own_states))
        return text_embeddings

    def _tokenize(self, texts: Sequence[str]) -> list[list[int]]:
        """Split texts into the ids of their word pieces, without the special ones."""
        encodings = self._load()[1].encode_batch(
            [replace_surrogates(text) for text in texts], add_special_tokens=False
        )
        return [list(encoding.ids) for encoding in encodings]


_encoders: SingleLoadCache[tuple[MiniLM, Any]] = SingleLoadCache(keeps_all=True)


def load_encoder(folder: Path) -> tuple[MiniLM, Any]:
    """Load network and tokenizer of a folder, once a process, also from several threads."""
    return _encoders(folder, lambda: (load_network(folder), load_tokenizer(folder)))


def _with_special(token_ids: Sequence[int], tokenizer: Any) -> list[int]:
    first, last = tokenizer.encode("").ids
    return [first, *token_ids, last]


def token_idf(
    query_ids: Sequence[int] | NDArray[np.int32],
    text_ids: Sequence[Sequence[int] | NDArray[np.int32]],
) -> Floats:
    """Weigh each piece of the question by how rare it is among the texts, as BM25 does.

    Returns:
        float32 ``(len(query_ids),)``.
    """
    text_counts = np.zeros(len(query_ids), dtype=np.float32)
    for token_ids in text_ids:
        text_counts += np.isin(query_ids, token_ids)
    rarity_odds = (len(text_ids) - text_counts + 0.5) / (text_counts + 0.5)
    return np.asarray(np.log(1 + rarity_odds), dtype=np.float32)


def _nearest_cosines(text_embedding: TokenEmbeddings, query_vectors: Floats) -> Floats:
    """Find each query piece's best cosine in each window, 0 in a window without pieces.

    Returns:
        float32 ``(windows, len(query_vectors))``.
    """
    nearest_cosines = np.zeros(
        (len(text_embedding.parts), len(query_vectors)), dtype=np.float32
    )
    has_tokens = np.flatnonzero(text_embedding.parts)
    if len(has_tokens) and len(query_vectors):
        token_cosines = (
            text_embedding.tokens.astype(np.float32) @ query_vectors.T
        ) * text_embedding.scale
        window_ends = np.cumsum(text_embedding.parts[has_tokens])
        window_starts = np.concatenate([[0], window_ends[:-1]])
        nearest_cosines[has_tokens] = np.maximum.reduceat(
            token_cosines, window_starts, axis=0
        )
    return nearest_cosines


def _closeness_beyond_query(
    best_embedding: TokenEmbeddings,
    other_embeddings: Sequence[TokenEmbeddings],
    query_vectors: Floats,
) -> Floats:
    """How close other texts are to what the best text adds to the question, ``(n,)``."""
    vectors = best_embedding.tokens * best_embedding.scale
    other_ids = [text_embedding.ids for text_embedding in other_embeddings]
    is_shared = np.isin(best_embedding.ids, np.concatenate(other_ids))
    in_query = np.clip((vectors @ query_vectors.T).max(1), 0, 1)
    piece_weights = (
        token_idf(best_embedding.ids, other_ids) * is_shared * (1 - in_query)
    )
    text_closeness = []
    # One by one: all pieces of a long list would fill the memory.
    for text_embedding in other_embeddings:
        nearest_cosines = _nearest_cosines(text_embedding, vectors)
        window_closeness = _weighted_mean(nearest_cosines, piece_weights, piece_weights)
        text_closeness.append(window_closeness.max())
    return np.array(text_closeness)


def _weighted_mean(
    nearest_cosines: Floats, piece_weights: Floats, total_weights: Floats
) -> Floats:
    """Average over the question's pieces, ``(windows,)``, relative to the whole weight."""
    total_weight = max(float(total_weights.sum()), 1e-6)
    return np.asarray(nearest_cosines @ piece_weights / total_weight, dtype=np.float32)


def _unit(vectors: Floats) -> Floats:
    vector_norms = np.linalg.norm(vectors, axis=-1, keepdims=True)
    return np.asarray(vectors / np.maximum(vector_norms, 1e-12), dtype=np.float32)


@dataclass(frozen=True, slots=True, eq=False)
class TokenEmbeddings:
    """The embeddings of one text, which has several windows when it is longer than one.

    The fields' names are the keys of the stored file.

    Attributes:
        ids: The word pieces, ``(n,)``.
        parts: How many word pieces each window has, ``(windows,)``.
        sentence: Each window's embedding, of length 1, ``(windows, width)``.
        tokens: The word pieces' vectors in 8 bit, ``(n, width)``.
        scale: What to multiply ``tokens`` by for vectors of length 1, ``(n, 1)``.
    """

    ids: NDArray[np.int32]
    parts: NDArray[np.int32]
    sentence: Floats
    tokens: NDArray[np.int8]
    scale: Floats

    @classmethod
    def from_states(
        cls, token_windows: Sequence[Sequence[int]], window_states: Sequence[Floats]
    ) -> TokenEmbeddings:
        """Pool and quantise a text's hidden states, given per window with special pieces."""
        vectors = _unit(np.concatenate([state[1:-1] for state in window_states]))
        largest_values = np.abs(vectors).max(1, keepdims=True, initial=0)
        scale = np.maximum(largest_values, 1e-12) / np.float32(127)
        return cls(
            np.concatenate(token_windows).astype(np.int32),
            np.array([len(token_ids) for token_ids in token_windows], dtype=np.int32),
            _unit(np.stack([state.mean(0) for state in window_states])),
            np.rint(vectors / scale).astype(np.int8),
            scale,
        )

    @classmethod
    def join(cls, texts: Sequence[TokenEmbeddings]) -> TokenEmbeddings:
        """Concatenate texts to one with all their windows."""
        field_columns = zip(
            *(text_embedding._arrays().values() for text_embedding in texts),
            strict=True,
        )
        return cls(*map(np.concatenate, field_columns))

    @property
    def nbytes(self) -> int:
        """The size in memory."""
        return sum(array.nbytes for array in self._arrays().values())

    def _arrays(self) -> dict[str, NDArray[Any]]:
        return {field.name: getattr(self, field.name) for field in fields(self)}

    def to_bytes(self) -> bytes:
        """Serialise as safetensors."""
        from safetensors.numpy import save

        named_arrays = {}
        for name, array in self._arrays().items():
            named_arrays[name] = np.ascontiguousarray(array)
        return save(named_arrays)

    @classmethod
    def from_bytes(cls, blob: bytes) -> TokenEmbeddings:
        """Read what `to_bytes` wrote.

        Raises:
            ValueError: The bytes are anything else.
        """
        from safetensors import SafetensorError
        from safetensors.numpy import load

        try:
            return cls(**load(blob))
        except (SafetensorError, TypeError) as error:
            raise ValueError("not stored embeddings, or cut off") from error


class EmbeddingCache:
    """Embeddings by the content of their texts. Several threads can share it.

    A folder that cannot be read or written is logged and tried again every few seconds. Texts are
    then embedded again, and nothing fails.

    Args:
        model: The name of the model; embeddings of other models are never found.
        memory: Bytes to hold in this process.
        folder: Where to keep the embeddings for other processes too.

    Attributes:
        computed_count: How many texts were not in the cache.
    """

    def __init__(
        self, model: str, *, memory: int = CACHE_BYTES, folder: str | Path | None = None
    ) -> None:
        self.model = model
        self.in_memory: WeightedLRUCache[bytes, TokenEmbeddings] = WeightedLRUCache(
            memory, lambda text_embedding: text_embedding.nbytes, name="embeddings"
        )
        self.store: SqliteStore | None = None
        if folder is not None:
            self.store = SqliteStore(
                Path(folder) / CACHE_FILE, max_entries=None, timeout=30
            )
        self.computed_count = 0
        self._bypass = FailSafeStore(f"embeddings in {folder}")
        self._lock = threading.Lock()

    def get_or_compute(
        self,
        texts: Sequence[str],
        compute: Callable[[list[str]], list[TokenEmbeddings]],
    ) -> list[TokenEmbeddings]:
        """Return the texts' embeddings; ``compute`` makes those that are not cached."""
        cache_keys = [self._key(text) for text in texts]
        text_by_key = dict(zip(cache_keys, texts, strict=True))
        embeddings = self._get_cached(text_by_key)
        missing_keys = [key for key in text_by_key if key not in embeddings]
        if missing_keys:
            computed = compute([text_by_key[key] for key in missing_keys])
            new_embeddings = dict(zip(missing_keys, computed, strict=True))
            self._add(new_embeddings)
            embeddings |= new_embeddings
        return [embeddings[key] for key in cache_keys]

    def _key(self, text: str) -> bytes:
        content = f"{self.model}, format {CACHE_FORMAT}\0{text}"
        content_bytes = content.encode("utf-8", "surrogatepass")
        content_hash = hashlib.sha256(content_bytes)
        return content_hash.digest()[:16]

    def _get_cached(self, cache_keys: Iterable[bytes]) -> dict[bytes, TokenEmbeddings]:
        cached_embeddings = {}
        not_in_memory = []
        for cache_key in cache_keys:
            embeddings = self.in_memory.get(cache_key)
            if embeddings is None:
                not_in_memory.append(cache_key)
            else:
                cached_embeddings[cache_key] = embeddings
        store = self.store
        stored_blobs = dict[bytes, bytes]()
        if store is not None:
            stored_blobs = self._bypass.attempt(
                lambda: store.get_many(not_in_memory), stored_blobs
            )
        for cache_key, blob in stored_blobs.items():
            try:
                stored_embeddings = TokenEmbeddings.from_bytes(blob)
            except ValueError as error:
                log.warning(
                    "stored embeddings of a text are damaged (%s); it is embedded again",
                    type(error).__name__,
                )
                continue
            cached_embeddings[cache_key] = stored_embeddings
            self.in_memory.put(cache_key, stored_embeddings)
        return cached_embeddings

    def _add(self, new_embeddings: dict[bytes, TokenEmbeddings]) -> None:
        for cache_key, embeddings in new_embeddings.items():
            self.in_memory.put(cache_key, embeddings)
        with self._lock:
            self.computed_count += len(new_embeddings)
        store = self.store
        if store is not None:
            stored_blobs = {
                cache_key: text_embedding.to_bytes()
                for cache_key, text_embedding in new_embeddings.items()
            }
            self._bypass.attempt(lambda: store.put_many(stored_blobs), None)
