"""One HTTP client for sync and async callers: bounded, retried where that helps, to the replica of a document.

Requests run on one event loop of the package's own thread, whoever asks: so a connection opened for one caller
serves the next, and the bound on what is under way holds for all of them together.
"""

from __future__ import annotations

import asyncio
import json
import os
import threading
import time
import zlib
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from email.utils import parsedate_to_datetime
from hashlib import blake2b
from typing import Any, TypeVar
from urllib.parse import urlsplit

import numpy as np
from numpy.typing import NDArray

from denoise_core._optional import require
from denoise_core.errors import BadReply, InputError, mask_secrets
from denoise_core.runtime.budget import Meter, current_meter
from denoise_core.runtime.fallbacks import log_fallback

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class RemoteLimits:
    """How a server is asked. ``timeout`` is the seconds of one request, ``deadline`` those of a whole call,
    retries included (None: no limit but a surrounding budget's). ``attempts`` is how often a request is tried in
    all, ``concurrency`` how many are under way at once. A replica that failed is asked last for ``rest`` seconds.
    A reply has at most ``reply`` bytes, unpacked.

    Raises `InputError` for numbers that make no sense.
    """

    timeout: float = 60.0
    deadline: float | None = None
    attempts: int = 4
    concurrency: int = 16
    cooldown: float = 5.0
    max_reply_bytes: int = 32 << 20

    def __post_init__(self) -> None:
        for name in (
            "timeout",
            "deadline",
            "attempts",
            "concurrency",
            "max_reply_bytes",
        ):
            value = getattr(self, name)
            if value is not None and not value > 0:
                raise InputError(f"{name}={value}: expected more than 0")
        if self.cooldown < 0:
            raise InputError(f"cooldown={self.cooldown}: expected 0 seconds or more")


class RetryableError(Exception):
    """A request that may go well elsewhere or later. ``after`` is the least number of seconds to wait."""

    def __init__(self, error: Exception, after: float = 0.0) -> None:
        super().__init__(str(error))
        self.error, self.after = error, after


class Engine:
    """Requests to servers that answer alike. ``urls`` are their addresses, without the path.

    A document goes to the replica that its key names (`replicas`), to the next one while that is down. Status 408,
    425, 429, 5xx and lost connections are tried again, with growing random pauses and no sooner than
    ``Retry-After`` says. 401 and 403 raise `InputError`: the key is wrong. Any other status, and a reply that is
    no JSON or too long, raises `BadReply`, a failure; 400, 413 and 422 cost the documents alone that are refused
    by themselves. After the last attempt the error comes through as httpx raises it; past the deadline it is
    `TimeoutError`, past a surrounding budget `BudgetExceeded`. Each request counts as a call of that budget.

    ``key_env`` names the environment variable that holds the key; it is read at each request and kept nowhere.
    """

    def __init__(
        self,
        urls: str | Sequence[str],
        *,
        key_env: str | None = None,
        limits: RemoteLimits | None = None,
    ) -> None:
        given = (urls,) if isinstance(urls, str) else tuple(urls)
        if not given or len(set(given)) != len(given):
            raise InputError(f"url={given!r}: expected one address or more, each once")
        for url in given:
            parts = urlsplit(url)
            if parts.scheme not in ("http", "https") or not parts.hostname:
                raise InputError(
                    f"url={mask_secrets(url)!r}: expected an http:// or https:// address"
                )
            if parts.username or parts.password:
                raise InputError(
                    "url: leave user and password out; name an environment variable with key_env="
                )
        self.urls = tuple(u.rstrip("/") for u in given)
        self.key_env = key_env
        self.limits = limits or RemoteLimits()
        self.replicas = Replicas(self.urls, self.limits.cooldown)
        self._client: Any = None
        self._room: asyncio.Semaphore | None = None
        self._loop: asyncio.AbstractEventLoop | None = None

    # -- for callers -----------------------------------------------------------------------------------------

    def run(self, work: Callable[[Meter | None], Coroutine[Any, Any, T]]) -> T:
        """``work`` on the package's loop, from sync code. It is given the surrounding run's meter."""
        future = self._begin(work)
        try:
            return future.result()
        except BaseException:
            future.cancel()
            raise

    async def arun(self, work: Callable[[Meter | None], Coroutine[Any, Any, T]]) -> T:
        """The same, from async code; a cancelled caller cancels it."""
        return await asyncio.wrap_future(self._begin(work))

    def _begin(
        self, work: Callable[[Meter | None], Coroutine[Any, Any, T]]
    ) -> Future[T]:
        meter = current_meter.get()
        budget = meter.remaining_seconds() if meter is not None else None
        left = [s for s in (self.limits.deadline, budget) if s is not None]

        async def within() -> T:
            try:
                async with asyncio.timeout(min(left, default=None)):
                    return await work(meter)
            except TimeoutError as error:
                if refused := meter and meter.refusal(0):
                    raise refused from error
                raise TimeoutError(
                    f"no answer of {', '.join(self.urls)} within {min(left):.3g} s"
                ) from error

        return asyncio.run_coroutine_threadsafe(within(), _loop())

    # -- on the loop -----------------------------------------------------------------------------------------

    async def request_batches(
        self,
        keys: Sequence[bytes],
        batch: int,
        ask: Callable[[str, list[int]], Awaitable[Sequence[T]]],
    ) -> list[T | None]:
        """``ask(url, positions)`` for batches of at most ``batch`` keys, each at its key's replica; results in
        order.

        What failed is asked again, at the next replica; what came is not asked again. A batch that is refused is
        asked in halves, and one document that is refused by itself gives None, which is logged; all of them raise
        `BadReply`.
        """
        tenacity = require("tenacity", extra="remote")
        results: dict[int, T | None] = {}
        refusals: list[BadReply] = []

        async def ask_part(url: str, positions: list[int]) -> None:
            try:
                results.update(zip(positions, await ask(url, positions), strict=True))
            except BadReply as error:
                if error.status not in _ITS_OWN:
                    raise
                if len(positions) == 1:
                    refusals.append(error)
                    results[positions[0]] = None
                    return
                middle = len(positions) // 2
                await asyncio.gather(
                    ask_part(url, positions[:middle]), ask_part(url, positions[middle:])
                )

        async def ask_missing() -> None:
            missing = [i for i in range(len(keys)) if i not in results]
            parts = [
                ask_part(url, positions)
                for url, positions in self._parts(keys, missing, batch)
            ]
            outcomes = await asyncio.gather(*parts, return_exceptions=True)
            errors = [
                outcome for outcome in outcomes if isinstance(outcome, BaseException)
            ]
            if errors:  # what no second try can help comes first
                raise min(errors, key=lambda error: isinstance(error, RetryableError))

        def pause(state: Any) -> float:
            """No sooner than the server says; at once where it says nothing and another replica lives."""
            error = state.outcome.exception()
            if not error.after and self.replicas.alive:
                return 0.0
            return float(max(error.after, random_pause(state)))

        random_pause = tenacity.wait_random_exponential(multiplier=0.1, max=10)
        retrying = tenacity.AsyncRetrying(
            retry=tenacity.retry_if_exception_type(RetryableError),
            stop=tenacity.stop_after_attempt(self.limits.attempts),
            wait=pause,
            reraise=True,
        )
        try:
            await retrying(ask_missing)
        except RetryableError as error:
            raise error.error from None
        if refusals and len(refusals) == len(keys):
            raise refusals[0]
        for refusal in refusals:
            log_fallback("a document of a request", refusal, "it alone has no result")
        return [results[i] for i in range(len(keys))]

    def _parts(
        self, keys: Sequence[bytes], missing: list[int], batch: int
    ) -> list[tuple[str, list[int]]]:
        """Addresses with the positions to ask them about, at most ``batch`` each."""
        by_url: dict[str, list[int]] = {}
        for i in missing:
            by_url.setdefault(self.replicas.choose(keys[i]), []).append(i)
        parts = []
        for url, positions in by_url.items():
            parts += [
                (url, positions[n : n + batch]) for n in range(0, len(positions), batch)
            ]
        return parts

    async def request(
        self,
        method: str,
        url: str,
        path: str,
        body: Any = None,
        meter: Meter | None = None,
    ) -> Any:
        """The JSON of one reply. Raises `RetryableError` for what may go well at another replica or later."""
        httpx = require("httpx", extra="remote")
        client, room = self._opened(httpx)
        async with room:
            headers = self._headers()
            if meter is not None:
                meter.reserve()
            try:
                async with client.stream(
                    method, url + path, json=body, headers=headers
                ) as reply:
                    if not reply.is_success:
                        raise self._refused(httpx, url, url + path, reply)
                    found = await self._whole(reply, url + path)
            except httpx.HTTPError as error:
                self._down(url, error)
                raise RetryableError(error) from error
        self.replicas.answered(url)
        try:
            return json.loads(found, parse_constant=_no_number)
        except (ValueError, RecursionError) as error:
            raise BadReply(
                f"{url + path} did not answer with JSON: {type(error).__name__}"
            ) from error

    async def _whole(self, reply: Any, where: str) -> bytes:
        """The body, unpacked by hand: what unpacks to more than the limit is never held."""
        most, packed = (
            self.limits.max_reply_bytes,
            reply.headers.get("content-encoding", "identity").lower(),
        )
        if packed not in ("identity", "gzip", "deflate"):
            raise BadReply(
                f"{where} answered packed with {packed[:20]!r}, which was not asked for"
            )
        unpacked, parts, size = (
            None if packed == "identity" else zlib.decompressobj(47),
            [],
            0,
        )
        async for part in reply.aiter_raw():
            try:
                parts.append(
                    part
                    if unpacked is None
                    else unpacked.decompress(part, most + 1 - size)
                )
            except zlib.error as error:
                raise BadReply(
                    f"{where} answered with a broken {packed} stream"
                ) from error
            size += len(parts[-1])
            if size > most:
                raise BadReply(f"{where} answered with more than {most:,} bytes")
        return b"".join(parts)

    def _refused(self, httpx: Any, url: str, where: str, reply: Any) -> Exception:
        status, after = reply.status_code, _seconds(reply.headers.get("retry-after"))
        if status in (401, 403):
            hint = (
                "set the key with key_env="
                if self.key_env is None
                else f"look at the key in {self.key_env}"
            )
            return InputError(f"{where} refused the key ({status}): {hint}")
        error = httpx.HTTPStatusError(
            f"{where} answered with {status}", request=reply.request, response=reply
        )
        if status in _SOON:
            return RetryableError(error, after or 0.01)
        if status in _PASSING:
            self._down(url, error)
            return RetryableError(error, after)
        return BadReply(f"{where} refused the request ({status})", status)

    def _down(self, url: str, error: Exception) -> None:
        self.replicas.failed(url)
        log_fallback(
            f"replica {url}", error, f"it is asked last for {self.limits.cooldown:g} s"
        )

    def _headers(self) -> dict[str, str]:
        if self.key_env is None:
            return {}
        key = os.environ.get(self.key_env)
        if not key:
            raise InputError(
                f"key_env={self.key_env!r}: that environment variable is not set"
            )
        return {"Authorization": f"Bearer {key}"}

    def _opened(self, httpx: Any) -> tuple[Any, asyncio.Semaphore]:
        loop = asyncio.get_running_loop()
        if (
            self._client is None or self._loop is not loop
        ):  # after a fork the loop is another one
            most = httpx.Limits(max_connections=self.limits.concurrency)
            plain = {"Accept-Encoding": "identity"}
            self._client = httpx.AsyncClient(
                timeout=self.limits.timeout, limits=most, headers=plain
            )
            self._room, self._loop = asyncio.Semaphore(self.limits.concurrency), loop
        assert self._room is not None
        return self._client, self._room


def fill_missing_scores(found: Sequence[float | None]) -> NDArray[np.float32]:
    """Scores as float32; a text that its server refused has that of the lowest other one."""
    least = min((s for s in found if s is not None), default=0.0)
    return np.array([least if s is None else s for s in found], dtype=np.float32)


def _seconds(value: str | None) -> float:
    """Of a Retry-After header, which counts seconds or names a time: at most 60, and 0 for any other."""
    if not value or not value.isascii():
        return 0.0
    if value.strip().isdigit():
        return min(60.0, float(value[:9]))
    try:
        then = parsedate_to_datetime(value)
        return min(60.0, max(0.0, then.timestamp() - time.time()))
    except (ValueError, OverflowError):
        return 0.0


def _no_number(name: str) -> Any:
    raise ValueError(f"{name} is no JSON")


_SOON = (408, 425, 429)  # the server is well and asks for time
_PASSING = (
    500,
    502,
    503,
    504,
    529,
)  # others of 500 and more, such as "not implemented", do not pass
_ITS_OWN = (400, 413, 422)  # may be about one document of a batch

_making = threading.Lock()
_running: asyncio.AbstractEventLoop | None = None


def _loop() -> asyncio.AbstractEventLoop:
    global _running
    with _making:
        if _running is None:
            _running = asyncio.new_event_loop()
            threading.Thread(
                target=_running.run_forever, name="denoise-engines", daemon=True
            ).start()
        return _running


def _after_fork() -> None:
    global _running, _making
    _running, _making = (
        None,
        threading.Lock(),
    )  # a child has none of its parent's threads


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)


def document_key(text: str) -> bytes:
    """What a document's replica is chosen by: its text alone, whatever is asked about it."""
    return blake2b(text.encode("utf-8", "surrogatepass"), digest_size=16).digest()


def rendezvous_order(key: bytes, names: Sequence[str]) -> list[str]:
    """The names in the order in which ``key`` takes them; the same in every process.

    >>> rendezvous(b"a document", ["a", "b", "c"])[0] == rendezvous(b"a document", ["c", "b", "a"])[0]
    True
    """

    def weight(name: str) -> bytes:
        return blake2b(
            key, digest_size=8, key=blake2b(name.encode(), digest_size=32).digest()
        ).digest()

    return sorted(names, key=weight, reverse=True)


class Replicas:
    """Addresses, and which of them failed a moment ago: those are asked last for ``rest`` seconds."""

    def __init__(self, urls: Sequence[str], rest: float) -> None:
        self.urls = tuple(urls)
        self.rest = rest
        self._until: dict[str, float] = {}

    def choose(self, key: bytes) -> str:
        """The first in the order of ``key`` that is not known to be down; else the one that has rested longest."""
        now = time.monotonic()
        return min(
            rendezvous_order(key, self.urls),
            key=lambda url: max(now, self._until.get(url, now)),
        )

    def failed(self, url: str) -> None:
        self._until[url] = time.monotonic() + self.rest

    def answered(self, url: str) -> None:
        self._until.pop(url, None)

    @property
    def alive(self) -> int:
        """How many are not known to be down."""
        now = time.monotonic()
        return sum(self._until.get(u, 0.0) <= now for u in self.urls)
