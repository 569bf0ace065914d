"""Never pay twice for the same question about the same text: a cache by content, with single-flight.

The key is a hash of the model's name and of the prompt, so it changes with the wording, the question, the text
and the model, and with nothing else. A reply that could not be read is not kept.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import threading
from collections import OrderedDict
from collections.abc import Callable, Sequence
from concurrent.futures import CancelledError, Future
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

from denoise_core.errors import InputError
from denoise_core.protocols import LLM
from denoise_core.running.offload import offload
from denoise_core.types import Message, Reply, Usage


@runtime_checkable
class Store(Protocol):
    """Texts by key; safe to use from several threads."""

    def get(self, key: str) -> str | None: ...

    def put(self, key: str, text: str) -> None: ...


class MemoryStore:
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


class SqliteStore:
    """Texts in one SQLite file, shared between threads, processes and runs.

    Keys and UTF-8 texts: nothing in the file is ever executed or unpickled. The file and its folder are made
    at the first use. Beyond ``max_entries`` the least recently written go. Used from async code in a thread.
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
        self._execute(
            "DELETE FROM replies WHERE rowid IN (SELECT rowid FROM replies ORDER BY rowid DESC LIMIT -1 OFFSET ?)",
            (self.max_entries,),
        )

    def _execute(self, sql: str, values: tuple[str | int | bytes, ...]) -> list[tuple[Any, ...]]:
        import sqlite3
        from contextlib import closing

        with self._lock:
            if not self._made:
                self.path.parent.mkdir(parents=True, exist_ok=True)
            with closing(sqlite3.connect(self.path, timeout=30)) as connection, connection:
                if not self._made:
                    connection.execute("PRAGMA journal_mode=WAL")
                    connection.execute(
                        "CREATE TABLE IF NOT EXISTS replies (key TEXT PRIMARY KEY, text BLOB NOT NULL)"
                    )
                    self._made = True
                return connection.execute(sql, values).fetchall()


class Cache:
    """Replies of one model, by content.

    ``model`` names the model and its settings: two that answer differently need different names. ``store`` is
    where replies are kept, in memory by default. Identical calls under way at the same time become one
    (single-flight); when it fails, all of them fail, and nothing is kept. ``hits``, ``misses`` and ``joined``
    count calls.
    """

    def __init__(self, model: str, store: Store | None = None) -> None:
        self.model = model
        self.store = store or MemoryStore()
        self.hits = self.misses = self.joined = 0
        self._flying: dict[str, Future[Reply]] = {}
        self._lock = threading.Lock()

    def bind(self, llm: LLM, readable: Callable[[Reply], bool]) -> LLM:
        """``llm`` behind this cache; only replies that are ``readable`` are kept."""
        return _Cached(self, llm, readable)

    def key(self, messages: Sequence[Message]) -> str:
        """Hexadecimal SHA-256 of the model's name and the messages."""
        said = [[m.role, m.content] for m in messages]
        return hashlib.sha256(json.dumps([self.model, said]).encode("utf-8", "surrogatepass")).hexdigest()

    def lead_or_join(self, key: str) -> tuple[Future[Reply], bool]:
        """The call under way for ``key``, and whether the caller is the one who has to make it."""
        with self._lock:
            flying = self._flying.get(key)
            if flying is not None:
                self.joined += 1
                return flying, False
            self._flying[key] = Future()
            return self._flying[key], True

    def land(self, key: str) -> None:
        with self._lock:
            self._flying.pop(key, None)

    def count(self, hit: bool) -> None:
        with self._lock:
            self.hits += hit
            self.misses += not hit


class _Cached:
    """One call through the cache; a hit costs no tokens and says so in its usage."""

    def __init__(self, cache: Cache, llm: LLM, readable: Callable[[Reply], bool]) -> None:
        self.cache = cache
        self.llm = llm
        self.readable = readable

    def complete(self, messages: Sequence[Message]) -> Reply:
        key = self.cache.key(messages)
        while True:
            flying, leads = self.cache.lead_or_join(key)
            if not leads:
                try:
                    return _free(flying.result())
                except CancelledError:
                    continue  # whoever made the call was cancelled; make it ourselves
            try:
                known = self.cache.store.get(key)
                self.cache.count(known is not None)
                reply = _free(Reply(known)) if known is not None else self.llm.complete(messages)
                if known is None and self.readable(reply):
                    self.cache.store.put(key, reply.text)
                return _landed(flying, reply)
            except BaseException as error:
                _crashed(flying, error)
                raise
            finally:
                self.cache.land(key)

    async def acomplete(self, messages: Sequence[Message]) -> Reply:
        key = self.cache.key(messages)
        store = self.cache.store
        while True:
            flying, leads = self.cache.lead_or_join(key)
            if not leads:
                shared = asyncio.wrap_future(flying)
                try:
                    return _free(await asyncio.shield(shared))
                except asyncio.CancelledError:
                    if shared.cancelled():
                        continue
                    raise
            try:
                in_memory = isinstance(store, MemoryStore)
                known = store.get(key) if in_memory else await offload(store.get, key)
                self.cache.count(known is not None)
                reply = _free(Reply(known)) if known is not None else await self.llm.acomplete(messages)
                if known is None and self.readable(reply):
                    if in_memory:
                        store.put(key, reply.text)
                    else:
                        await offload(store.put, key, reply.text)
                return _landed(flying, reply)
            except BaseException as error:
                _crashed(flying, error)
                raise
            finally:
                self.cache.land(key)


def _free(reply: Reply) -> Reply:
    return Reply(reply.text, Usage(0, 0))


def _landed(flying: Future[Reply], reply: Reply) -> Reply:
    flying.set_result(reply)
    return reply


def _crashed(flying: Future[Reply], error: BaseException) -> None:
    """An error is everyone's; a cancellation only the caller's own."""
    if isinstance(error, Exception):
        flying.set_exception(error)
    else:
        flying.cancel()
