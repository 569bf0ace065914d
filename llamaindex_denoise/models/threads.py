"""A bounded pool of threads for models and retrievers whose async form would run on the event loop."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import AsyncGenerator, Callable, Iterator
from typing import TypeVar

from denoise_core import InputError
from denoise_core.runtime.thread_pool import DaemonThreadPool, current_cancel_token

T = TypeVar("T")


class AdapterThreads:
    """A bounded pool of daemon threads for calls that would block an event loop.

    The context (spans, budget) goes along. A call that nobody
    waits for any more costs its thread no longer; with a limit of 1 it does, for a model to be called alone.
    """

    def __init__(self, limit: int) -> None:
        if limit < 1:
            raise InputError(f"max_threads={limit}: expected 1 or more")
        self.limit = limit
        self._pool = DaemonThreadPool(limit, "denoise-llamaindex")
        self._alone = threading.Lock() if limit == 1 else contextlib.nullcontext()

    @contextlib.contextmanager
    def slot(self) -> Iterator[None]:
        """With a limit of 1 one caller at a time, also of those on threads of their own. Raises `TimeoutError`
        where nobody waits for the call any more."""
        with self._alone:
            if (left := current_cancel_token.get()) is not None and left.is_cancelled():
                raise TimeoutError("nobody waits for this call any more")
            yield

    async def run(self, call: Callable[[], T]) -> T:
        """What ``call`` returns, as `Pool.run`."""
        return await self._pool.run(call)

    async def iterate(self, make: Callable[[], Iterator[T]]) -> AsyncGenerator[T, None]:
        """What ``make()`` gives, read by one thread of the pool. Closing it stops the reading at the next item."""
        loop, items = asyncio.get_running_loop(), asyncio.Queue[tuple[T] | None]()
        closed = threading.Event()

        def read() -> None:
            try:
                for item in make():
                    if closed.is_cancelled():
                        return
                    loop.call_soon_threadsafe(items.put_nowait, (item,))
            finally:
                loop.call_soon_threadsafe(items.put_nowait, None)

        reading = asyncio.ensure_future(self.run(read))
        try:
            while (item := await items.get()) is not None:
                yield item[0]
            await reading
        finally:
            closed.set()
            reading.cancel()  # one that waits for a thread never begins; one that runs ends at its next item


def defining_class(instance: object, method: str) -> type | None:
    """The class that defines ``method`` for this object (methods are wrapped, so identity says nothing)."""
    return next((c for c in type(instance).__mro__ if method in vars(c)), None)
