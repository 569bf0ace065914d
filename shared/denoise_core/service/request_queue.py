"""Which requests are worked on, and when: a bound on threads, and admission by the wait to expect."""

from __future__ import annotations

import asyncio
import gc
import math
import sys
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterable
from itertools import takewhile
from string import ascii_letters
from typing import TypeVar

import anyio
import numpy as np
from fastapi import HTTPException

from denoise_core.runtime.thread_pool import DaemonThreadPool
from denoise_core.service import ServiceLimits

T = TypeVar("T")

FIXED_COST = 500  # what a request costs besides its tokens, in tokens
WAIT_FRACTION = 0.7  # of the limit that an expected wait may fill: estimates err
MAX_HUNG_THREADS = (
    16  # threads for each worker that may hang before nothing more is begun
)
# Processor time of a thread between two looks; with less it waits for something. On a
# busy machine, one that computes may get little, but not next to nothing.
MIN_CPU_SECONDS = 0.001
PROBE_SECONDS = 1.0  # between two requests that are tried against the estimate
INITIAL_RATE = 4e-5  # seconds of a token, before the first request is done
RATE_HALF_LIVES = 4  # how often the rate halves in the limit, while none is measured
# Of fewer tokens, what a request costs besides reading them would be taken for reading.
LONG_TOKENS = 5000
READING_LIMITS = (
    4  # limits in which the rate of reading halves: it depends on texts alone
)
_RATE_WEIGHT = 0.2  # of the newest request in the average
# Collections of the middle generation before a full one that Python starts itself.
RARE_COLLECTIONS = 10_000
_NO_CLOCK = -1
_IS_LETTER = np.zeros(256, np.bool_)
_IS_LETTER[list(ascii_letters.encode())] = True
_TOKENS_PER_BYTE = np.full(256, 0.5, np.float32)  # two bytes and more a character
_TOKENS_PER_BYTE[:128] = 1.0
_TOKENS_PER_BYTE[:33] = 0.0
_TOKENS_PER_BYTE[48:58] = 0.5  # digits
_TOKENS_PER_BYTE[:128][_IS_LETTER[:128]] = 0.0
_COLLECT_AFTER = 10  # of them after which an idle service collects


def tune_for_serving() -> None:
    """Tune a process that only serves, after all is loaded.

    No full garbage collection while a request is worked on, since that stops all
    threads; and short turns of threads that compute: a refusal waits for several.
    """
    gc.freeze()
    gc.set_threshold(*gc.get_threshold()[:2], RARE_COLLECTIONS)
    sys.setswitchinterval(0.0002)


class ServiceBusy(HTTPException):
    """The request would not be done in time, nor within ``retry_after`` seconds."""

    def __init__(self, retry_after: float) -> None:
        seconds = max(1, math.ceil(retry_after))
        headers = {"Retry-After": str(seconds)}
        super().__init__(503, "busy: ask again later", headers)


class TooManyTokens(HTTPException):
    """The request could not be read in time even if nothing else ran."""

    def __init__(self, tokens: int, rate: float, timeout: float) -> None:
        super().__init__(
            413,
            f"about {tokens:,} tokens to read; in {timeout:g} s about "
            f"{int(timeout / rate):,} are read at the measured speed",
        )


class _Rate:
    """Seconds for a unit of cost as last measured; it halves while nothing is measured.

    So an estimate that keeps requests out errs only for a while. It holds for one half
    life first: what halved between two requests of a busy service would admit too many.
    """

    def __init__(self, half_life: float) -> None:
        self.half_life = half_life
        self.measured: float | None = None
        self.measured_at = 0.0

    @property
    def current(self) -> float:
        if self.measured is None:
            return INITIAL_RATE
        age = time.monotonic() - self.measured_at
        half_lives = max(0.0, age / self.half_life - 1)
        return float(self.measured * 0.5**half_lives)

    def record(self, rate: float) -> None:
        if self.measured is not None:  # else this is the first one
            rate = (1 - _RATE_WEIGHT) * self.current + _RATE_WEIGHT * rate
        self.measured = rate
        self.measured_at = time.monotonic()

    def raise_to(self, rate: float) -> None:
        """Learn that the rate is higher than ``rate``, by an unknown factor: take 2."""
        if self.measured is None or 2 * rate > self.current:
            self.measured = 2 * rate
            self.measured_at = time.monotonic()


class Turn:
    """The place of a request that was admitted: what it costs, and what it has computed."""

    def __init__(self) -> None:
        self.kind = ""
        self.cost = 0.0
        # At most what takes the whole limit: it will be given up by then.
        self.pending_cost = 0.0
        self.is_probe = False
        self.start_time = time.monotonic()
        self.cpu_clock: int | None = None  # of its thread, once that runs
        self.cpu_start = 0.0  # by that clock

    def read_cpu_seconds(self) -> float | None:
        """Seconds that its thread computed for it; None when no thread computes.

        Or where the system has no such clock.
        """
        try:
            return time.clock_gettime(self.cpu_clock or _NO_CLOCK) - self.cpu_start
        except (OSError, AttributeError):
            return None


class RequestQueue:
    """Runs calls on ``limits.threads`` threads, for one event loop.

    A call whose thread waits instead of computing, for a remote scorer that hangs, say,
    soon gives its slot to the next one.
    """

    def __init__(self, limits: ServiceLimits) -> None:
        self.limits = limits
        self.working = 0  # threads, abandoned ones included
        # All that was admitted and holds or awaits a slot, in order.
        self._turns: dict[Turn, None] = {}
        self.rate = _Rate(limits.timeout / RATE_HALF_LIVES)
        self.reading_rates: defaultdict[str, _Rate] = defaultdict(
            lambda: _Rate(limits.timeout * READING_LIMITS)
        )  # of long requests, by kind
        self._next_probe = 0.0
        self._lock = threading.Lock()
        self._last_progress = time.monotonic()
        self._slots = anyio.CapacityLimiter(limits.threads)
        self._max_threads = limits.threads * (MAX_HUNG_THREADS + 1)
        self._pool = DaemonThreadPool(self._max_threads, "denoise-service")

    async def ask(self, call: Callable[[], T], turn: Turn) -> T:
        """Return what ``call`` returns, and end its turn.

        Raises `TimeoutError` when it was not done in time.
        """
        deadline = time.monotonic() + self.limits.timeout
        try:
            async with asyncio.timeout(self.limits.timeout):
                await self._slots.acquire_on_behalf_of(turn)
                turn.start_time = time.monotonic()
                seconds = turn.cost * self.rate.current
                if turn.start_time + seconds > deadline and not turn.is_probe:
                    raise TimeoutError  # it would not end in time
                if self._is_hung:
                    raise ServiceBusy(self.limits.timeout / 2)
                return await self._run_turn(call, turn)
        except TimeoutError:
            cpu_seconds = turn.read_cpu_seconds()
            if cpu_seconds is not None and turn in self._turns:
                self._record_rate(turn, cpu_seconds, has_ended=False)
            raise
        finally:
            self.release(turn)

    def reserve(self, tokens: int) -> Turn:
        """Admit a request by an estimate of its tokens; it counts until it is released.

        Raises `ServiceBusy`.
        """
        turn = Turn()
        self._set_cost(turn, tokens)
        self._turns[turn] = None
        return turn

    def confirm(self, turn: Turn, tokens: int, kind: str) -> None:
        """Replace the estimate by what its text costs; ``kind`` is read at one speed.

        If that is more, only what was admitted before it counts: later requests do not
        push it out. Raises `TooManyTokens` or `ServiceBusy` when it could not be done in
        time, alone or now.
        """
        self._refuse_too_long(tokens, self.reading_rates[kind])
        turn.kind = kind
        self._set_cost(turn, tokens)

    def _set_cost(self, turn: Turn, tokens: int) -> None:
        cost = tokens + FIXED_COST
        if cost > turn.cost and not turn.is_probe:
            turn.is_probe = self.admit(tokens, turn)
            if turn.is_probe:
                self._next_probe = time.monotonic() + PROBE_SECONDS
        turn.cost = cost
        turn.pending_cost = min(cost, self.limits.timeout / self.rate.current)

    def release(self, turn: Turn) -> None:
        """Free what the turn holds; a second call does nothing."""
        if turn not in self._turns:
            return
        del self._turns[turn]
        try:
            self._slots.release_on_behalf_of(turn)
        except RuntimeError:  # it never got a slot
            return

    def _refuse_too_long(self, tokens: int, reading_rate: _Rate) -> None:
        if reading_rate.measured is None or tokens < LONG_TOKENS:
            return
        rate = reading_rate.current
        if tokens * rate > self.limits.timeout:
            raise TooManyTokens(tokens, rate, self.limits.timeout)

    def admit(self, tokens: int, turn: Turn | None = None) -> bool:
        """Return whether a request is tried against the estimate of its wait.

        Estimates err: one is tried when nothing is before it, or nothing waits and none
        was tried for a while. Only turns before ``turn`` count, or all. Raises
        `ServiceBusy` for a request that could not be done in time.
        """
        before = list(takewhile(lambda other: other is not turn, self._turns))
        waiting = len(before) - self.limits.threads
        cost = float(tokens + FIXED_COST)
        if waiting >= 0:
            pending_costs = [other.pending_cost for other in before]
            cost += sum(pending_costs) / self.limits.threads
        excess = cost * self.rate.current - WAIT_FRACTION * self.limits.timeout
        is_full = self._is_hung or waiting >= self.limits.max_waiting
        if excess <= 0 and not is_full:
            return False
        is_probe_due = waiting <= 0 and time.monotonic() >= self._next_probe
        if is_full or (before and not is_probe_due):
            raise ServiceBusy(excess)
        return True

    @property
    def waiting(self) -> int:
        """Requests that wait for a thread."""
        return max(0, len(self._turns) - self.limits.threads)

    @property
    def ready(self) -> bool:
        """False when work is under way and none was done for too long."""
        with self._lock:
            idle_seconds = time.monotonic() - self._last_progress
            return not self.working or idle_seconds < self.limits.stall_timeout

    def close(self) -> None:
        """Start no further call."""
        self._pool.close()

    @property
    def _is_hung(self) -> bool:
        return self.working >= self._max_threads

    async def _run_turn(self, call: Callable[[], T], turn: Turn) -> T:
        watch = asyncio.create_task(self._release_when_waiting(turn))
        try:
            return await self._pool.run(self._run_timed, call, turn)
        finally:
            watch.cancel()

    async def _release_when_waiting(self, turn: Turn) -> None:
        """Release the slot once the call's thread has computed next to nothing for a while."""
        seconds = self.limits.timeout / MAX_HUNG_THREADS
        last_cpu_seconds = 0.0
        while turn in self._turns:
            await asyncio.sleep(seconds)
            cpu_seconds = turn.read_cpu_seconds()
            if cpu_seconds is None:  # its thread has not started, or has just ended
                continue
            if cpu_seconds - last_cpu_seconds < MIN_CPU_SECONDS:
                self.release(turn)
            last_cpu_seconds = cpu_seconds

    def _run_timed(self, call: Callable[[], T], turn: Turn) -> T:
        turn.cpu_start = time.thread_time()
        if hasattr(time, "pthread_getcpuclockid"):
            turn.cpu_clock = time.pthread_getcpuclockid(threading.get_ident())
        with self._lock:
            if not self.working:
                self._last_progress = time.monotonic()
            self.working += 1
        try:
            return call()
        except Exception:
            raise
        except BaseException as error:
            # It would end the event loop, and all other requests with it.
            raise RuntimeError(f"the call raised {type(error).__name__}") from None
        finally:
            self._record_end(turn)

    def _record_end(self, turn: Turn) -> None:
        with self._lock:
            self.working -= 1
            is_idle = not self.working
            self._last_progress = time.monotonic()
        if turn in self._turns:  # what waited for others says nothing about the rate
            self._record_rate(turn, time.thread_time() - turn.cpu_start)
        is_tuned = gc.get_threshold()[2] == RARE_COLLECTIONS
        if is_idle and is_tuned:
            _, _, collections = gc.get_count()
            if collections >= _COLLECT_AFTER:
                gc.collect()

    def _record_rate(
        self, turn: Turn, cpu_seconds: float, *, has_ended: bool = True
    ) -> None:
        with self._lock:
            self.rate.record((time.monotonic() - turn.start_time) / turn.cost)
            is_short = turn.cost < FIXED_COST + LONG_TOKENS
            if is_short:
                return
            # What the machine does besides is no reason to refuse a text for good.
            reading_rate = self.reading_rates[turn.kind]
            if has_ended:
                reading_rate.record(cpu_seconds / turn.cost)
            else:
                reading_rate.raise_to(cpu_seconds / turn.cost)


def estimate_reading_cost(texts: Iterable[str]) -> int:
    """Estimate tokens from above, in one fast pass: dense texts cost many times prose.

    A word is a token for each four letters that it has, or begins to have on average;
    a digit is half a token; a sign, and a character of another script, is one.
    """
    total = 0.0
    for text in texts:
        text_bytes = text.encode("utf-8", "surrogatepass")
        codes = np.frombuffer(text_bytes, np.uint8)
        is_letter = _IS_LETTER[codes]
        letters = np.count_nonzero(is_letter)
        starts_word = is_letter[1:] & ~is_letter[:-1]
        words = np.count_nonzero(starts_word) + 1
        total += max(words, letters / 4)
        total += float(_TOKENS_PER_BYTE[codes].sum())
    return int(total)
