"""Where things are kept by key: what is costly to make in memory, replies there or in one SQLite file."""

from __future__ import annotations

import threading
from collections import OrderedDict, deque
from collections.abc import Callable, Hashable, Sequence
from pathlib import Path
from typing import Any, Generic, Protocol, TypeVar, cast, runtime_checkable
from weakref import WeakValueDictionary

from denoise_core.errors import InputError
from denoise_core.running.recipes import Travels

K = TypeVar("K")
V = TypeVar("V")


class Once(Generic[V]):
    """One value for each key: ``loaded("name", load)`` calls ``load`` once while the value is in use anywhere.

    Threads that ask for the same key wait for the one that loads, those that ask for another do not. A load that
    fails raises for whoever ran it; the next one tries again. A value that nobody holds any more is let go, and
    loaded again when asked for; but the ``keep`` that were asked for last stay, all with None.
    """

    def __init__(self, *, keep: int | None = 0) -> None:
        self._values: Any = {} if keep is None else WeakValueDictionary()
        self._last: deque[V] = deque(maxlen=keep or 0)
        self._locks: dict[Hashable, threading.Lock] = {}
        self._lock = threading.Lock()

    def __call__(self, key: Hashable, load: Callable[[], V]) -> V:
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
        return cast(V, found)


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


@runtime_checkable
class Store(Protocol):
    """Texts by key; safe to use from several threads."""

    def get(self, key: str) -> str | None:
        """The text under ``key``; None where there is none."""
        ...

    def put(self, key: str, text: str) -> None:
        """Keep ``text`` under ``key``, in the place of what was there."""
        ...


class MemoryStore(Bounded[str, str], Travels):
    """The last ``max_entries`` texts used, in this process. Raises `InputError` for ``max_entries < 1``."""

    def __init__(self, max_entries: int = 10_000) -> None:
        if max_entries < 1:
            raise InputError(f"max_entries={max_entries}: expected 1 or more")
        super().__init__(max_entries)
        self.max_entries = max_entries


class SqliteFile:
    """One SQLite file, made with its folder at the first use and then given its tables by ``prepare``.

    Each call has a connection of its own, so threads, processes and their forks may share the file.
    """

    def __init__(self, path: Path, prepare: Callable[[Any], object], *, timeout: float = 5) -> None:
        self.path = path
        self.prepare = prepare
        self.timeout = timeout
        self._lock = threading.Lock()
        self._made = False

    def execute(self, sql: str, rows: Sequence[tuple[str | int | bytes, ...]]) -> list[tuple[Any, ...]]:
        """``sql`` once for each row of values, in one transaction; all that it finds."""
        import sqlite3
        from contextlib import closing

        with self._lock:
            if not self._made:
                self.path.parent.mkdir(parents=True, exist_ok=True)
            with closing(sqlite3.connect(self.path, timeout=self.timeout)) as connection, connection:
                if not self._made:
                    connection.execute("PRAGMA journal_mode=WAL")
                    self.prepare(connection)
                    self._made = True
                return [found for row in rows for found in connection.execute(sql, row).fetchall()]


class SqliteStore(Travels):
    """Texts in one SQLite file, shared between threads, processes and runs.

    Keys and UTF-8 texts: nothing in the file is ever executed or unpickled. The file and its folder are made
    at the first use. What was written before the last ``max_entries`` writes goes. Used from async code in a
    thread.
    """

    def __init__(self, path: str | Path, *, max_entries: int = 1_000_000) -> None:
        if max_entries < 1:
            raise InputError(f"max_entries={max_entries}: expected 1 or more")
        self.path = Path(path)
        self.max_entries = max_entries
        table = "CREATE TABLE IF NOT EXISTS replies (key TEXT PRIMARY KEY, text BLOB NOT NULL)"
        self._file = SqliteFile(self.path, lambda connection: connection.execute(table))

    def get(self, key: str) -> str | None:
        rows = self._file.execute("SELECT text FROM replies WHERE key = ?", [(key,)])
        return rows[0][0].decode("utf-8", "surrogatepass") if rows else None

    def put(self, key: str, text: str) -> None:
        data = text.encode("utf-8", "surrogatepass")  # a reply may hold half a character; a TEXT column may not
        self._file.execute("INSERT OR REPLACE INTO replies (key, text) VALUES (?, ?)", [(key, data)])
        # Row ids count writes, so this finds what to leave out without reading what stays.
        oldest = "DELETE FROM replies WHERE rowid <= (SELECT MAX(rowid) FROM replies) - ?"
        self._file.execute(oldest, [(self.max_entries,)])
