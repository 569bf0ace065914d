"""What a model computed for a passage, kept for the next question: an LRU bounded in bytes.

In a layout with the passage before the question, the keys and values of instruction and passage in the
first L blocks do not depend on the question (attention is causal), so the next question only costs its own
tokens. This file keeps them; `denoise_core.local.keeping.reuse` makes and uses them.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Hashable
from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar

from denoise_core.errors import InputError
from denoise_core.running.recipes import Travels


class Sized(Protocol):
    """An entry that knows its size."""

    @property
    def nbytes(self) -> int: ...


@dataclass(frozen=True, slots=True)
class PrefixStats:
    """``hits`` and ``misses`` count prompts."""

    hits: int = 0
    misses: int = 0
    evictions: int = 0
    entries: int = 0
    bytes: int = 0
    max_bytes: int = 0


E = TypeVar("E", bound=Sized)


class PrefixCache(Travels, Generic[E]):
    """Entries by key, the least recently used leaving first, never more than ``max_bytes``; thread-safe.

    ``max_bytes=0`` keeps nothing. An entry larger than the whole cache is not kept. Readers may share one:
    their keys hold model, layout, layer and tokens. Raises `InputError` for a negative size.
    """

    def __init__(self, max_bytes: int) -> None:
        if max_bytes < 0:
            raise InputError(f"max_bytes={max_bytes}: expected 0 (keep nothing) or more")
        self.max_bytes = max_bytes
        self._entries: OrderedDict[Hashable, E] = OrderedDict()
        self._bytes = self._hits = self._misses = self._evictions = 0
        self._lock = threading.Lock()

    def get(self, key: Hashable) -> E | None:
        """The entry, now the most recently used; counts a hit or a miss."""
        with self._lock:
            found = self._entries.get(key)
            if found is None:
                self._misses += 1
            else:
                self._hits += 1
                self._entries.move_to_end(key)
            return found

    def put(self, key: Hashable, entry: E) -> None:
        """Keep an entry; those longest unused leave for it, and one larger than ``max_bytes`` is not kept."""
        with self._lock:
            if entry.nbytes > self.max_bytes:
                return
            self._drop(key)
            self._entries[key] = entry
            self._bytes += entry.nbytes
            while self._bytes > self.max_bytes:
                self._drop(next(iter(self._entries)))
                self._evictions += 1

    def clear(self) -> None:
        """Forget everything, the counts too."""
        with self._lock:
            self._entries.clear()
            self._bytes = self._hits = self._misses = self._evictions = 0

    @property
    def stats(self) -> PrefixStats:
        """Hits, misses, evictions and entries so far, and bytes kept and allowed."""
        with self._lock:
            return PrefixStats(
                self._hits, self._misses, self._evictions, len(self._entries), self._bytes, self.max_bytes
            )

    def _drop(self, key: Hashable) -> None:
        old = self._entries.pop(key, None)
        self._bytes -= old.nbytes if old is not None else 0
