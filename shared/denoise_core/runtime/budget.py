"""What a run may use: calls, tokens and seconds, and how much at once.

`Budget` is the limits, a value. `Meter` counts what has been spent and is shared: a
run puts its meter where the runs it starts can see it, so nested loops draw on the
same budget, also across threads and tasks.
"""

from __future__ import annotations

import contextvars
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TypeVar

from denoise_core.errors import BudgetExceeded, InputError
from denoise_core.types import Usage

Limit = TypeVar("Limit", int, float)


@dataclass(frozen=True, slots=True)
class Budget:
    """Limits of a run; None means no limit.

    A call is one LLM completion, one retrieval or one request of a remote scorer,
    nested ones included. ``calls`` is exact: the call that would pass it is not made.
    ``tokens`` are known only after a reply, so no call starts once the limit is reached,
    and calls under way are finished (of a batch up to ``max_concurrency``). ``seconds``
    counts from the start of the run; it is checked before each effect, and under `arun`
    it also ends an effect in the middle.

    Raises:
        InputError: A limit is negative.
    """

    calls: int | None = None
    tokens: int | None = None
    seconds: float | None = None

    def __post_init__(self) -> None:
        for name in ("calls", "tokens", "seconds"):
            limit = getattr(self, name)
            # `not >=` refuses NaN too: no spending would ever pass it.
            if limit is not None and not limit >= 0:
                raise InputError(
                    f"Budget({name}={limit}): expected a limit of 0 or more, or None "
                    "for none"
                )


class Meter:
    """What a run has spent of a budget; thread-safe.

    Spending also counts for the parent meter.
    """

    def __init__(self, budget: Budget, parent: Meter | None = None) -> None:
        self.budget = budget
        self.parent = parent
        self.calls = 0
        self.tokens = 0
        self._lock = threading.Lock()
        self._started = time.monotonic()

    @property
    def seconds(self) -> float:
        """Seconds since the run began."""
        return time.monotonic() - self._started

    def remaining_seconds(self) -> float | None:
        """Time left under this budget and its parents'; None without a limit."""
        remaining = self.budget.seconds
        if remaining is not None:
            remaining = max(0.0, remaining - self.seconds)
        return time_limit(remaining, self.parent)

    def reserve(self, calls: int = 1) -> None:
        """Count ``calls`` calls, or raise `BudgetExceeded` and count none.

        ``reserve(0)`` only checks whether tokens and seconds allow more work.
        """
        with self._lock:
            refusal = self._check_limits(calls)
            if refusal:
                raise refusal
            if self.parent:
                self.parent.reserve(calls)
            self.calls += calls

    def refusal(self, calls: int = 1) -> BudgetExceeded | None:
        """Return what `reserve` would raise now, without counting anything."""
        with self._lock:
            refusal = self._check_limits(calls)
        if refusal is None and self.parent:
            return self.parent.refusal(calls)
        return refusal

    def _check_limits(self, calls: int) -> BudgetExceeded | None:
        call_limit = self.budget.calls
        if call_limit is not None and calls and self.calls + calls > call_limit:
            return BudgetExceeded("calls", call_limit, self.calls)
        for resource in ("tokens", "seconds"):
            limit = getattr(self.budget, resource)
            spent = getattr(self, resource)
            if limit is not None and spent >= limit:
                return BudgetExceeded(resource, limit, spent)
        return None

    def add_calls(self, calls: int) -> None:
        """Count calls that are known only after a reply; below zero gives back."""
        with self._lock:
            self.calls += calls
        if self.parent:
            self.parent.add_calls(calls)

    def add_usage(self, usage: Usage) -> None:
        """Count the tokens of a reply."""
        with self._lock:
            self.tokens += usage.total
        if self.parent:
            self.parent.add_usage(usage)


def time_limit(seconds: float | None, meter: Meter | None) -> float | None:
    """Return the smaller of ``seconds`` and what the meter has left; None for neither."""
    remaining = meter.remaining_seconds() if meter else None
    return _smaller_limit(seconds, remaining)


def _smaller_limit(first: Limit | None, second: Limit | None) -> Limit | None:
    """Return the smaller of two limits, where None is no limit."""
    if first is None:
        return second
    return first if second is None else min(first, second)


def timeout_error(
    limit: float | None,
    meter: Meter | None,
    server: str = "",
    *,
    is_budget_limit: bool = False,
) -> Exception:
    """Return the budget's end if that has come, else the call's own.

    Args:
        limit: The seconds that were up.
        meter: What has been spent.
        server: Names the server in the message.
        is_budget_limit: Whether the budget set the limit. A timer may end before the
            meter's clock does (uvloop's counts in milliseconds): the clock alone does
            not tell.
    """
    refusal = meter.refusal(0) if meter else None
    if refusal is None and meter and limit is not None and is_budget_limit:
        budget_seconds = meter.budget.seconds or limit
        return BudgetExceeded("seconds", budget_seconds, meter.seconds)
    return refusal or TimeoutError(f"no reply{server} within {limit or 0.0:.3g} s")


current_meter: contextvars.ContextVar[Meter | None] = contextvars.ContextVar(
    "denoise_meter", default=None
)
_concurrency_limit: contextvars.ContextVar[int | None] = contextvars.ContextVar(
    "denoise_bound", default=None
)


@contextmanager
def limit_concurrency(concurrency: int | None) -> Iterator[None]:
    """Let runs within this block carry out at most ``concurrency`` effects at once.

    So an adapter can bound a denoiser it was given. The smallest of nested bounds
    applies; None adds none. Raises `InputError` below 1.
    """
    token = _concurrency_limit.set(effective_concurrency(concurrency))
    try:
        yield
    finally:
        _concurrency_limit.reset(token)


def effective_concurrency(concurrency: int | None) -> int | None:
    """Return the smaller of ``concurrency`` and the surrounding bound; None for neither.

    Raises `InputError` below 1.
    """
    if concurrency is not None and concurrency < 1:
        raise InputError(f"max_concurrency={concurrency}: expected 1 or more")
    return _smaller_limit(concurrency, _concurrency_limit.get())
