"""Never pay twice for the same question about the same text: a cache by content, with single-flight.

The key is a hash of the model's name, of the prompt and, when given, of the tenant's scope, so it changes with the
wording, the question, the text and the model, and with nothing else. A reply that could not be read is not kept.

A cache only helps: a store that fails is reported and left alone for a while, a call that joined another one
waits for it no longer than a minute, and a reply that was paid for is handed on whatever becomes of the store.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import CancelledError, Future
from contextlib import contextmanager
from typing import Any

from denoise_core.errors import BrokenLaw, InputError, MissingExtra
from denoise_core.protocols import LLM
from denoise_core.result import without_trace
from denoise_core.running.caches.stores import MemoryStore, SqliteStore, Store
from denoise_core.running.fallbacks import fell_back
from denoise_core.running.offload import left_behind, offload
from denoise_core.running.recipes import Travels
from denoise_core.types import Message, Reply, Usage

__all__ = ["Cache", "MemoryStore", "SqliteStore", "Store"]

BYPASS_SECONDS = 60.0  # how long a store that failed is left alone
LEASE_SECONDS = 60.0  # how long a call waits for the same call of another
_LOOK = 0.05  # seconds between two looks at whether the leader was left behind


class Cache(Travels):
    """Replies of one model, by content.

    ``model`` names the model and its settings: two that answer differently need different names. ``store`` is
    where replies are kept, in memory by default. ``scope`` keeps tenants apart: a name, or a function that
    gives the name of whoever is served now; replies are shared within a scope only.

    Identical calls under way at the same time become one (single-flight); when it fails, each of them fails
    with an error of its own, and nothing is kept. Who has waited a minute for the other call, or sees that nobody
    waits for it any more, makes the call itself.
    """

    def __init__(
        self, model: str, store: Store | None = None, *, scope: str | Callable[[], str] | None = None
    ) -> None:
        self.model = model
        self.store = MemoryStore() if store is None else store
        self.scope = scope
        self._flying: dict[str, Flight] = {}
        self._lock = threading.Lock()
        self._bypass_until = 0.0

    def bind(self, llm: LLM, readable: Callable[[Reply], bool]) -> LLM:
        """``llm`` behind this cache; only replies that are ``readable`` are kept."""
        return _Cached(self, llm, readable)

    def key(self, messages: Sequence[Message]) -> str:
        """Hexadecimal SHA-256 of the model's name, the scope and the messages."""
        said: list[Any] = [self.model, [[m.role, m.content] for m in messages]]
        scope = self.scope() if callable(self.scope) else self.scope
        if scope is not None:
            said.append(scope)
        return hashlib.sha256(json.dumps(said).encode("utf-8", "surrogatepass")).hexdigest()

    def lead_or_join(self, key: str, *, is_async: bool, late: Flight | None = None) -> tuple[Flight, bool]:
        """The call under way for ``key``, and whether the caller is the one who has to make it.

        ``late`` is a flight that the caller has given up on. A sync call on the thread of an event loop joins no
        async one: that could go on only once the loop is free again.
        """
        may_join_async = is_async or not _on_loop()
        with self._lock:
            flight = self._flying.get(key)
            if flight is None or flight is late or flight.left or (flight.is_async and not may_join_async):
                flight = self._flying[key] = Flight(is_async)
                return flight, True
            return flight, False

    @contextmanager
    def flying(self, key: str, flight: Flight) -> Iterator[None]:
        """Around the leader's call: what goes wrong is told to those who wait, and then the flight has ended."""
        try:
            yield
        except BaseException as error:
            if not flight.reply.done():
                if isinstance(error, Exception):
                    flight.reply.set_exception(without_trace(error))
                else:  # a cancellation is only the caller's own
                    flight.reply.cancel()
            raise
        finally:
            with self._lock:
                if self._flying.get(key) is flight:
                    del self._flying[key]

    def known(self, key: str) -> str | None:
        """What the store holds; None also when it fails. Raises for a store that is set up wrongly."""
        if time.monotonic() < self._bypass_until:
            return None
        try:
            text = self.store.get(key)
            if text is not None and not isinstance(text, str):
                raise TypeError(
                    f"{type(self.store).__name__}.get must return str or None, got {type(text).__name__}"
                )
        except (InputError, MissingExtra):
            raise
        except Exception as error:
            self._bypass(error)
            return None
        return text

    def keep(self, key: str, text: str) -> None:
        """Store a reply; a store that fails is logged and left alone for a while, and costs speed only."""
        if time.monotonic() < self._bypass_until:
            return
        try:
            self.store.put(key, text)
        except Exception as error:
            self._bypass(error)

    def _bypass(self, error: Exception) -> None:
        self._bypass_until = time.monotonic() + BYPASS_SECONDS
        fell_back(type(self.store).__name__, error, f"calls are made without the cache for {BYPASS_SECONDS:g} s")


class Flight:
    """One call under way. ``left`` once nobody waits for the one who makes it."""

    def __init__(self, is_async: bool) -> None:
        self.reply: Future[Reply] = Future()
        self.is_async = is_async
        self._left = left_behind.get()

    @property
    def left(self) -> bool:
        return self._left is not None and self._left.is_set()


class _Cached:
    """One call through the cache; a hit costs no tokens and says so in its usage."""

    def __init__(self, cache: Cache, llm: LLM, readable: Callable[[Reply], bool]) -> None:
        self.cache = cache
        self.llm = llm
        self.readable = readable

    def complete(self, messages: Sequence[Message]) -> Reply:
        cache, key = self.cache, self.cache.key(messages)
        flight, leads = cache.lead_or_join(key, is_async=False)
        while not leads:
            if (shared := self._waited(flight)) is not None:
                return shared
            flight, leads = cache.lead_or_join(key, is_async=False, late=flight)
        with cache.flying(key, flight):
            known = cache.known(key)
            reply = _free(known) if known is not None else _checked(self.llm.complete(messages))
            flight.reply.set_result(reply)  # whoever waits need not wait for the store
            if known is None and self.readable(reply):
                cache.keep(key, reply.text)
            return reply

    def _waited(self, flight: Flight) -> Reply | None:
        """The other call's reply; None when it is late, gone or cancelled. Raises a twin of its error."""
        end = time.monotonic() + LEASE_SECONDS
        while (left := end - time.monotonic()) > 0 and not flight.left:
            try:
                return _free(flight.reply.result(min(left, _LOOK)).text)
            except CancelledError:
                return None
            except BaseException as error:
                if flight.reply.done() and flight.reply.exception() is error:
                    raise without_trace(error) from None
                if not isinstance(error, TimeoutError):
                    raise  # Ctrl-C
        return None

    async def acomplete(self, messages: Sequence[Message]) -> Reply:
        cache, key = self.cache, self.cache.key(messages)
        flight, leads = cache.lead_or_join(key, is_async=True)
        while not leads:
            if (shared := await self._awaited(flight)) is not None:
                return shared
            flight, leads = cache.lead_or_join(key, is_async=True, late=flight)
        here = isinstance(cache.store, MemoryStore)
        with cache.flying(key, flight):
            known = cache.known(key) if here else await offload(cache.known, key)
            reply = _free(known) if known is not None else _checked(await self.llm.acomplete(messages))
            flight.reply.set_result(reply)
            if known is None and self.readable(reply):
                if here:
                    cache.keep(key, reply.text)
                else:
                    await offload(cache.keep, key, reply.text)
            return reply

    async def _awaited(self, flight: Flight) -> Reply | None:
        shared = asyncio.wrap_future(flight.reply)
        shared.add_done_callback(_looked_at)
        end = time.monotonic() + LEASE_SECONDS
        while (left := end - time.monotonic()) > 0 and not flight.left:
            await asyncio.wait([shared], timeout=min(left, 1.0))
            if shared.cancelled():
                return None
            if shared.done():
                error = shared.exception()
                if error is not None:
                    raise without_trace(error)
                return _free(shared.result().text)
        return None


def _on_loop() -> bool:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True


def _looked_at(shared: asyncio.Future[Reply]) -> None:
    if not shared.cancelled():
        shared.exception()  # so that a flight that nobody waits for any more is no "exception was never retrieved"


def _checked(reply: Reply) -> Reply:
    if not isinstance(reply, Reply) or not isinstance(reply.text, str):
        raise BrokenLaw(f"an LLM must return a denoise_core.Reply with a text, got {type(reply).__name__}")
    return reply


def _free(text: str) -> Reply:
    return Reply(text, Usage(0, 0))
