"""What is costly to make is made once in a process, however many threads ask for it at the same time."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Hashable
from typing import Any, Generic, TypeVar, cast
from weakref import WeakValueDictionary

T = TypeVar("T")


class Once(Generic[T]):
    """One value for each key: ``loaded("name", load)`` calls ``load`` once while the value is in use anywhere.

    Threads that ask for the same key wait for the one that loads, those that ask for another do not. A load that
    fails raises for whoever ran it; the next one tries again. A value that nobody holds any more is let go, and
    loaded again when asked for; but the ``keep`` that were asked for last stay, all with None.
    """

    def __init__(self, *, keep: int | None = 0) -> None:
        self._values: Any = {} if keep is None else WeakValueDictionary()
        self._last: deque[T] = deque(maxlen=keep or 0)
        self._locks: dict[Hashable, threading.Lock] = {}
        self._lock = threading.Lock()

    def __call__(self, key: Hashable, load: Callable[[], T]) -> T:
        with self._lock:
            lock = self._locks.setdefault(key, threading.Lock())
        with lock:
            found = self._values.get(key)
            if found is None:
                found = self._values[key] = load()
        with self._lock:
            if self._last.maxlen:
                others = [v for v in self._last if v is not found]
                self._last.clear()
                self._last.extend([*others, found])
        return cast(T, found)
