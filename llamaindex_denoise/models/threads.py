"""A bounded pool of threads for models and retrievers whose async form would run on the event loop."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import AsyncGenerator, Callable, Iterator
from typing import TypeVar

from denoise_core import InputError
from denoise_core.running.offload import LeftBehind, Pool, left_behind

T = TypeVar("T")


_LOOK = 0.05  # seconds between two looks at whether a slot's holder was left behind


class _End:
    """After the last item; ``failed`` is why there are no more."""

    def __init__(self, failed: BaseException | None) -> None:
        self.failed = failed


class Threads:
    """A bounded pool of daemon threads for calls that would block an event loop.

    The context (spans, budget) goes along. It holds no thread before the first call; copies and pickles of
    it start with a pool of their own. `slot` bounds callers that bring their own threads. A call that nobody
    waits for any more (a time-out, a cancellation) costs its slot no longer; with a limit of 1 it does, for that
    is a model which must not be called twice at once.
    """

    def __init__(self, limit: int) -> None:
        if limit < 1:
            raise InputError(f"max_threads={limit}: expected 1 or more")
        self.limit = limit
        self._pool = Pool(limit, "denoise-llamaindex")
        self._held: list[LeftBehind] = []
        self._free = threading.Condition()

    @contextlib.contextmanager
    def slot(self) -> Iterator[None]:
        """One of ``limit`` calls at a time; waits for its turn. Raises `TimeoutError` once nobody waits for it."""
        held = left_behind.get() or LeftBehind()
        with self._free:
            while len(self._counting()) >= self.limit and not held.is_set():
                self._free.wait(_LOOK)
            if held.is_set():
                raise TimeoutError("nobody waits for this call any more")
            self._held.append(held)
        try:
            yield
        finally:
            with self._free:
                self._held.remove(held)
                self._free.notify()

    def _counting(self) -> list[LeftBehind]:
        return self._held if self.limit == 1 else [h for h in self._held if not h.is_set()]

    async def run(self, call: Callable[[], T]) -> T:
        """What ``call`` returns, as `Pool.run`."""
        return await self._pool.run(call)

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
