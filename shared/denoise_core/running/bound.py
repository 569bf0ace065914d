"""A bound on concurrency that holds for every run inside a block, whatever the runs ask for themselves."""

from __future__ import annotations

import contextvars
from collections.abc import Iterator
from contextlib import contextmanager

from denoise_core.errors import InputError

_bound: contextvars.ContextVar[int | None] = contextvars.ContextVar("denoise_bound", default=None)


@contextmanager
def at_most(concurrency: int | None) -> Iterator[None]:
    """Within this block a run carries out at most ``concurrency`` effects of a batch at once.

    So an adapter can bound a denoiser it was handed. The smallest of nested bounds holds; None adds none.
    Raises `InputError` below 1.
    """
    token = _bound.set(bounded(concurrency))
    try:
        yield
    finally:
        _bound.reset(token)


def bounded(concurrency: int | None) -> int | None:
    """``concurrency``, or the surrounding bound if that is smaller; None when there is neither."""
    around = _bound.get()
    if concurrency is None:
        return around
    if concurrency < 1:
        raise InputError(f"max_concurrency={concurrency}: expected 1 or more")
    return concurrency if around is None else min(concurrency, around)
