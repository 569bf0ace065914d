"""Values that are made once: loaded models, values bounded in bytes, replies of LLMs; one SQLite file for them.

A cache only helps. A store that fails is logged, counted and left alone for a minute, and the value is computed:
no full disk, read-only folder or damaged file fails a call.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import threading
import time
from collections.abc import Callable, Hashable, Iterator, Sequence
from concurrent.futures import CancelledError, Future
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

from cachetools import LRUCache

from denoise_core.errors import ContractViolation, InputError, MissingExtra
from denoise_core.protocols import LLM
from denoise_core.result import copy_without_trace
from denoise_core.runtime.fallbacks import log_fallback
from denoise_core.runtime.thread_pool import current_cancel_token, run_in_pool
from denoise_core.types import Message, Reply, Usage

if TYPE_CHECKING:
    from sqlite3 import Connection

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")

BYPASS_SECONDS = 60.0  # how long a store that failed is left alone
LEASE_SECONDS = 60.0  # how long a call waits for the same call of another
_LOOK = 0.05  # seconds between two looks at whether the leader was left behind


class SingleLoadCache(Generic[V]):
    """One value for each key: ``loaded("name", load)`` calls ``load`` once while the value is in use anywhere.

    Threads that ask for the same key wait for the one that loads, those that ask for another do not. A load that
    fails raises for whoever ran it; the next one tries again. A value that nobody holds any more is let go, and
    loaded again when asked for; but the ``keep`` that were asked for last stay, all with None.
    """

    def __init__(self, *, keep_recent: int | None = 0) -> None:
        self._values: Any = {} if keep_recent is None else WeakValueDictionary()
        self._recent: LRUCache[Hashable, V] = LRUCache(keep_recent or 0)
        self._locks: dict[Hashable, threading.Lock] = {}
        self._lock = threading.Lock()

    def __call__(self, key: Hashable, load: Callable[[], V]) -> V:
        with self._lock:
            key_lock = self._locks.setdefault(key, threading.Lock())
        with key_lock:
            value = self._values.get(key)
            if value is None:
                value = self._values[key] = load()
        with self._lock:
            if self._recent.maxsize:
                self._recent[key] = value
        return cast(V, value)


class _EvictionCount(LRUCache[K, V]):
    """Counts the values that had to leave."""

    evicted = 0

    def popitem(self) -> tuple[K, V]:
        self.evicted += 1
        return super().popitem()


class WeightedLRUCache(Generic[K, V]):
    """Values by key that together weigh at most ``most``, each what ``weight`` says (1 unless told); thread-safe.

    A value that alone weighs more is not kept. ``held`` is the weight of all; ``hits`` and ``misses`` count
    look-ups, ``left`` the values that had to leave.
    """

    def __init__(
        self, most: int, weight: Callable[[Any], int] = lambda value: 1
    ) -> None:
        self.max_weight = most
        self.weight = weight
        self._lock = threading.Lock()
        self.clear()

    def clear(self) -> None:
        """Forget everything, the counts too."""
        with self._lock:
            self._entries: _EvictionCount[K, V] = _EvictionCount(
                self.max_weight, self.weight
            )
            self.hits = self.misses = 0

    @property
    def total_weight(self) -> int:
        return int(self._entries.currsize)

    @property
    def evictions(self) -> int:
        return self._entries.evicted

    def __len__(self) -> int:
        return len(self._entries)

    def get(self, key: K) -> V | None:
        """The value, now the most recently used; None where there is none."""
        with self._lock:
            value = self._entries.get(key)
            if value is None:
                self.misses += 1
            else:
                self.hits += 1
            return value

    def put(self, key: K, value: V) -> None:
        """Keep ``value`` under ``key``, in the place of what was there."""
        if self.weight(value) > self.max_weight:
            return
        with self._lock:
            self._entries[key] = value


@runtime_checkable
class Store(Protocol):
    """Texts by key; safe to use from several threads."""

    def get(self, key: str) -> str | None:
        """The text under ``key``; None where there is none."""
        ...

    def put(self, key: str, text: str) -> None:
        """Keep ``text`` under ``key``, in the place of what was there."""
        ...


class MemoryStore(WeightedLRUCache[str, str]):
    """The last ``max_entries`` texts used, in this process. Raises `InputError` for ``max_entries < 1``."""

    def __init__(self, max_entries: int = 10_000) -> None:
        if max_entries < 1:
            raise InputError(f"max_entries={max_entries}: expected 1 or more")
        super().__init__(max_entries)
        self.max_entries = max_entries


class SqliteStore:
    """Values by key in one SQLite file, shared between threads, processes and runs.

    Keys and bytes: nothing in the file is ever executed or unpickled. The file and its folder are made at the
    first use. What was written before the last ``max_entries`` writes goes; None keeps all. Each call has a
    connection of its own, so threads, processes and their forks may share the file; it waits ``timeout`` seconds
    for another process that writes. Used from async code in a thread. Raises `InputError` for ``max_entries < 1``.
    """

    def __init__(
        self,
        path: str | Path,
        *,
        max_entries: int | None = 1_000_000,
        table: str = "replies",
        column: str = "text",
        timeout: float = 5,
    ) -> None:
        if max_entries is not None and max_entries < 1:
            raise InputError(f"max_entries={max_entries}: expected 1 or more")
        self.path = Path(path)
        self.max_entries = max_entries
        self.timeout = timeout
        self._create = f"CREATE TABLE IF NOT EXISTS {table} (key PRIMARY KEY, {column} BLOB NOT NULL)"
        self._select = f"SELECT {column} FROM {table} WHERE key = ?"
        self._insert = f"INSERT OR REPLACE INTO {table} (key, {column}) VALUES (?, ?)"
        # Row ids count writes, so this finds what to leave out without reading what stays.
        self._evict = (
            f"DELETE FROM {table} WHERE rowid <= (SELECT MAX(rowid) FROM {table}) - ?"
        )
        self._lock = threading.Lock()
        self._is_open = False

    def get(self, key: str) -> str | None:
        """The text under ``key``; None where there is none."""
        data = self.get_many([key]).get(key)
        return None if data is None else data.decode("utf-8", "surrogatepass")

    def put(self, key: str, text: str) -> None:
        """Keep ``text`` under ``key``, in the place of what was there."""
        # A reply may hold half a character, which a column of texts may not.
        self.put_many({key: text.encode("utf-8", "surrogatepass")})

    def get_many(self, keys: Sequence[K]) -> dict[K, bytes]:
        """The values of those keys that are in the file."""
        values: dict[K, bytes] = {}
        if not keys:
            return values
        with self._connected() as connection:
            for key in keys:
                row = connection.execute(self._select, (key,)).fetchone()
                if row is not None:
                    values[key] = row[0]
        return values

    def put_many(self, values: dict[K, bytes]) -> None:
        """Keep all values, or none when the file cannot take them."""
        if not values:
            return
        with self._connected() as connection:
            connection.executemany(self._insert, list(values.items()))
            if self.max_entries is not None:
                connection.execute(self._evict, (self.max_entries,))

    @contextmanager
    def _connected(self) -> Iterator[Connection]:
        """A connection whose transaction is committed at the end of the block."""
        import sqlite3  # not before there is a file

        with self._lock:
            if not self._is_open:
                self.path.parent.mkdir(parents=True, exist_ok=True)
            with (
                closing(sqlite3.connect(self.path, timeout=self.timeout)) as connection,
                connection,
            ):
                if not self._is_open:
                    connection.execute("PRAGMA journal_mode=WAL")
                    connection.execute(self._create)
                    self._is_open = True
                yield connection


class FailSafeStore:
    """Uses a store that may fail. A failure is logged and counted under ``name``, and the store is left alone for
    `BYPASS_SECONDS`; until then each call gives what a store without an entry gives."""

    def __init__(self, name: str) -> None:
        self.name = name
        self._until = 0.0

    def attempt(
        self,
        call: Callable[[], V],
        otherwise: V,
        *,
        mistakes: tuple[type[Exception], ...] = (),
    ) -> V:
        """What ``call`` returns, else ``otherwise``. Raises ``mistakes`` as they are."""
        if time.monotonic() < self._until:
            return otherwise
        try:
            return call()
        except mistakes:
            raise
        except Exception as error:
            self._until = time.monotonic() + BYPASS_SECONDS
            log_fallback(
                self.name,
                error,
                f"calls are made without the cache for {BYPASS_SECONDS:g} s",
            )
            return otherwise


class Cache:
    """Replies of one model, by content.

    The key is a hash of the model's name, of the messages and, when given, of the tenant's scope. ``model`` names
    the model and its settings: two that answer differently need different names. ``store`` is where replies are
    kept, in memory by default. ``scope`` keeps tenants apart: a name, or a function that gives the name of whoever
    is served now; replies are shared within a scope only. A reply that could not be read is not kept.

    Identical calls under way at the same time become one (single-flight); when it fails, each of them fails
    with an error of its own, and nothing is kept. Who has waited a minute for the other call, or sees that nobody
    waits for it any more, makes the call itself.
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
        self._bypass = FailSafeStore(type(self.store).__name__)
        self._flying: dict[str, InFlightCall] = {}
        self._lock = threading.Lock()

    def bind(self, llm: LLM, readable: Callable[[Reply], bool]) -> LLM:
        """``llm`` behind this cache; only replies that are ``readable`` are kept."""
        return _CachedLLM(self, llm, readable)

    def key(self, messages: Sequence[Message]) -> str:
        """Hexadecimal SHA-256 of the model's name, the scope and the messages."""
        content: list[Any] = [self.model, [[m.role, m.content] for m in messages]]
        scope = self.scope() if callable(self.scope) else self.scope
        if scope is not None:
            content.append(scope)
        return hashlib.sha256(
            json.dumps(content).encode("utf-8", "surrogatepass")
        ).hexdigest()

    def known(self, key: str) -> str | None:
        """What the store holds; None also when it fails. Raises for a store that is set up wrongly."""

        def look_up() -> str | None:
            text = self.store.get(key)
            if text is not None and not isinstance(text, str):
                name = type(self.store).__name__
                raise TypeError(
                    f"{name}.get must return str or None, got {type(text).__name__}"
                )
            return text

        # A store that is set up wrongly would cost its speed for ever, unheard.
        return self._bypass.attempt(look_up, None, mistakes=(InputError, MissingExtra))

    def keep(self, key: str, text: str) -> None:
        """Store a reply, if the store can take it."""
        self._bypass.attempt(
            lambda: self.store.put(key, text), None
        )  # the reply was paid for and arrives

    def lead_or_join(
        self, key: str, *, is_async: bool, late: InFlightCall | None = None
    ) -> tuple[InFlightCall, bool]:
        """The call under way for ``key``, and whether the caller is the one who has to make it.

        ``late`` is a flight that the caller has given up on. A sync call on the thread of an event loop joins no
        async one: that could go on only once the loop is free again.
        """
        may_join_async = is_async or not _on_loop()
        with self._lock:
            flight = self._flying.get(key)
            if (
                flight is None
                or flight is late
                or flight.left
                or (flight.is_async and not may_join_async)
            ):
                flight = self._flying[key] = InFlightCall(is_async)
                return flight, True
            return flight, False

    @contextmanager
    def flying(self, key: str, flight: InFlightCall) -> Iterator[None]:
        """Around the leader's call: what goes wrong is told to those who wait, and then the flight has ended."""
        try:
            yield
        except BaseException as error:
            if not flight.reply.done():
                if isinstance(error, Exception):
                    flight.reply.set_exception(error)
                else:  # a cancellation is only the caller's own
                    flight.reply.cancel()
            raise
        finally:
            with self._lock:
                if self._flying.get(key) is flight:
                    del self._flying[key]


class InFlightCall:
    """One call under way. ``left`` once nobody waits for the one who makes it."""

    def __init__(self, is_async: bool) -> None:
        self.reply: Future[Reply] = Future()
        self.is_async = is_async
        self._left = current_cancel_token.get()

    @property
    def left(self) -> bool:
        return self._left is not None and self._left.is_cancelled()

    def landed(self) -> Reply | None:
        """The reply, at no cost; None when the call was cancelled. Raises a twin of its error."""
        try:
            error = self.reply.exception()
        except CancelledError:
            return None
        if error is not None:
            raise copy_without_trace(error)
        return _free(self.reply.result().text)


class _CachedLLM:
    """One call through the cache; a hit costs no tokens and says so in its usage."""

    def __init__(
        self, cache: Cache, llm: LLM, readable: Callable[[Reply], bool]
    ) -> None:
        self.cache = cache
        self.llm = llm
        self.readable = readable

    def complete(self, messages: Sequence[Message]) -> Reply:
        cache, key = self.cache, self.cache.key(messages)
        flight, leads = cache.lead_or_join(key, is_async=False)
        while not leads:
            shared = self._waited(flight)
            if shared is not None:
                return shared
            flight, leads = cache.lead_or_join(key, is_async=False, late=flight)
        with cache.flying(key, flight):
            known = cache.known(key)
            reply = (
                _free(known)
                if known is not None
                else _checked(self.llm.complete(messages))
            )
            flight.reply.set_result(reply)  # whoever waits need not wait for the store
            if known is None and self.readable(reply):
                cache.keep(key, reply.text)
            return reply

    async def acomplete(self, messages: Sequence[Message]) -> Reply:
        cache, key = self.cache, self.cache.key(messages)
        flight, leads = cache.lead_or_join(key, is_async=True)
        while not leads:
            shared = await self._awaited(flight)
            if shared is not None:
                return shared
            flight, leads = cache.lead_or_join(key, is_async=True, late=flight)
        is_local = isinstance(cache.store, MemoryStore)
        with cache.flying(key, flight):
            known = (
                cache.known(key) if is_local else await run_in_pool(cache.known, key)
            )
            reply = (
                _free(known)
                if known is not None
                else _checked(await self.llm.acomplete(messages))
            )
            flight.reply.set_result(reply)
            if known is None and self.readable(reply):
                if is_local:
                    cache.keep(key, reply.text)
                else:
                    await run_in_pool(cache.keep, key, reply.text)
            return reply

    def _waited(self, flight: InFlightCall) -> Reply | None:
        """The other call's reply; None when it is late, left behind or cancelled."""
        end = time.monotonic() + LEASE_SECONDS
        while (left := end - time.monotonic()) > 0 and not flight.left:
            try:
                flight.reply.exception(min(left, _LOOK))
            except CancelledError:
                return None
            except TimeoutError:
                continue
            return flight.landed()
        return None

    async def _awaited(self, flight: InFlightCall) -> Reply | None:
        end = time.monotonic() + LEASE_SECONDS
        shared = asyncio.wrap_future(flight.reply)
        shared.add_done_callback(_mark_retrieved)
        while (left := end - time.monotonic()) > 0 and not flight.left:
            await asyncio.wait([shared], timeout=min(left, 1.0))
            if shared.done():
                return flight.landed()
        return None


def _on_loop() -> bool:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True


def _mark_retrieved(shared: asyncio.Future[Reply]) -> None:
    """So that a failure for which nobody waits any more is no "exception was never retrieved"."""
    if not shared.cancelled():
        shared.exception()


def _checked(reply: Reply) -> Reply:
    if not isinstance(reply, Reply) or not isinstance(reply.text, str):
        raise ContractViolation(
            f"an LLM must return a denoise_core.Reply with a text, got {type(reply).__name__}"
        )
    return reply


def _free(text: str) -> Reply:
    return Reply(text, Usage(0, 0))
