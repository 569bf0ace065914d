"""Workers of either kind, and `map` over them: what is computed far away comes back in order, once each."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any, TypeVar

from denoise_core.errors import InputError
from denoise_core.running.fallbacks import fell_back
from denoise_core.service.bulk.processes import Processes
from denoise_core.service.bulk.worker import Task, Workers

T = TypeVar("T")
R = TypeVar("R")

DEATHS = 5  # workers that die one after the other without an answer: the work cannot be done here
AHEAD = 2  # items of a worker that are under way or wait for their turn to be given out


def started(task: Task, engine: str, count: int | None) -> Callable[[], Workers]:
    """What starts the workers: processes of this machine, or actors of a Ray cluster. Raises `InputError` for a
    number or an engine that cannot be."""
    if count is not None and count < 1:
        raise InputError(f"workers={count}: expected 1 or more")
    if engine == "process":
        return lambda: Processes(task, count or os.cpu_count() or 1)
    if engine == "ray":
        from denoise_core.service.bulk.rays import Rays

        return lambda: Rays(task, count)
    raise InputError(f"engine={engine!r}: expected 'process' or 'ray'")


class Spread:
    """``Spread("ray")(call, items)`` gives what ``map(call, items)`` gives, computed by workers.

    ``call`` travels to them and so does each item; both are pickled. Items are taken as workers take them, results
    come in the items' order. A worker that dies is replaced, and what it had is computed again. What ``call``
    raises is raised here, and ends the work; so do `DEATHS` deaths in a row, with `InputError`.
    """

    def __init__(self, engine: str = "process", workers: int | None = None) -> None:
        started(_Tried(abs), engine, workers)
        self.engine = engine
        self.workers = workers

    def __call__(self, call: Callable[[T], R], items: Iterable[T]) -> Iterator[R]:
        left = enumerate(items)
        first = next(left, None)
        if first is None:
            return
        workers = started(_Tried(call), self.engine, self.workers)()
        try:
            yield from _in_order(workers, left, first)
        finally:
            workers.close()


@dataclass(frozen=True, slots=True)
class _Tried:
    """The task: what it gives, or what it raised."""

    call: Callable[[Any], Any]

    def __call__(self, item: Any) -> tuple[Any, Exception | None]:
        try:
            return self.call(item), None
        except Exception as error:  # raised where the work was asked for
            return None, error


def _in_order(workers: Workers, left: Iterator[tuple[int, Any]], first: tuple[int, Any]) -> Iterator[Any]:
    under_way: list[deque[tuple[int, Any]]] = [deque() for _ in range(workers.count)]
    again: deque[tuple[int, Any]] = deque([first])
    found: dict[int, Any] = {}
    given = in_a_row = 0
    while True:
        for depth in range(AHEAD):
            for number, own in enumerate(under_way):
                if len(own) != depth or not workers.ready(number):
                    continue
                # What waits for a slow item is bounded: nothing far ahead of it is begun.
                room = sum(map(len, under_way)) + len(found) < 2 * AHEAD * workers.count
                item = again.popleft() if again else next(left, None) if room else None
                if item is not None:
                    own.append(item)
                    workers.send(number, item[1])
        if not any(under_way) and not again:
            return
        for number, answer in workers.wait():
            own = under_way[number]
            if answer is None:
                in_a_row += 1
                fell_back("bulk", "a worker died", "it was replaced, and what it had is computed again")
                if in_a_row > DEATHS:
                    raise InputError(f"{in_a_row} workers died one after the other without an answer")
                again.extend(own)
                own.clear()
                continue
            in_a_row = 0
            position, _ = own.popleft()
            result, error = answer
            if error is not None:
                raise error
            found[position] = result
        while given in found:
            yield found.pop(given)
            given += 1
