"""Caches with a bound on the weight of their values, such as their bytes, and how full they are."""

from __future__ import annotations

import threading
from collections.abc import Callable, Hashable
from contextlib import suppress
from functools import wraps
from typing import Any, Generic, ParamSpec, TypeVar
from weakref import WeakSet

from cachetools import LRUCache

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")
P = ParamSpec("P")

VALUE_BYTES = 500  # of a value and its key, besides what grows with its text

_named_caches: WeakSet[WeightedLRUCache[Any, Any]] = WeakSet()


class WeightedLRUCache(Generic[K, V]):
    """Values by key with a total weight of at most ``max_weight``; thread-safe.

    A value that alone weighs more is not stored. ``hits`` and ``misses`` count
    look-ups.

    Args:
        max_weight: Bound of the total weight.
        weight: The weight of a value; 1 by default.
        name: Under which `cache_fills` counts its weight, in bytes.
    """

    def __init__(
        self,
        max_weight: int,
        weight: Callable[[Any], int] = lambda value: 1,
        *,
        name: str = "",
    ) -> None:
        self.max_weight = max_weight
        self.weight = weight
        self.name = name
        if name:
            _named_caches.add(self)
        self._lock = threading.Lock()
        self.clear()

    def clear(self) -> None:
        """Remove all values, and reset the counts."""
        with self._lock:
            self._entries: LRUCache[K, V] = LRUCache(self.max_weight, self.weight)
            self.hits = self.misses = 0

    @property
    def total_weight(self) -> int:
        """The weight of all values."""
        return int(self._entries.currsize)

    def __len__(self) -> int:
        return len(self._entries)

    def get(self, key: K) -> V | None:
        """Return the value, now the most recently used; None where there is none."""
        with self._lock:
            value = self._entries.get(key)
            if value is None:
                self.misses += 1
            else:
                self.hits += 1
            return value

    def put(self, key: K, value: V) -> None:
        """Store ``value`` under ``key`` instead of an earlier one, if it is not too heavy."""
        with self._lock, suppress(ValueError):  # it is too heavy
            # First removed: cachetools before 7.1 makes room for a larger value as if
            # the earlier one stayed.
            self._entries.pop(key, None)
            self._entries[key] = value


def cache_fills() -> dict[str, tuple[int, int]]:
    """Return the bytes held and the most bytes of each named cache of this process.

    Caches of one name are counted together.
    """
    fills: dict[str, tuple[int, int]] = {}
    for cache in list(_named_caches):
        held_bytes, max_bytes = fills.get(cache.name, (0, 0))
        held_bytes += cache.total_weight
        fills[cache.name] = held_bytes, max_bytes + cache.max_weight
    return fills


def limit_caches(max_bytes: int) -> None:
    """Bound each named cache that exists by now; one that was larger is emptied."""
    for cache in list(_named_caches):
        if cache.max_weight > max_bytes:
            cache.max_weight = max_bytes
            cache.clear()


def cache_by_bytes(
    name: str, max_bytes: int, bytes_per_character: int
) -> Callable[[Callable[P, V]], Callable[P, V]]:
    """Decorate a function of texts: keep its values within a number of bytes.

    Unlike `functools.lru_cache`, which counts texts of any length. ``bytes_per_character``
    is what a value holds for each character of the arguments, measured at its worst.
    """

    def decorate(function: Callable[P, V]) -> Callable[P, V]:
        cache: WeightedLRUCache[Hashable, tuple[V, int]] = WeightedLRUCache(
            max_bytes, lambda entry: entry[1], name=name
        )

        @wraps(function)
        def call_cached(*args: P.args, **kwargs: P.kwargs) -> V:
            key = (args, tuple(kwargs.items()))
            entry = cache.get(key)
            if entry is None:
                characters = 0
                for argument in (*args, *kwargs.values()):
                    if isinstance(argument, str):
                        characters += len(argument)
                weight = VALUE_BYTES + characters * bytes_per_character
                entry = (function(*args, **kwargs), weight)
                cache.put(key, entry)
            return entry[0]

        call_cached.__dict__["cache_clear"] = cache.clear
        return call_cached

    return decorate
