"""Values computed once: loaded models, values bounded in bytes, replies of LLMs.

`SqliteStore` keeps them in one file. A cache only helps: a store that fails is logged,
counted and bypassed for a while, and the value is computed. No full disk, read-only
folder or damaged file fails a call.
"""

from __future__ import annotations

import hashlib
import json
import sys
import threading
import time
from collections.abc import Callable, Hashable, Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import (
    TYPE_CHECKING,
    Any,
    Generic,
    Protocol,
    TypeVar,
    cast,
    runtime_checkable,
)
from weakref import WeakValueDictionary

from denoise_core.errors import ContractViolation, InputError, MissingExtra
from denoise_core.protocols import LLM
from denoise_core.runtime.fallbacks import log_fallback
from denoise_core.runtime.thread_pool import run_in_pool
from denoise_core.types import Message, Reply, Usage
from denoise_core.weighted_cache import VALUE_BYTES, WeightedLRUCache

if TYPE_CHECKING:
    from sqlite3 import Connection

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")

MEMORY_STORE_BYTES = 64 * 2**20
_CREATE_SQL = "CREATE TABLE IF NOT EXISTS replies (key PRIMARY KEY, text BLOB NOT NULL)"
_SELECT_SQL = "SELECT text FROM replies WHERE key = ?"
_INSERT_SQL = "INSERT OR REPLACE INTO replies (key, text) VALUES (?, ?)"
# Row ids count writes, so this finds what to delete without reading the rest.
_EVICT_SQL = "DELETE FROM replies WHERE rowid <= (SELECT MAX(rowid) FROM replies) - ?"
BYPASS_SECONDS = 2.0  # between two trials of a store that failed


class SingleLoadCache(Generic[V]):
    """One value for each key: ``cache("name", load)`` loads once while it is in use.

    Threads that ask for the same key wait for the one that loads; threads that ask for
    another key do not. A load that fails raises in the thread that ran it; the next
    one tries again.

    Args:
        keeps_all: Keep values that nobody references; else they are freed, and loaded
            again later.
    """

    def __init__(self, *, keeps_all: bool = False) -> None:
        self._values: Any = {} if keeps_all else WeakValueDictionary()
        self._key_locks: dict[Hashable, threading.Lock] = {}
        self._lock = threading.Lock()

    def __call__(self, key: Hashable, load: Callable[[], V]) -> V:
        """Return the value of ``key``, loaded by ``load`` when there is none."""
        with self._lock:
            key_lock = self._key_locks.setdefault(key, threading.Lock())
        with key_lock:
            value = self._values.get(key)
            if value is None:
                value = self._values[key] = load()
        return cast(V, value)


@runtime_checkable
class Store(Protocol):
    """Texts by key; safe to use from several threads."""

    def get(self, key: str) -> str | None:
        """Return the text under ``key``; None where there is none."""
        ...

    def put(self, key: str, text: str) -> None:
        """Store ``text`` under ``key``; replaces an earlier one."""
        ...


class MemoryStore(WeightedLRUCache[str, str]):
    """The last texts used, in this process.

    Args:
        max_bytes: Bytes of all texts; a longer text is not kept.
    """

    def __init__(self, max_bytes: int = MEMORY_STORE_BYTES) -> None:
        super().__init__(max_bytes, _weigh_text, name="replies")


def _weigh_text(text: str) -> int:
    return VALUE_BYTES + sys.getsizeof(text)


class SqliteStore:
    """Values by key in one SQLite file, shared between threads, processes and runs.

    Keys and bytes only: nothing in the file is ever executed or unpickled. The file
    and its folder are created at the first use, and again when somebody deletes them.
    Each call opens a connection, so threads, processes and forks may share the file.
    Use it from async code in a thread.

    Args:
        path: The file.
        max_entries: Writes older than the last ``max_entries`` are deleted; None keeps
            all.
        timeout: Seconds to wait for another writer.

    Raises:
        InputError: ``max_entries`` is below 1.
    """

    def __init__(
        self,
        path: str | Path,
        *,
        max_entries: int | None = 1_000_000,
        timeout: float = 5,
    ) -> None:
        if max_entries is not None and max_entries < 1:
            raise InputError(f"max_entries={max_entries}: expected 1 or more")
        self.path = Path(path)
        self.max_entries = max_entries
        self.timeout = timeout

    def get(self, key: str) -> str | None:
        """Return the text under ``key``; None where there is none."""
        data = self.get_many([key]).get(key)
        if data is None:
            return None
        return data.decode("utf-8", "surrogatepass")

    def put(self, key: str, text: str) -> None:
        """Store ``text`` under ``key``; replaces an earlier one."""
        # A reply may hold half a character, which a column of texts may not.
        self.put_many({key: text.encode("utf-8", "surrogatepass")})

    def get_many(self, keys: Sequence[K]) -> dict[K, bytes]:
        """Return the values of those keys that are in the file."""
        values: dict[K, bytes] = {}
        if not keys:
            return values
        with self._connected() as connection:
            for key in keys:
                row = connection.execute(_SELECT_SQL, (key,)).fetchone()
                if row is not None:
                    values[key] = row[0]
        return values

    def put_many(self, values: dict[K, bytes]) -> None:
        """Store all values, or none when the file cannot take them."""
        if not values:
            return
        with self._connected() as connection:
            connection.executemany(_INSERT_SQL, list(values.items()))
            if self.max_entries is not None:
                connection.execute(_EVICT_SQL, (self.max_entries,))

    @contextmanager
    def _connected(self) -> Iterator[Connection]:
        """Open a connection whose transaction is committed at the end of the block."""
        import sqlite3  # not before there is a file

        self.path.parent.mkdir(parents=True, exist_ok=True)
        connection = sqlite3.connect(self.path, timeout=self.timeout)
        with closing(connection), connection:
            # Nothing is written where the file has its table.
            connection.execute("PRAGMA journal_mode=WAL")
            connection.execute(_CREATE_SQL)
            yield connection


class FailSafeStore:
    """Calls a store that may fail.

    A failure is logged and counted under ``name``; then one call per `BYPASS_SECONDS`
    tries the store, until one succeeds. The others get what an empty store gives, so
    that a store that hangs holds up one call at a time.
    """

    def __init__(self, name: str) -> None:
        self.name = name
        self._next_trial: float | None = None  # None while the store works

    def attempt(
        self,
        call: Callable[[], V],
        default: V,
        *,
        reraise: tuple[type[Exception], ...] = (),
    ) -> V:
        """Return what ``call`` returns, else ``default``; raises ``reraise`` errors."""
        next_trial = self._next_trial  # read once: another thread may clear it
        if next_trial is not None:
            if time.monotonic() < next_trial:
                return default
            self._next_trial = time.monotonic() + BYPASS_SECONDS
        try:
            value = call()
        except reraise:
            raise
        except Exception as error:
            self._next_trial = time.monotonic() + BYPASS_SECONDS
            log_fallback(
                self.name,
                error,
                f"calls are made without the cache for {BYPASS_SECONDS:g} s",
            )
            return default
        self._next_trial = None
        return value


class Cache:
    """Replies of one model, by content.

    The key is a hash of the model's name, the messages and, when given, the tenant's
    scope. A call that fails stores nothing. No call waits for an equal one that is
    under way.

    Args:
        model: Names the model and its settings: two that answer differently need
            different names.
        store: Where replies are stored, in memory by default. A reply that could not
            be read is not stored.
        scope: Separates tenants: a name, or a function that returns the name of the
            tenant served now. Replies are shared within a scope only.
    """

    def __init__(
        self,
        model: str,
        store: Store | None = None,
        *,
        scope: str | Callable[[], str] | None = None,
    ) -> None:
        self.model = model
        self.store = MemoryStore() if store is None else store
        self.scope = scope
        self._safe_store = FailSafeStore(type(self.store).__name__)

    def bind(self, llm: LLM, is_readable: Callable[[Reply], bool]) -> LLM:
        """Return ``llm`` behind this cache; only readable replies are stored."""
        return _CachedLLM(self, llm, is_readable)

    def key(self, messages: Sequence[Message]) -> str:
        """Return the SHA-256 of the model's name, the scope and the messages."""
        pairs = [[message.role, message.content] for message in messages]
        content: list[Any] = [self.model, pairs]
        scope = self.scope() if callable(self.scope) else self.scope
        if scope is not None:
            content.append(scope)
        text = json.dumps(content)
        return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()

    def lookup(self, key: str) -> str | None:
        """Return the stored text; None also when the store fails.

        Raises `InputError` and `MissingExtra` of a store that is set up wrongly: it
        would silently never help.
        """

        def read_store() -> str | None:
            text = self.store.get(key)
            if text is not None and not isinstance(text, str):
                raise TypeError(
                    f"{type(self.store).__name__}.get must return str or None, got "
                    f"{type(text).__name__}"
                )
            return text

        return self._safe_store.attempt(
            read_store, None, reraise=(InputError, MissingExtra)
        )

    def store_reply(self, key: str, text: str) -> None:
        """Store a reply, if the store can take it: it was paid for and arrives."""
        self._safe_store.attempt(lambda: self.store.put(key, text), None)


class _CachedLLM:
    """One call through the cache; a hit costs no tokens and its usage says so."""

    def __init__(
        self, cache: Cache, llm: LLM, is_readable: Callable[[Reply], bool]
    ) -> None:
        self.cache = cache
        self.llm = llm
        self.is_readable = is_readable

    def complete(self, messages: Sequence[Message]) -> Reply:
        key = self.cache.key(messages)
        cached_text = self.cache.lookup(key)
        if cached_text is not None:
            return Reply(cached_text, Usage(0, 0))
        reply = _check_reply(self.llm.complete(messages))
        if self.is_readable(reply):
            self.cache.store_reply(key, reply.text)
        return reply

    async def acomplete(self, messages: Sequence[Message]) -> Reply:
        cache = self.cache
        key = cache.key(messages)
        cached_text = await run_in_pool(cache.lookup, key)
        if cached_text is not None:
            return Reply(cached_text, Usage(0, 0))
        reply = _check_reply(await self.llm.acomplete(messages))
        if self.is_readable(reply):
            await run_in_pool(cache.store_reply, key, reply.text)
        return reply


def _check_reply(reply: Any) -> Reply:
    if not isinstance(reply, Reply) or not isinstance(reply.text, str):
        raise ContractViolation(
            "an LLM must return a denoise_core.Reply with a text, got "
            f"{type(reply).__name__}"
        )
    return reply
