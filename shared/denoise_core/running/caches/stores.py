"""Where a cache keeps replies: in memory, or in one SQLite file."""

from __future__ import annotations

import threading
from collections import OrderedDict
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

from denoise_core.errors import InputError
from denoise_core.running.recipes import Travels


@runtime_checkable
class Store(Protocol):
    """Texts by key; safe to use from several threads."""

    def get(self, key: str) -> str | None:
        """The text under ``key``; None where there is none."""
        ...

    def put(self, key: str, text: str) -> None:
        """Keep ``text`` under ``key``, in the place of what was there."""
        ...


class MemoryStore(Travels):
    """The last ``max_entries`` texts used, in this process. Raises `InputError` for ``max_entries < 1``."""

    def __init__(self, max_entries: int = 10_000) -> None:
        if max_entries < 1:
            raise InputError(f"max_entries={max_entries}: expected 1 or more")
        self.max_entries = max_entries
        self._texts: OrderedDict[str, str] = OrderedDict()
        self._lock = threading.Lock()

    def get(self, key: str) -> str | None:
        with self._lock:
            if key in self._texts:
                self._texts.move_to_end(key)
            return self._texts.get(key)

    def put(self, key: str, text: str) -> None:
        with self._lock:
            self._texts[key] = text
            self._texts.move_to_end(key)
            while len(self._texts) > self.max_entries:
                self._texts.popitem(last=False)


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
        self._lock = threading.Lock()
        self._made = False

    def get(self, key: str) -> str | None:
        rows = self._execute("SELECT text FROM replies WHERE key = ?", (key,))
        return rows[0][0].decode("utf-8", "surrogatepass") if rows else None

    def put(self, key: str, text: str) -> None:
        data = text.encode("utf-8", "surrogatepass")  # a reply may hold half a character; a TEXT column may not
        self._execute("INSERT OR REPLACE INTO replies (key, text) VALUES (?, ?)", (key, data))
        # Row ids count writes, so this finds what to leave out without reading what stays.
        self._execute(
            "DELETE FROM replies WHERE rowid <= (SELECT MAX(rowid) FROM replies) - ?", (self.max_entries,)
        )

    def _execute(self, sql: str, values: tuple[str | int | bytes, ...]) -> list[tuple[Any, ...]]:
        import sqlite3
        from contextlib import closing

        with self._lock:
            if not self._made:
                self.path.parent.mkdir(parents=True, exist_ok=True)
            with closing(sqlite3.connect(self.path, timeout=5)) as connection, connection:
                if not self._made:
                    connection.execute("PRAGMA journal_mode=WAL")
                    connection.execute(
                        "CREATE TABLE IF NOT EXISTS replies (key TEXT PRIMARY KEY, text BLOB NOT NULL)"
                    )
                    self._made = True
                return connection.execute(sql, values).fetchall()
