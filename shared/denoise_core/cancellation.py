"""Whether anybody still waits for a call: long work asks it between two steps."""

from __future__ import annotations

import contextvars
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TypeVar

T = TypeVar("T")


class CancelToken:
    """True once the caller of this work, or of an enclosing call, waits no longer."""

    __slots__ = ("_callbacks", "_is_cancelled", "_outer_token")

    def __init__(self) -> None:
        self._outer_token = current_cancel_token.get()
        self._is_cancelled = False
        self._callbacks: dict[object, Callable[[], object]] = {}

    def cancel(self) -> None:
        """Mark this call, and all calls that begin inside it, as abandoned."""
        self._is_cancelled = True
        for callback in list(self._callbacks.values()):
            callback()

    def is_cancelled(self) -> bool:
        """Tell whether nobody waits for this call or an enclosing one any more."""
        if self._is_cancelled or self._outer_token is None:
            return self._is_cancelled
        return self._outer_token.is_cancelled()

    @contextmanager
    def calling(self, callback: Callable[[], object]) -> Iterator[None]:
        """Call ``callback`` once this or an enclosing call is abandoned inside the block."""
        registration = object()
        token: CancelToken | None = self
        tokens = []
        while token is not None:
            token._callbacks[registration] = callback
            tokens.append(token)
            token = token._outer_token
        if self.is_cancelled():  # perhaps before it was registered
            callback()
        try:
            yield
        finally:
            for registered_token in tokens:
                registered_token._callbacks.pop(registration, None)

    def run_in(self, call: Callable[[], T]) -> T:
        """Run ``call`` in a job's own context copy, where all inner calls see this."""
        current_cancel_token.set(self)
        return call()


# Work on a thread asks this before it makes one more call that somebody pays for.
current_cancel_token: contextvars.ContextVar[CancelToken | None] = (
    contextvars.ContextVar("denoise_left", default=None)
)


def stop_if_abandoned() -> None:
    """Raise `TimeoutError` when nobody waits for the call that this work belongs to."""
    cancel_token = current_cancel_token.get()
    if cancel_token is not None and cancel_token.is_cancelled():
        raise TimeoutError("the call that this run belongs to has run out of time")
