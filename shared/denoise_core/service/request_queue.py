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

FIXED = 2000  # what a request costs besides its characters, in characters
MARGIN = 0.8  # of the limit that an expected wait may fill: estimates err
LOST = 4  # threads for each worker that may hang before nothing more is begun
GUESS = 1e-5  # seconds of a character, before the first request is done
_WEIGHT = 0.2  # of the newest request in the mean
RARELY = 10_000  # collections of the middle generation before a full one, while nothing else asks for one
_YOUNG = 10  # of them after which one is due as soon as nothing is under way


def tune_for_serving() -> None:
    """Settles a process that only serves, after all is loaded: no full collection, which holds all threads up for
    as long as there are objects, while a request is worked on, and short turns of threads that compute."""
    gc.freeze()
    gc.set_threshold(*gc.get_threshold()[:2], RARELY)
    sys.setswitchinterval(0.001)


class ServiceBusy(HTTPException):
    """It would not be done in time; nor may it be within ``after`` seconds."""

    def __init__(self, after: float) -> None:
        super().__init__(
            503, "busy: ask again later", {"Retry-After": str(max(1, math.ceil(after)))}
        )


class RequestQueue:
    """Calls on ``limits.threads`` threads, each answered as it is done. Of one event loop."""

    def __init__(self, limits: ServiceLimits) -> None:
        self.limits = limits
        self.working = 0  # threads, those that nobody waits for included
        self._ahead = 0.0  # cost of all that was admitted and is not done
        self._rate = GUESS  # seconds of one unit of cost
        self._lock = threading.Lock()
        self._progress = time.monotonic()
        self._room = anyio.CapacityLimiter(limits.threads)
        self._pool = DaemonThreadPool(limits.threads * (LOST + 1), "denoise-service")

    async def ask(self, call: Callable[[], T], characters: int) -> T:
        """What ``call`` returns. Raises `ServiceBusy` at once for one that could not be done in time, `TimeoutError` when
        it was not, and what it raises."""
        cost, until = characters + FIXED, time.monotonic() + self.limits.timeout
        self.admit(characters)
        self._ahead += cost
        try:
            async with asyncio.timeout(self.limits.timeout), self._room:
                if time.monotonic() + cost * self._rate > until:
                    raise TimeoutError  # it would be given up on the way
                if self._lost:
                    raise ServiceBusy(self.limits.timeout / 2)
                return await self._pool.run(self._timed, call, cost)
        finally:
            self._ahead -= cost

    def admit(self, characters: int = 0) -> None:
        """Raises `ServiceBusy` for a request of so many characters that could not be done in time."""
        expected = (self._ahead / self.limits.threads + characters + FIXED) * self._rate
        late = expected - MARGIN * self.limits.timeout
        if (
            self._lost
            or self.waiting >= self.limits.max_waiting
            or (self._ahead and late > 0)
        ):
            raise ServiceBusy(late)  # alone it is tried, however long the last one took

    @property
    def waiting(self) -> int:
        """Requests."""
        return self._room.statistics().tasks_waiting

    @property
    def ready(self) -> bool:
        """False when work is under way and none was done for too long."""
        with self._lock:
            return (
                not self.working
                or time.monotonic() - self._progress < self.limits.stall_timeout
            )

    def close(self) -> None:
        self._pool.close()

    @property
    def _lost(self) -> bool:
        return self.working >= self.limits.threads * (LOST + 1)

    def _timed(self, call: Callable[[], T], cost: float) -> T:
        began = time.monotonic()
        with self._lock:
            if not self.working:
                self._progress = began
            self.working += 1
        try:
            return call()
        except Exception:
            raise
        except (
            BaseException
        ) as error:  # it would end the event loop, and all other requests with it
            raise RuntimeError(f"the call raised {type(error).__name__}") from None
        finally:
            now = time.monotonic()
            with self._lock:
                self.working -= 1
                due = (
                    not self.working
                    and gc.get_threshold()[2] == RARELY
                    and gc.get_count()[2] >= _YOUNG
                )
                self._progress = now
                rate = (now - began) / cost
                self._rate = (
                    rate
                    if self._rate == GUESS
                    else (1 - _WEIGHT) * self._rate + _WEIGHT * rate
                )
            if due:
                gc.collect()
