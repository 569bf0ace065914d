"""One HTTP client for sync and async callers: bounded, retried, one replica a document.

Requests run on one event loop of the package's own thread, whatever the caller: so a
connection opened for one caller serves the next, and the bound on requests under way
holds for all of them together.
"""

from __future__ import annotations

import asyncio
import json
import os
import threading
import time
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from concurrent.futures import Future
from contextlib import nullcontext
from dataclasses import dataclass, fields
from email.utils import parsedate_to_datetime
from hashlib import blake2b
from typing import Any, TypeVar
from urllib.parse import urlsplit

from denoise_core._optional import require
from denoise_core.cancellation import current_cancel_token
from denoise_core.errors import BadReply, InputError, mask_secrets
from denoise_core.runtime.budget import (
    Meter,
    current_meter,
    time_limit,
    timeout_error,
)
from denoise_core.runtime.fallbacks import log_fallback

T = TypeVar("T")

_BUSY_STATUSES = (408, 425, 429)  # the server works and asks for time
# Other statuses of 500 and more, such as "not implemented", do not pass.
_TRANSIENT_STATUSES = (500, 502, 503, 504, 529)
_SIZE_STATUSES = (400, 413, 422)  # of a request that is too large, among others
_MAX_RETRY_SECONDS = 60.0
_POOL_TIMEOUT = 1.0  # seconds for a connection of a pool that has more than are used
_POOL_SLACK = 8  # connections of cancelled requests that are being closed


@dataclass(frozen=True, slots=True)
class RemoteLimits:
    """How a server is asked.

    Args:
        timeout: Seconds of one request, from its first byte to its reply's last.
        deadline: Seconds of a whole call, retries included; None: only a surrounding
            budget's limit.
        attempts: How often a request is tried in all.
        concurrency: How many requests are under way at once.
        cooldown: Seconds for which a replica that failed is asked last.
        max_reply_bytes: The most bytes of a reply.

    Raises:
        InputError: A number makes no sense.
    """

    timeout: float = 60.0
    deadline: float | None = None
    attempts: int = 4
    concurrency: int = 16
    cooldown: float = 5.0
    max_reply_bytes: int = 32 << 20

    def __post_init__(self) -> None:
        if not self.cooldown >= 0:
            raise InputError(f"cooldown={self.cooldown}: expected 0 seconds or more")
        for field in fields(self):
            value = getattr(self, field.name)
            may_be_zero = field.name == "cooldown"
            if value is not None and not value > 0 and not may_be_zero:
                raise InputError(f"{field.name}={value}: expected more than 0")


class RetryableError(Exception):
    """A request that may succeed at another replica or later.

    ``retry_after`` is the least number of seconds to wait.
    """

    def __init__(self, error: Exception, retry_after: float = 0.0) -> None:
        super().__init__(str(error))
        self.error = error
        self.retry_after = retry_after


class ReplicaHung(ConnectionError):
    """A replica is not asked: its last request ran out of time, and it has not answered since."""


class Engine:
    """Requests to servers that answer alike.

    A document goes to the replica that its key names (`Replicas`), to the next one
    while that is down. Status 408, 425, 429, 500, 502, 503, 504, 529 and lost connections are tried again,
    with growing random pauses and no sooner than ``Retry-After`` says. 401 and 403
    raise `InputError`: the key is wrong. Any other status, and a reply that is no JSON
    or too long, raises `BadReply`, a failure. After the last attempt httpx's own error is raised;
    past the deadline `TimeoutError`, past a surrounding budget `BudgetExceeded`. Each
    request counts as a call of that budget. A replica that let a request run out of
    time is asked again with one request per cooldown, until one is answered; others
    raise `ReplicaHung` at once when no other replica is there.

    Args:
        urls: Addresses of the replicas, without the path.
        key_env: Name of the environment variable that holds the key; it is read at
            each request and never stored.
        limits: Time-outs and bounds.
    """

    def __init__(
        self,
        urls: str | Sequence[str],
        *,
        key_env: str | None = None,
        limits: RemoteLimits | None = None,
    ) -> None:
        addresses = (urls,) if isinstance(urls, str) else tuple(urls)
        distinct_addresses = set(addresses)
        has_repeated = len(distinct_addresses) != len(addresses)
        if not addresses or has_repeated:
            raise InputError(
                f"url={addresses!r}: expected one address or more, each once"
            )
        for url in addresses:
            _check_url(url)
        self.urls = tuple(url.rstrip("/") for url in addresses)
        self.key_env = key_env
        self.limits = limits or RemoteLimits()
        self.replicas = Replicas(self.urls, self.limits.cooldown)
        self._client: Any = None
        self._slots: asyncio.Semaphore | None = None
        self._loop: asyncio.AbstractEventLoop | None = None

    def run(self, work: Callable[[Meter | None], Coroutine[Any, Any, T]]) -> T:
        """Run ``work(meter of the surrounding run)`` on the package's loop, and wait."""
        future = self._start(work)
        token = current_cancel_token.get()
        try:
            with token.calling(future.cancel) if token else nullcontext():
                return future.result()
        except BaseException:
            future.cancel()
            raise

    async def arun(self, work: Callable[[Meter | None], Coroutine[Any, Any, T]]) -> T:
        """Do the same from async code; a cancelled caller cancels the work."""
        future = self._start(work)
        return await asyncio.wrap_future(future)

    def _start(
        self, work: Callable[[Meter | None], Coroutine[Any, Any, T]]
    ) -> Future[T]:
        meter = current_meter.get()
        seconds = time_limit(self.limits.deadline, meter)

        async def run_within_deadline() -> T:
            try:
                async with asyncio.timeout(seconds):
                    return await work(meter)
            except TimeoutError as error:
                servers = ", ".join(self.urls)
                raise timeout_error(seconds, meter, f" of {servers}") from error

        loop = _shared_loop()
        return asyncio.run_coroutine_threadsafe(run_within_deadline(), loop)

    # The methods below run on the package's loop.

    async def request_batches(
        self,
        keys: Sequence[bytes],
        batch_size: int,
        send_batch: Callable[[str, list[int]], Awaitable[Sequence[T]]],
    ) -> list[T]:
        """Request results for all keys, in batches at each key's replica.

        A batch that failed is sent again, to the next replica; results that came are
        not requested again.

        Args:
            keys: The documents' keys, see `document_key`.
            batch_size: The most keys of a request.
            send_batch: ``send_batch(url, positions)`` returns a result for each.

        Raises:
            BadReply: A batch was refused, or a reply is unusable.
        """
        results: dict[int, T] = {}

        async def send_part(url: str, positions: list[int]) -> None:
            values = await send_batch(url, positions)
            results.update(zip(positions, values, strict=True))

        async def send_missing() -> None:
            missing = [i for i in range(len(keys)) if i not in results]
            parts = self._split_by_replica(keys, missing, batch_size)
            requests = [send_part(url, positions) for url, positions in parts]
            outcomes = await asyncio.gather(*requests, return_exceptions=True)
            errors = [error for error in outcomes if isinstance(error, BaseException)]
            if not errors:
                return
            # What no retry can help comes first.
            error = min(errors, key=lambda error: isinstance(error, RetryableError))
            if isinstance(error, ReplicaHung) and self.replicas.can_ask:
                # Another batch was the trial, and it was answered.
                raise RetryableError(error)
            raise error

        await self._send_with_retries(send_missing)
        return [results[i] for i in range(len(keys))]

    async def _send_with_retries(
        self, send_missing: Callable[[], Awaitable[None]]
    ) -> None:
        """Send until nothing fails that a retry can help, or the attempts are used."""
        tenacity = require("tenacity", extra="remote")
        random_pause = tenacity.wait_random_exponential(multiplier=0.1, max=10)

        def retry_pause(state: Any) -> float:
            retry_after = state.outcome.exception().retry_after
            if not retry_after and "alive" in self.replicas.states:
                return 0.0  # another replica may answer at once
            return float(max(retry_after, random_pause(state)))

        retrying = tenacity.AsyncRetrying(
            retry=tenacity.retry_if_exception_type(RetryableError),
            stop=tenacity.stop_after_attempt(self.limits.attempts),
            wait=retry_pause,
            reraise=True,
        )
        try:
            await retrying(send_missing)
        except RetryableError as error:
            raise error.error from None

    def _split_by_replica(
        self, keys: Sequence[bytes], positions: list[int], batch_size: int
    ) -> list[tuple[str, list[int]]]:
        """Return addresses with the positions to send, at most ``batch_size`` each."""
        by_url: dict[str, list[int]] = {}
        for i in positions:
            url = self.replicas.choose(keys[i])
            url_positions = by_url.setdefault(url, [])
            url_positions.append(i)
        parts = []
        for url, url_positions in by_url.items():
            for start in range(0, len(url_positions), batch_size):
                end = start + batch_size
                batch = url_positions[start:end]
                parts.append((url, batch))
        return parts

    async def request(
        self,
        method: str,
        url: str,
        path: str,
        body: Any = None,
        meter: Meter | None = None,
    ) -> Any:
        """Return the JSON of one reply.

        Raises `RetryableError` for what may succeed at another replica or later.
        """
        httpx = require("httpx", extra="remote")
        client, slots = self._open_client(httpx)
        address = url + path
        async with slots:
            headers = self._headers()
            self.replicas.check_may_ask(url)
            if meter is not None:
                meter.reserve()
            try:
                content = await self._send_once(
                    client, method, url, path, body, headers
                )
            except httpx.PoolTimeout as error:
                # Cancelled requests can keep connections of a pool for ever.
                if self._client is client:
                    self._client = self._make_client(httpx)
                raise RetryableError(error) from error
            except httpx.TimeoutException as error:
                self._mark_down(url, error)
                self.replicas.mark_hung(url)
                raise RetryableError(error) from error
            except httpx.HTTPError as error:
                self._mark_down(url, error)
                raise RetryableError(error) from error
        self.replicas.mark_alive(url)
        try:
            return json.loads(content, parse_constant=_reject_constant)
        except (ValueError, RecursionError) as error:
            raise BadReply(
                f"{address} did not answer with JSON: {type(error).__name__}"
            ) from error

    async def _send_once(
        self,
        client: Any,
        method: str,
        url: str,
        path: str,
        body: Any,
        headers: dict[str, str],
    ) -> bytes:
        """Send one request within the time limit; returns the body of the reply."""
        httpx = require("httpx", extra="remote")
        address = url + path
        try:
            # httpx's own limits are about one read: a reply in drips would pass them.
            async with asyncio.timeout(self.limits.timeout):
                request = client.stream(method, address, json=body, headers=headers)
                async with request as response:
                    if not response.is_success:
                        self.replicas.mark_answering(url)
                        raise self._status_error(httpx, url, address, response)
                    return await self._read_body(response, address)
        except TimeoutError as error:
            raise httpx.ReadTimeout(
                f"{address} did not answer in full within {self.limits.timeout:g} s"
            ) from error

    async def _read_body(self, response: Any, address: str) -> bytes:
        """Never hold more bytes than the limit, so no reply is unpacked."""
        max_bytes = self.limits.max_reply_bytes
        encoding = response.headers.get("content-encoding", "identity")
        if encoding.lower() != "identity":
            raise BadReply(
                f"{address} answered packed with {encoding[:20]!r}, which was not "
                "asked for"
            )
        content = bytearray()
        async for part in response.aiter_raw():
            content += part
            if len(content) > max_bytes:
                raise BadReply(f"{address} answered with more than {max_bytes:,} bytes")
        return bytes(content)

    def _status_error(
        self, httpx: Any, url: str, address: str, response: Any
    ) -> Exception:
        status = response.status_code
        retry_header = response.headers.get("retry-after")
        retry_after = _parse_retry_after(retry_header)
        if status in (401, 403):
            hint = "set the key with key_env="
            if self.key_env is not None:
                hint = f"look at the key in {self.key_env}"
            return InputError(f"{address} refused the key ({status}): {hint}")
        error = httpx.HTTPStatusError(
            f"{address} answered with {status}",
            request=response.request,
            response=response,
        )
        if status in _BUSY_STATUSES:
            return RetryableError(error, retry_after or 0.01)
        if status in _TRANSIENT_STATUSES:
            self._mark_down(url, error)
            return RetryableError(error, retry_after)
        hint = ""
        if status in _SIZE_STATUSES:
            hint = ": a text may be too long, or batch= too large for it"
        return BadReply(f"{address} refused the request ({status}){hint}", status)

    def _mark_down(self, url: str, error: Exception) -> None:
        self.replicas.mark_failed(url)
        action = f"it is asked last for {self.limits.cooldown:g} s"
        log_fallback(f"replica {url}", error, action)

    def _headers(self) -> dict[str, str]:
        if self.key_env is None:
            return {}
        key = os.environ.get(self.key_env)
        if not key:
            raise InputError(
                f"key_env={self.key_env!r}: that environment variable is not set"
            )
        return {"Authorization": f"Bearer {key}"}

    def _open_client(self, httpx: Any) -> tuple[Any, asyncio.Semaphore]:
        loop = asyncio.get_running_loop()
        if self._slots is None or self._loop is not loop:  # another loop after a fork
            self._client = self._make_client(httpx)
            self._slots = asyncio.Semaphore(self.limits.concurrency)
            self._loop = loop
        return self._client, self._slots

    def _make_client(self, httpx: Any) -> Any:
        timeout = self.limits.timeout
        # Our own slots bound the requests, so a full pool is a broken one.
        pool_timeout = min(timeout, _POOL_TIMEOUT)
        max_connections = _POOL_SLACK + self.limits.concurrency
        return httpx.AsyncClient(
            timeout=httpx.Timeout(timeout, pool=pool_timeout),
            limits=httpx.Limits(max_connections=max_connections),
            headers={"Accept-Encoding": "identity"},
        )


def _check_url(url: str) -> None:
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise InputError(
            f"url={mask_secrets(url)!r}: expected an http:// or https:// address"
        )
    if parts.username or parts.password:
        raise InputError(
            "url: leave user and password out; name an environment variable with "
            "key_env="
        )


def _parse_retry_after(header: str | None) -> float:
    """Return the seconds of a Retry-After header, at most 60; 0 for any other text.

    The header counts seconds or names a time.
    """
    if not header or not header.isascii():
        return 0.0
    if header.strip().isdigit():
        return min(_MAX_RETRY_SECONDS, float(header[:9]))
    try:
        retry_time = parsedate_to_datetime(header)
        seconds = retry_time.timestamp() - time.time()
    except (ValueError, OverflowError):
        return 0.0
    return min(_MAX_RETRY_SECONDS, max(0.0, seconds))


def _reject_constant(name: str) -> Any:
    raise ValueError(f"{name} is no JSON")


_loop_lock = threading.Lock()
_engine_loop: asyncio.AbstractEventLoop | None = None


def _shared_loop() -> asyncio.AbstractEventLoop:
    global _engine_loop
    with _loop_lock:
        if _engine_loop is None:
            _engine_loop = asyncio.new_event_loop()
            thread = threading.Thread(
                target=_engine_loop.run_forever, name="denoise-engines", daemon=True
            )
            thread.start()
        return _engine_loop


def _after_fork() -> None:
    """Forget the loop: a child process has none of its parent's threads."""
    global _engine_loop, _loop_lock
    _engine_loop = None
    _loop_lock = threading.Lock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)


def document_key(text: str) -> bytes:
    """Return the key that chooses a document's replica: from its text alone."""
    text_bytes = text.encode("utf-8", "surrogatepass")
    return blake2b(text_bytes, digest_size=16).digest()


def rendezvous_order(key: bytes, names: Sequence[str]) -> list[str]:
    """Sort the names by the preference of ``key``; the same in every process.

    >>> urls = ["a", "b", "c"]
    >>> rendezvous_order(b"text", urls)[0] == rendezvous_order(b"text", urls[::-1])[0]
    True
    """

    def weight(name: str) -> bytes:
        name_key = blake2b(name.encode(), digest_size=32).digest()
        return blake2b(key, digest_size=8, key=name_key).digest()

    return sorted(names, key=weight, reverse=True)


class Replicas:
    """Addresses; one that failed is asked last for ``cooldown`` seconds."""

    def __init__(self, urls: Sequence[str], cooldown: float) -> None:
        self.urls = tuple(urls)
        self.cooldown = cooldown
        self._down_until: dict[str, float] = {}
        self._next_probe: dict[str, float] = {}  # of those that hung

    def choose(self, key: bytes) -> str:
        """Return the first live address in the order of ``key``.

        When all are down, the one that failed first.
        """
        now = time.monotonic()

        def ready_time(url: str) -> float:
            down_until = self._down_until.get(url, now)
            return max(now, down_until, self._next_probe.get(url, now))

        preferred_urls = rendezvous_order(key, self.urls)
        return min(preferred_urls, key=ready_time)

    def check_may_ask(self, url: str) -> None:
        """Admit a request; of those to a replica that hung, one per cooldown.

        Raises:
            ReplicaHung: The replica hung, and its next trial is not due.
        """
        now = time.monotonic()
        next_probe = self._next_probe.get(url)
        if next_probe is None:
            return
        if now < next_probe:
            raise ReplicaHung(
                f"{url} let a request run out of time; it is asked again in "
                f"{next_probe - now:.1f} s"
            )
        self._next_probe[url] = now + self.cooldown

    def mark_hung(self, url: str) -> None:
        """Ask this address with one request per cooldown, the first one now."""
        self._next_probe.setdefault(url, time.monotonic())

    def mark_failed(self, url: str) -> None:
        """Ask this address last for a while."""
        self._down_until[url] = time.monotonic() + self.cooldown

    def mark_answering(self, url: str) -> None:
        """Ask this address without trials: it refuses a request, but does not hang."""
        self._next_probe.pop(url, None)

    def mark_alive(self, url: str) -> None:
        """Use this address again."""
        self._down_until.pop(url, None)
        self.mark_answering(url)

    @property
    def states(self) -> list[str]:
        """What is known of each address: alive, down or hung."""
        now = time.monotonic()
        states = []
        for url in self.urls:
            state = "alive"
            if url in self._next_probe:
                state = "hung"
            elif self._down_until.get(url, 0.0) > now:
                state = "down"
            states.append(state)
        return states

    @property
    def can_ask(self) -> bool:
        """False while each address hung and the next trial of none is due."""
        now = time.monotonic()
        return any(self._next_probe.get(url, now) <= now for url in self.urls)
