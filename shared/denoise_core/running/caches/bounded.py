"""What is kept in memory up to a limit: the least recently used leaves first."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable
from typing import Any, Generic, TypeVar

K = TypeVar("K")
V = TypeVar("V")


class Bounded(Generic[K, V]):
    """Values by key that together weigh at most ``most``, each what ``weight`` says (1 unless told); thread-safe.

    A value that alone weighs more is not kept. ``held`` is the weight of all; ``hits`` and ``misses`` count
    look-ups, ``left`` the values that had to leave.
    """

    def __init__(self, most: int, weight: Callable[[Any], int] = lambda value: 1) -> None:
        self.most = most
        self.weight = weight
        self._entries: OrderedDict[K, V] = OrderedDict()
        self._lock = threading.Lock()
        self.held = self.hits = self.misses = self.left = 0

    def __len__(self) -> int:
        return len(self._entries)

    def get(self, key: K) -> V | None:
        """The value, now the most recently used; None where there is none."""
        with self._lock:
            found = self._entries.get(key)
            if found is None:
                self.misses += 1
            else:
                self.hits += 1
                self._entries.move_to_end(key)
            return found

    def put(self, key: K, value: V) -> None:
        """Keep ``value`` under ``key``, in the place of what was there."""
        weight = self.weight(value)
        with self._lock:
            if weight > self.most:
                return
            self._drop(key)
            self._entries[key] = value
            self.held += weight
            while self.held > self.most:
                self._drop(next(iter(self._entries)))
                self.left += 1

    def clear(self) -> None:
        """Forget everything, the counts too."""
        with self._lock:
            self._entries.clear()
            self.held = self.hits = self.misses = self.left = 0

    def _drop(self, key: K) -> None:
        old = self._entries.pop(key, None)
        self.held -= 0 if old is None else self.weight(old)
