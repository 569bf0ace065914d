"""A bounded pool of threads for models and retrievers whose async form would run on the event loop."""

from __future__ import annotations

import asyncio
import contextvars
import threading
from collections.abc import AsyncGenerator, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from denoise_core import InputError

T = TypeVar("T")


class _End:
    """After the last item; ``failed`` is why there are no more."""

    def __init__(self, failed: BaseException | None) -> None:
        self.failed = failed


class Threads:
    """A bounded pool of threads for calls that would block an event loop.

    The context (spans, budget) goes along. It holds no thread before the first call; copies and pickles of
    it start with a pool of their own. ``slots`` bounds callers that bring their own threads.
    """

    def __init__(self, limit: int) -> None:
        if limit < 1:
            raise InputError(f"max_threads={limit}: expected 1 or more")
        self.limit = limit
        self.slots = threading.BoundedSemaphore(limit)
        self._pool: ThreadPoolExecutor | None = None
        self._lock = threading.Lock()

    async def run(self, call: Callable[[], T]) -> T:
        with self._lock:
            pool = self._pool = self._pool or ThreadPoolExecutor(
                self.limit, thread_name_prefix="denoise-llamaindex"
            )
        return await asyncio.get_running_loop().run_in_executor(pool, contextvars.copy_context().run, call)

    async def iterate(self, make: Callable[[], Iterator[T]]) -> AsyncGenerator[T, None]:
        """What ``make()`` gives, read by one thread of the pool. Closing it stops the reading at the next item."""
        loop, items = asyncio.get_running_loop(), asyncio.Queue[T | _End]()
        closed = threading.Event()

        def read() -> None:
            failed: BaseException | None = None
            try:
                for item in make():
                    if closed.is_set():
                        return
                    loop.call_soon_threadsafe(items.put_nowait, item)
            except BaseException as error:
                failed = error
            finally:
                loop.call_soon_threadsafe(items.put_nowait, _End(failed))

        reading = asyncio.ensure_future(self.run(read))
        try:
            while not isinstance(item := await items.get(), _End):
                yield item
            if item.failed is not None:
                raise item.failed
        finally:
            closed.set()
            reading.cancel()  # one that waits for a thread never begins; one that runs ends at its next item

    def __reduce__(self) -> tuple[type[Threads], tuple[int]]:
        return type(self), (self.limit,)


def owner(instance: object, method: str) -> type | None:
    """The class that defines ``method`` for this object (methods are wrapped, so identity says nothing)."""
    return next((c for c in type(instance).__mro__ if method in vars(c)), None)
