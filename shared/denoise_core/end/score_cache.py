"""Scores kept by everything that decides them, so that a passage asked about again costs nothing."""

from __future__ import annotations

import hashlib
import json
import threading
from collections import OrderedDict
from typing import TypeAlias

from denoise_core.end.probe import Probe
from denoise_core.errors import InputError
from denoise_core.running.recipes import Travels

Entry: TypeAlias = tuple[float, int]  # logit, in how many windows the text was read


class ScoreCache(Travels):
    """At most ``max_entries`` scores, the least recently used leaving first; thread-safe, shareable.

    A key is a hash of the probe's numbers, its reading (model, layer, layout, pooling, normalisation), the
    question and the text; the texts themselves are not held. Raises `InputError` for a size below 1.
    """

    def __init__(self, max_entries: int = 100_000) -> None:
        if max_entries < 1:
            raise InputError(f"max_entries={max_entries}: expected 1 or more")
        self.max_entries = max_entries
        self.hits = 0
        self.misses = 0
        self._entries: OrderedDict[bytes, Entry] = OrderedDict()
        self._lock = threading.Lock()

    def __len__(self) -> int:
        return len(self._entries)

    @staticmethod
    def key(probe: Probe, query: str, text: str) -> bytes:
        """20 bytes that are equal exactly when probe, query and text are."""
        digest = hashlib.blake2b(digest_size=20)
        head = json.dumps([probe.reading.to_dict(), probe.bias], sort_keys=True).encode()
        for part in (head, probe.weight.tobytes(), *(t.encode("utf-8", "surrogatepass") for t in (query, text))):
            digest.update(len(part).to_bytes(8, "little"))  # so that no two splits of the same bytes agree
            digest.update(part)
        return digest.digest()

    def get(self, key: bytes) -> Entry | None:
        """What was kept under ``key``, and a hit; None, and a miss."""
        with self._lock:
            found = self._entries.get(key)
            if found is None:
                self.misses += 1
            else:
                self.hits += 1
                self._entries.move_to_end(key)
            return found

    def put(self, key: bytes, entry: Entry) -> None:
        """Keep an entry; the one longest unused leaves when there is no room."""
        with self._lock:
            self._entries[key] = entry
            self._entries.move_to_end(key)
            while len(self._entries) > self.max_entries:
                self._entries.popitem(last=False)
