"""Where a cache keeps replies: in memory, or in one SQLite file."""

from __future__ import annotations

import hashlib
import os
import threading
from collections import OrderedDict
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Generic, Protocol, TypeVar, runtime_checkable
from urllib.parse import urlsplit

from denoise_core._optional import require
from denoise_core.errors import InputError
from denoise_core.running.recipes import Travels

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


class RedisStore(Travels):
    """Texts at ``url`` (``redis://host:6379/0``, ``rediss://`` with encryption), for ``expiry`` seconds each.

    ``tenant`` is part of every key, hashed: two tenants of one server share nothing, and neither can be named by
    what the other writes. (`Cache(scope=...)` keeps tenants apart who change from call to call.) ``prefix`` comes
    first, for servers that hold other things too. ``password_env`` names the environment variable with the
    password; in the address it is refused, so that it stands in no log and travels in no pickle.

    A server that is down, slow (``timeout`` seconds) or full raises here, and `Cache` then makes its calls without
    it for a minute. Nothing that it holds is executed or unpickled; a text that is not UTF-8 counts as missing.
    """

    def __init__(
        self,
        url: str,
        *,
        tenant: str = "",
        expiry: float | None = 7 * 24 * 3600.0,
        prefix: str = "denoise",
        password_env: str | None = None,
        timeout: float = 0.5,
    ) -> None:
        parts = urlsplit(url)
        if parts.scheme not in ("redis", "rediss", "unix"):
            raise InputError("url: expected redis://, rediss:// or unix://")
        if parts.password:
            raise InputError("url: leave the password out; name an environment variable with password_env=")
        if expiry is not None and not expiry >= 1:
            raise InputError(f"expiry={expiry}: expected seconds, 1 or more, or None for ever")
        if not timeout > 0:
            raise InputError(f"timeout={timeout}: expected seconds, above 0")
        self.url = url
        self.tenant = tenant
        self.expiry = expiry
        self.prefix = prefix
        self.password_env = password_env
        self.timeout = timeout
        self._lock = threading.Lock()
        self._client: Any = None
        self._of = 0  # the process that opened it: a connection does not outlive a fork

    def get(self, key: str) -> str | None:
        found = self._opened().get(self._name(key))
        try:
            return None if found is None else found.decode("utf-8", "surrogatepass")
        except UnicodeDecodeError:
            return None

    def put(self, key: str, text: str) -> None:
        self._opened().set(
            self._name(key),
            text.encode("utf-8", "surrogatepass"),
            px=None if self.expiry is None else round(self.expiry * 1000),
        )

    def _name(self, key: str) -> str:
        tenant = hashlib.sha256(self.tenant.encode("utf-8", "surrogatepass")).hexdigest()[:32]
        return f"{self.prefix}:{tenant}:{key}"

    def _opened(self) -> Any:
        with self._lock:
            if self._client is None or self._of != os.getpid():
                redis = require("redis", extra="redis")
                password = os.environ.get(self.password_env) if self.password_env else None
                if self.password_env and not password:
                    raise InputError(f"password_env={self.password_env!r}: that environment variable is not set")
                self._client = redis.Redis.from_url(
                    self.url,
                    password=password,
                    socket_timeout=self.timeout,
                    socket_connect_timeout=self.timeout,
                )
                self._of = os.getpid()
            return self._client
