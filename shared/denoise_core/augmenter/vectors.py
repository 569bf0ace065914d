"""Vectors of texts, kept: a loop judges the same evidence again and a policy reads the same question again."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from denoise_core.errors import InputError
from denoise_core.running.recipes import Travels

Embed: TypeAlias = Callable[[list[str]], Any]
"""Texts to an array of shape ``(texts, width)``."""

Vectors = NDArray[np.float32]


class KeptVectors(Travels):
    """Vectors of length 1 by ``embed``, which is asked once for each text as long as that text is kept.

    ``keep`` texts are kept, those not asked for longest go first. ``embed`` is asked for all new texts of a
    call together, by one thread at a time, and never while nothing is new. Raises `InputError` for ``keep < 1``.
    """

    def __init__(self, embed: Embed, *, keep: int = 4096) -> None:
        if keep < 1:
            raise InputError(f"keep={keep}: expected 1 or more")
        self.embed = embed
        self.keep = keep
        self._kept: OrderedDict[str, Vectors] = OrderedDict()
        self._lock = threading.Lock()

    def __call__(self, texts: Sequence[str]) -> Vectors:
        """float32 ``(len(texts), width)``, rows of length 1 (or of zeros). Raises `InputError` when ``texts`` is
        empty, and when ``embed`` returns another shape or numbers that are not finite."""
        if not texts:
            raise InputError("texts: expected one or more")
        with self._lock:
            new = [t for t in dict.fromkeys(texts) if t not in self._kept]
            found = dict(zip(new, self._embedded(new), strict=True)) if new else {}
            for text in dict.fromkeys(texts):
                if text in self._kept:
                    found[text] = self._kept[text]
                self._kept[text] = found[text]
                self._kept.move_to_end(text)
            while len(self._kept) > self.keep:
                self._kept.popitem(last=False)
        return np.stack([found[t] for t in texts])

    def _embedded(self, texts: list[str]) -> Vectors:
        vectors = np.asarray(self.embed(texts), dtype=np.float32)
        if vectors.ndim != 2 or len(vectors) != len(texts) or not vectors.shape[1]:
            raise InputError(f"embed: expected an array of shape ({len(texts)}, width), got {vectors.shape}")
        if not np.isfinite(vectors).all():
            raise InputError("embed: expected finite numbers")
        lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
        return np.asarray(vectors / np.maximum(lengths, 1e-12), dtype=np.float32)
