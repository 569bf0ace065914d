"""Daemon threads for work that would block an event loop or cannot be interrupted.

A bounded number; idle ones end by themselves. So a call that hangs costs the
application's executor nothing, costs ours its slot only while somebody waits for it,
and never keeps a process from ending.
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

from denoise_core.cancellation import CancelToken

T = TypeVar("T")

IDLE_SECONDS = 5.0  # how long a thread without work stays
MAX_THREADS = min(32, (os.cpu_count() or 1) + 4)

_worker_state = threading.local()  # its `pool` is set on our own threads


_all_pools: WeakSet[DaemonThreadPool] = WeakSet()


class DaemonThreadPool:
    """At most ``limit`` daemon threads; calls beyond that wait in order."""

    def __init__(self, limit: int, name: str = "denoise") -> None:
        self.limit = limit
        self.name = name
        self._reset()
        _all_pools.add(self)

    def _reset(self) -> None:
        self._ready = threading.Condition()
        self._jobs: deque[_Job] = deque()
        self._thread_count = 0  # alive, and serving somebody who still waits
        self._idle_count = 0
        self._is_closed = False

    def submit(self, call: Callable[[], Any]) -> Future[Any]:
        """Run ``call`` in a copy of this context.

        A `StopIteration`, which no future can carry, becomes a `RuntimeError`.
        """
        job = _Job(call)
        with self._ready:
            self._jobs.append(job)
            if self._idle_count >= len(self._jobs):
                self._ready.notify()
            elif self._thread_count < self.limit:
                self._start_thread()
        return job.future

    def abandon(self, future: Future[Any]) -> None:
        """Give up a call: it does not start, or its thread counts no longer."""
        with self._ready:
            for job in self._jobs:
                if job.future is future:
                    self._jobs.remove(job)
                    future.cancel()
                    return
            if future.done() or getattr(future, "_is_abandoned", False):
                return
            future._is_abandoned = True  # type: ignore[attr-defined]
            self._thread_count -= 1
            if self._jobs:
                self._start_thread()

    def close(self) -> None:
        """Cancel calls that have not started; threads end as their calls do."""
        with self._ready:
            self._is_closed = True
            for job in self._jobs:
                job.future.cancel()
            self._jobs.clear()
            self._ready.notify_all()

    async def run(self, call: Callable[..., T], /, *args: Any, **kwargs: Any) -> T:
        """Await ``call`` on a thread.

        When cancelled, this waits no longer: the thread is abandoned, its slot is
        free, and a run on it makes no further effect.
        """
        pool = self
        if getattr(_worker_state, "pool", None) is self:
            # A call that waits for a call would hold the very slot it waits for.
            pool = DaemonThreadPool(1, self.name)
        cancel_token = CancelToken()
        bound_call = partial(call, *args, **kwargs)
        future = pool.submit(partial(cancel_token.run_in, bound_call))
        try:
            result: T = await asyncio.wrap_future(future)
            return result
        finally:
            if not future.done():
                cancel_token.cancel()
            pool.abandon(future)
            if pool is not self:
                pool.close()

    def _start_thread(self) -> None:
        """Start a thread; without one more, jobs wait for those that there are.

        Where there is none, nobody would ever take them: they fail.
        """
        thread = threading.Thread(target=self._work, name=self.name, daemon=True)
        try:
            thread.start()
        except RuntimeError as error:  # the system has no more
            if self._thread_count:
                return
            while self._jobs:
                self._jobs.popleft().future.set_exception(error)
            return
        self._thread_count += 1

    def _work(self) -> None:
        _worker_state.pool = self
        while (job := self._next_job()) is not None:
            job.execute()
            with self._ready:
                if getattr(job.future, "_is_abandoned", False):
                    return

    def _next_job(self) -> _Job | None:
        """Wait for work; None when this thread has been idle long enough."""
        with self._ready:
            if not self._jobs and not self._is_closed:
                self._idle_count += 1
                self._ready.wait_for(
                    lambda: self._jobs or self._is_closed, IDLE_SECONDS
                )
                self._idle_count -= 1
            if self._jobs:
                return self._jobs.popleft()
            self._thread_count -= 1
            return None


class _Job:
    __slots__ = ("call", "context", "future")

    def __init__(self, call: Callable[[], Any]) -> None:
        self.call = call
        self.context = contextvars.copy_context()
        self.future: Future[Any] = Future()

    def execute(self) -> None:
        if not self.future.set_running_or_notify_cancel():
            return
        try:
            result = self.context.run(self.call)
        except StopIteration as error:
            wrapped_error = RuntimeError("the call raised StopIteration")
            wrapped_error.__cause__ = error
            self.future.set_exception(wrapped_error)
        except BaseException as error:
            self.future.set_exception(error)
        else:
            self.future.set_result(result)


_shared_pool = DaemonThreadPool(MAX_THREADS)


async def run_in_pool(call: Callable[..., T], /, *args: Any, **kwargs: Any) -> T:
    """Await ``call`` on the package's own threads, as `asyncio.to_thread` does."""
    return await _shared_pool.run(call, *args, **kwargs)


def run_in_thread(call: Callable[[], T]) -> T:
    """Run ``call`` on a new daemon thread: for sync code that needs its own loop."""
    with closing(DaemonThreadPool(1)) as pool:
        result: T = pool.submit(call).result()
        return result


def _after_fork() -> None:
    for pool in list(_all_pools):
        pool._reset()  # a child process has none of its parent's threads


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
