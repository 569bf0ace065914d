"""Requests that wait at the same time are worked on together; one that is alone does not wait for company.

While a batch is worked on the next one gathers, so batches grow with the load and cost no latency without it. A
worker takes its share of what waits and no more: requests of one batch are all answered at its end, so a batch of
all that wait would have the first of them wait for the last while other workers stand idle.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from denoise_core.running.offload import Pool
from denoise_core.service.settings import ServiceLimits


class Busy(Exception):
    """As many requests wait as may."""


@dataclass(slots=True, eq=False)
class Waiting:
    """One request: what is asked, how many passages it has, and where the answer goes."""

    asked: Any
    size: int
    answer: asyncio.Future[Any]


Work = Callable[[Sequence[Any]], Sequence[Any]]
"""What is asked, to an answer or an exception for each."""


class Batcher:
    """``work`` on threads of its own, a batch at a time for each. ``seen`` is told the size of every batch."""

    def __init__(self, work: Work, limits: ServiceLimits, seen: Callable[[int], None]) -> None:
        self._work = work
        self._limits = limits
        self._seen = seen
        self._waiting: deque[Waiting] = deque()
        self._there = asyncio.Condition()
        self._workers = limits.threads
        self._pool = Pool(self._workers, "denoise-service")
        self._tasks: list[asyncio.Task[None]] = []
        self.under_way = 0

    @property
    def length(self) -> int:
        """How many wait."""
        return len(self._waiting)

    def start(self) -> None:
        self._tasks = [asyncio.create_task(self._serve()) for _ in range(self._workers)]

    async def stop(self) -> None:
        """Work that is under way ends, what waits is cancelled."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        for waiting in self._waiting:
            waiting.answer.cancel()
        self._pool.close()

    async def ask(self, asked: Any, size: int) -> Any:
        """The answer. Raises `Busy`, `TimeoutError` after the limit's seconds, and what the work raises."""
        if len(self._waiting) >= self._limits.waiting:
            self._waiting = deque(w for w in self._waiting if not w.answer.done())  # those given up wait no more
        if len(self._waiting) >= self._limits.waiting:
            raise Busy
        one = Waiting(asked, size, asyncio.get_running_loop().create_future())
        async with self._there:
            self._waiting.append(one)
            self._there.notify()
        async with asyncio.timeout(self._limits.seconds):
            return await one.answer

    async def _serve(self) -> None:
        while True:
            async with self._there:
                await self._there.wait_for(lambda: self._waiting)
                batch = self._taken()
            if not batch:
                continue
            self._seen(len(batch))
            self.under_way += len(batch)
            try:
                answers = await self._pool.run(self._work, [w.asked for w in batch])
            except Exception as error:  # whatever the work raises is these requests' own, and the service goes on
                answers = [error] * len(batch)
            finally:
                self.under_way -= len(batch)
            for waiting, answer in zip(batch, answers, strict=True):
                if waiting.answer.done():
                    continue
                if isinstance(answer, BaseException):
                    waiting.answer.set_exception(answer)
                else:
                    waiting.answer.set_result(answer)

    def _taken(self) -> list[Waiting]:
        """The next batch, without those whose client has gone: of what waits one worker's share, at least one."""
        batch: list[Waiting] = []
        size, most = 0, min(self._limits.batch, max(1, len(self._waiting) // self._workers))
        while self._waiting and len(batch) < most:
            if self._waiting[0].answer.done():
                self._waiting.popleft()
                continue
            size += self._waiting[0].size
            if batch and size > self._limits.together:
                break
            batch.append(self._waiting.popleft())
        return batch
