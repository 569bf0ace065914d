"""What a model computed for a passage, kept for the next question: an LRU bounded in bytes.

In a layout with the passage before the question, the keys and values of instruction and passage in the
first L blocks do not depend on the question (attention is causal), so the next question only costs its own
tokens; `denoise_core.local.kv_cache.reuse` makes and uses them.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any

from denoise_core.errors import InputError
from denoise_core.weighted_cache import WeightedLRUCache


class PrefixCache(WeightedLRUCache[Hashable, Any]):
    """Entries by key, the least recently used leaving first, never more than ``max_bytes`` of their ``nbytes``.

    Thread-safe. ``max_bytes=0`` keeps nothing. An entry larger than the whole cache is not kept. Readers may share
    one: their keys hold model, layout, layer and tokens. Raises `InputError` for a negative size.
    """

    def __init__(self, max_bytes: int) -> None:
        if max_bytes < 0:
            raise InputError(
                f"max_bytes={max_bytes}: expected 0 (keep nothing) or more"
            )
        super().__init__(max_bytes, lambda entry: entry.nbytes)
        self.max_bytes = max_bytes
