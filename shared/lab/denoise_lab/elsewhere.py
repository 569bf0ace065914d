"""A `map` for fits that reads elsewhere: on processes of this machine, or on the actors of a Ray cluster."""

from __future__ import annotations

import multiprocessing
import os
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import BrokenExecutor, ProcessPoolExecutor
from typing import Any, Literal

from denoise_core._optional import require
from denoise_core.end.fit.readings import Each
from denoise_core.errors import InputError
from denoise_core.service.bulk.workers import begun, cores_shared


def elsewhere(engine: Literal["process", "ray"], workers: int | None = None) -> Each:
    """A `map` that ``workers`` processes of this machine compute ("process"; one a core when None), or actors of a
    Ray cluster ("ray"): ``fit_denoiser(questions, model, each=elsewhere("ray", 8))``. The call travels to each of
    them once, the items as they are free.

    Results come in the items' order. What the call raises is raised here and ends the work, and so does a process
    that dies, with `InputError`.
    """

    def each(call: Callable[[Any], Any], items: Iterable[Any]) -> Iterator[Any]:
        if engine == "ray":
            begun()
            with require("ray.util.multiprocessing", extra="ray").Pool(workers, _hold, (call,)) as actors:
                for found in actors.imap(_held, iter(items)):
                    if isinstance(found, Exception):  # Ray's imap hands it over among the results
                        raise getattr(found, "underlying", found)
                    yield found
            return
        count = workers or os.cpu_count() or 1
        spawned = multiprocessing.get_context("spawn")
        with cores_shared(count), ProcessPoolExecutor(count, spawned, _hold, (call,)) as processes:
            try:
                yield from processes.map(_held, items)
            except BrokenExecutor as error:
                raise InputError("a process died on the way: give fewer workers, or more memory") from error

    return each


_call: Any = None


def _hold(call: Callable[[Any], Any]) -> None:
    global _call
    _call = call


def _held(item: Any) -> Any:
    return _call(item)
