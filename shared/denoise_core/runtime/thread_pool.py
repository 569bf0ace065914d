"""Work that would hold up an event loop, or that nobody can interrupt, on threads of the package's own.

Daemon threads, a bounded number, idle ones end by themselves. So a call that hangs costs the application's
executor nothing, costs ours its slot only while somebody waits for it, and never keeps a process from ending.
"""

from __future__ import annotations

import asyncio
import contextvars
import os
import threading
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import closing
from functools import partial
from typing import Any, TypeVar
from weakref import WeakSet

T = TypeVar("T")

IDLE_SECONDS = 5.0  # how long a thread without work stays
MAX_THREADS = min(32, (os.cpu_count() or 1) + 4)

_inside = threading.local()  # set on our own threads


class CancelToken:
    """Whether nobody waits any more for the call that the work at hand is part of, or for one around it."""

    __slots__ = ("_gone", "_outer")

    def __init__(self) -> None:
        self._outer = current_cancel_token.get()
        self._gone = False

    def cancel(self) -> None:
        self._gone = True

    def is_cancelled(self) -> bool:
        return self._gone or (self._outer is not None and self._outer.is_cancelled())

    def run_in(self, call: Callable[[], T]) -> T:
        """``call``, in a job's own copy of the context, where everything that it begins sees this."""
        current_cancel_token.set(self)
        return call()


# What work on another thread asks before it makes one more call that somebody would have to pay for.
current_cancel_token: contextvars.ContextVar[CancelToken | None] = (
    contextvars.ContextVar("denoise_left", default=None)
)


_pools: WeakSet[DaemonThreadPool] = WeakSet()


class DaemonThreadPool:
    """At most ``limit`` daemon threads. Calls beyond that wait in order."""

    def __init__(self, limit: int, name: str = "denoise") -> None:
        self.limit = limit
        self.name = name
        self._begin()
        _pools.add(self)

    def _begin(self) -> None:
        self._ready = threading.Condition()
        self._jobs: deque[_Job] = deque()
        self._threads = 0  # alive, and worked for somebody who still waits
        self._idle = 0
        self._closed = False

    def submit(self, call: Callable[[], Any]) -> Future[Any]:
        """``call`` in a copy of this context. Its `StopIteration`, which no future can carry, is a
        `RuntimeError`.
        """
        job = _Job(call)
        with self._ready:
            self._jobs.append(job)
            if self._idle >= len(self._jobs):
                self._ready.notify()
            elif self._threads < self.limit:
                self._start()
        return job.future

    def abandon(self, future: Future[Any]) -> None:
        """Nobody waits for this call any more: it does not begin, or its thread no longer counts."""
        with self._ready:
            job = next((j for j in self._jobs if j.future is future), None)
            if job is not None:
                self._jobs.remove(job)
                future.cancel()
            elif not future.done() and not getattr(future, "_left", False):
                future._left = True  # type: ignore[attr-defined]
                self._threads -= 1
                if self._jobs:
                    self._start()

    def close(self) -> None:
        """No call that has not begun begins; threads end as their calls do. Waits for none."""
        with self._ready:
            self._closed = True
            for job in self._jobs:
                job.future.cancel()
            self._jobs.clear()
            self._ready.notify_all()

    async def run(self, call: Callable[..., T], /, *args: Any, **named: Any) -> T:
        """What ``call`` returns. Cancelled, it waits no longer: the thread is left behind and its slot is free; a
        run on it makes no further effect.

        From one of our own threads it takes a thread beside the pool: a call that waits for a call would
        otherwise hold the slot it waits for.
        """
        loop = asyncio.get_running_loop()
        pool = (
            DaemonThreadPool(1, self.name)
            if getattr(_inside, "pool", None) is self
            else self
        )
        left = CancelToken()
        future = pool.submit(partial(left.run_in, partial(call, *args, **named)))
        waiting: asyncio.Future[T] = loop.create_future()

        def landed(done: Future[T]) -> None:
            try:
                loop.call_soon_threadsafe(_hand_over, done, waiting)
            except RuntimeError:  # the loop is closed, nobody waits
                return

        future.add_done_callback(landed)
        try:
            return await waiting
        finally:
            if not future.done():
                left.cancel()
            pool.abandon(future)
            if pool is not self:
                pool.close()

    def _start(self) -> None:
        self._threads += 1
        threading.Thread(target=self._work, name=self.name, daemon=True).start()

    def _work(self) -> None:
        _inside.pool = self
        while True:
            with self._ready:
                if not self._jobs and not self._closed:
                    self._idle += 1
                    self._ready.wait_for(
                        lambda: self._jobs or self._closed, IDLE_SECONDS
                    )
                    self._idle -= 1
                if not self._jobs:
                    self._threads -= 1
                    return
                job = self._jobs.popleft()
            job.do()
            with self._ready:
                if getattr(job.future, "_left", False):
                    return


class _Job:
    __slots__ = ("call", "context", "future")

    def __init__(self, call: Callable[[], Any]) -> None:
        self.call = call
        self.context = contextvars.copy_context()
        self.future: Future[Any] = Future()

    def do(self) -> None:
        if not self.future.set_running_or_notify_cancel():
            return
        try:
            result = self.context.run(self.call)
        except StopIteration as error:
            stopped = RuntimeError("the call raised StopIteration")
            stopped.__cause__ = error
            self.future.set_exception(stopped)
        except BaseException as error:
            self.future.set_exception(error)
        else:
            self.future.set_result(result)


def _hand_over(done: Future[T], waiting: asyncio.Future[T]) -> None:
    if waiting.done():
        return
    if done.cancelled():
        waiting.cancel()
    elif (error := done.exception()) is not None:
        waiting.set_exception(error)
    else:
        waiting.set_result(done.result())


_shared = DaemonThreadPool(MAX_THREADS)


async def run_in_pool(call: Callable[..., T], /, *args: Any, **named: Any) -> T:
    """``await offload(scorer.score, query, texts)``: as `asyncio.to_thread`, on the package's own threads."""
    return await _shared.run(call, *args, **named)


def run_in_thread(call: Callable[[], T]) -> T:
    """What ``call`` returns, from a daemon thread: for sync code that must run an event loop of its own."""
    with closing(DaemonThreadPool(1)) as pool:
        found: T = pool.submit(call).result()
        return found


def _after_fork() -> None:
    for pool in list(_pools):
        pool._begin()  # a child has none of its parent's threads


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
