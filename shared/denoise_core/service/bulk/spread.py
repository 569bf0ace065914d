"""`map` over workers: what is computed far away comes back in the items' order, once each."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import TimeoutError
from typing import Any, TypeVar

from denoise_core._optional import require
from denoise_core.errors import InputError
from denoise_core.running.fallbacks import fell_back
from denoise_core.service.bulk.job import checked
from denoise_core.service.bulk.rays import begun
from denoise_core.service.bulk.workers import do, pool

T = TypeVar("T")
R = TypeVar("R")

TRIES = 5  # of an item whose worker died


class Spread:
    """``Spread("ray")(call, items)`` gives what ``map(call, items)`` gives, computed by workers.

    ``call`` travels to them and so does each item; both are pickled. Items are taken as workers take them, results
    come in the items' order. A worker that dies is replaced, and what it had is computed again. What ``call``
    raises is raised here, and ends the work; so do `TRIES` deaths over one item, with `InputError`.
    """

    def __init__(self, engine: str = "process", workers: int | None = None) -> None:
        checked(engine, workers)
        self.engine = engine
        self.workers = workers

    def __call__(self, call: Callable[[T], R], items: Iterable[T]) -> Iterator[R]:
        given = iter(items)
        first = list(_taken(given, 1))
        if first:
            each = _on_ray if self.engine == "ray" else _on_processes
            yield from each(call, first, given, self.workers)


def _on_processes(call: Any, first: list[Any], given: Iterator[Any], count: int | None) -> Iterator[Any]:
    count = count or os.cpu_count() or 1
    ended = (TimeoutError, require("pebble", extra="bulk").ProcessExpired)
    with pool(call, count) as workers:

        def ask(item: Any) -> Any:
            return workers.schedule(do, args=(item,))

        under_way = deque((item, ask(item)) for item in first)
        while under_way:
            under_way.extend((item, ask(item)) for item in _taken(given, 2 * count - len(under_way)))
            item, future = under_way.popleft()
            for tried in range(1, TRIES + 1):
                try:
                    yield future.result()
                    break
                except ended as error:
                    if tried == TRIES:
                        raise InputError(f"{TRIES} workers died one after the other over one item") from error
                    fell_back("bulk", "a worker died", "it was replaced, and what it had is computed again")
                    future = ask(item)


class Actor:
    """Holds the call of one actor."""

    def __init__(self, call: Any) -> None:
        self.call = call

    def do(self, item: Any) -> Any:
        return self.call(item)


def _on_ray(call: Any, first: list[Any], given: Iterator[Any], count: int | None) -> Iterator[Any]:
    ray = begun()
    room = int(ray.cluster_resources().get("CPU", 0))
    count = max(1, min(count or room, room - 1))
    made = ray.remote(num_cpus=1, max_restarts=-1, max_task_retries=TRIES)(Actor)
    actors = deque(made.remote(call) for _ in range(count))

    def ask(item: Any) -> Any:
        actors.rotate()
        return actors[0].do.remote(item)

    try:
        under_way = deque(map(ask, first))
        while under_way:
            under_way.extend(map(ask, _taken(given, 2 * count - len(under_way))))
            try:
                yield ray.get(under_way.popleft())
            except ray.exceptions.RayTaskError as error:
                raise (error.cause or error) from None  # as the call raised it
    finally:
        for actor in actors:
            ray.kill(actor)


def _taken(given: Iterator[T], count: int) -> Iterator[T]:
    for _ in range(count):
        try:
            yield next(given)
        except StopIteration:
            return
