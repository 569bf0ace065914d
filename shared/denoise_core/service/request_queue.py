"""Which requests are worked on, and when: a bound on threads, and admission by the wait to expect."""

from __future__ import annotations

import asyncio
import gc
import math
import sys
import threading
import time
from collections.abc import Callable
from typing import TypeVar

import anyio
from fastapi import HTTPException

from denoise_core.runtime.thread_pool import DaemonThreadPool
from denoise_core.service import ServiceLimits

T = TypeVar("T")

FIXED_COST = 2000  # what a request costs besides its characters, in characters
WAIT_FRACTION = 0.8  # of the limit that an expected wait may fill: estimates err
MAX_HUNG_THREADS = (
    4  # threads for each worker that may hang before nothing more is begun
)
INITIAL_RATE = 1e-5  # seconds of a character, before the first request is done
_RATE_WEIGHT = 0.2  # of the newest request in the average
# Collections of the middle generation before a full one that Python starts itself.
RARE_COLLECTIONS = 10_000
_COLLECT_AFTER = 10  # of them after which an idle service collects


def tune_for_serving() -> None:
    """Tune a process that only serves, after all is loaded.

    No full garbage collection while a request is worked on, since that stops all
    threads; and short turns of threads that compute.
    """
    gc.freeze()
    gc.set_threshold(*gc.get_threshold()[:2], RARE_COLLECTIONS)
    sys.setswitchinterval(0.001)


class ServiceBusy(HTTPException):
    """The request would not be done in time, nor within ``retry_after`` seconds."""

    def __init__(self, retry_after: float) -> None:
        seconds = max(1, math.ceil(retry_after))
        super().__init__(503, "busy: ask again later", {"Retry-After": str(seconds)})


class RequestQueue:
    """Runs calls on ``limits.threads`` threads, for one event loop."""

    def __init__(self, limits: ServiceLimits) -> None:
        self.limits = limits
        self.working = 0  # threads, abandoned ones included
        self._pending_cost = 0.0  # of all that was admitted and is not done
        self._seconds_per_cost = INITIAL_RATE
        self._lock = threading.Lock()
        self._last_progress = time.monotonic()
        self._slots = anyio.CapacityLimiter(limits.threads)
        self._max_threads = limits.threads * (MAX_HUNG_THREADS + 1)
        self._pool = DaemonThreadPool(self._max_threads, "denoise-service")

    async def ask(self, call: Callable[[], T], characters: int) -> T:
        """Return what ``call`` returns.

        Raises `ServiceBusy` at once when it could not be done in time, and
        `TimeoutError` when it was not.
        """
        cost = characters + FIXED_COST
        deadline = time.monotonic() + self.limits.timeout
        self.admit(characters)
        self._pending_cost += cost
        try:
            async with asyncio.timeout(self.limits.timeout), self._slots:
                if time.monotonic() + cost * self._seconds_per_cost > deadline:
                    raise TimeoutError  # it would not end in time
                if self._is_hung:
                    raise ServiceBusy(self.limits.timeout / 2)
                return await self._pool.run(self._run_timed, call, cost)
        finally:
            self._pending_cost -= cost

    def admit(self, characters: int = 0) -> None:
        """Raise `ServiceBusy` for a request that could not be done in time."""
        cost = self._pending_cost / self.limits.threads + characters + FIXED_COST
        excess = cost * self._seconds_per_cost - WAIT_FRACTION * self.limits.timeout
        # Without others it is tried, however long the last request took.
        is_late = self._pending_cost and excess > 0
        if self._is_hung or self.waiting >= self.limits.max_waiting or is_late:
            raise ServiceBusy(excess)

    @property
    def waiting(self) -> int:
        """Requests that wait for a thread."""
        return self._slots.statistics().tasks_waiting

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

    def _run_timed(self, call: Callable[[], T], cost: float) -> T:
        start_time = time.monotonic()
        with self._lock:
            if not self.working:
                self._last_progress = start_time
            self.working += 1
        try:
            return call()
        except Exception:
            raise
        except BaseException as error:
            # It would end the event loop, and all other requests with it.
            raise RuntimeError(f"the call raised {type(error).__name__}") from None
        finally:
            self._record_end(start_time, cost)

    def _record_end(self, start_time: float, cost: float) -> None:
        now = time.monotonic()
        with self._lock:
            self.working -= 1
            is_idle = not self.working
            self._last_progress = now
            rate = (now - start_time) / cost
            if self._seconds_per_cost != INITIAL_RATE:  # else this is the first one
                rate = (1 - _RATE_WEIGHT) * self._seconds_per_cost + _RATE_WEIGHT * rate
            self._seconds_per_cost = rate
        is_tuned = gc.get_threshold()[2] == RARE_COLLECTIONS
        if is_idle and is_tuned and gc.get_count()[2] >= _COLLECT_AFTER:
            gc.collect()
