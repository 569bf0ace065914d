"""A bounded thread pool for models and retrievers that would block the event loop."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import AsyncGenerator, Callable, Iterator
from typing import TypeVar

from denoise_core import InputError
from denoise_core.runtime.thread_pool import DaemonThreadPool, current_cancel_token

ResultT = TypeVar("ResultT")


class AdapterThreads:
    """A bounded pool of daemon threads; calls keep their context (spans, budget).

    An abandoned call frees its slot. With a limit of 1 it does not, since such a model
    must not be called twice at once.
    """

    def __init__(self, limit: int) -> None:
        if limit < 1:
            raise InputError(f"max_threads={limit}: expected 1 or more")
        self.limit = limit
        self._pool = DaemonThreadPool(limit, "denoise-llamaindex")
        self._exclusive = threading.Lock() if limit == 1 else contextlib.nullcontext()

    @contextlib.contextmanager
    def slot(self) -> Iterator[None]:
        """Admit one caller at a time if the limit is 1, callers of other threads too.

        Raises:
            TimeoutError: The caller was cancelled while it waited.
        """
        with self._exclusive:
            cancel_token = current_cancel_token.get()
            if cancel_token is not None and cancel_token.is_cancelled():
                raise TimeoutError("the call was cancelled while it waited for a slot")
            yield

    async def run(self, function: Callable[[], ResultT]) -> ResultT:
        """Run ``function`` on a thread of the pool and return its result."""
        return await self._pool.run(function)

    async def iterate(
        self, make_iterator: Callable[[], Iterator[ResultT]]
    ) -> AsyncGenerator[ResultT, None]:
        """Yield the items of ``make_iterator()``, read on one thread of the pool.

        Closing the generator stops the reading at the next item.
        """
        loop = asyncio.get_running_loop()
        items = asyncio.Queue[tuple[ResultT] | None]()
        is_closed = threading.Event()

        def read_items() -> None:
            try:
                for item in make_iterator():
                    if is_closed.is_set():
                        return
                    loop.call_soon_threadsafe(items.put_nowait, (item,))
            finally:
                loop.call_soon_threadsafe(items.put_nowait, None)

        reader = asyncio.ensure_future(self.run(read_items))
        try:
            while (entry := await items.get()) is not None:
                yield entry[0]
            await reader
        finally:
            is_closed.set()
            # A reader that waits for a thread never starts; a running one ends at its
            # next item.
            reader.cancel()


def defining_class(instance: object, method: str) -> type | None:
    """Return the class that defines ``method`` for this object.

    LlamaIndex wraps methods, so comparing the functions would not work.
    """
    for base_class in type(instance).__mro__:
        if method in vars(base_class):
            return base_class
    return None
