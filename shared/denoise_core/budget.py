"""One allowance of calls, tokens, seconds and money over everything a run does.

`Budget` is the limits, a value. `Meter` is what has been spent, and is shared: a run puts its meter where
the runs it starts can see it, so nested loops draw on the same allowance, also across threads and tasks.
"""

from __future__ import annotations

import contextvars
import threading
import time
from dataclasses import dataclass

from denoise_core.errors import BudgetExceeded, InputError
from denoise_core.types import Usage


@dataclass(frozen=True, slots=True)
class Price:
    """Money for a million tokens, in any currency as long as the budget uses the same."""

    input_per_million: float
    output_per_million: float

    def of(self, usage: Usage) -> float:
        return (usage.input_tokens * self.input_per_million + usage.output_tokens * self.output_per_million) / 1e6


@dataclass(frozen=True, slots=True)
class Budget:
    """Limits; None is no limit. A call is one LLM completion or one retrieval, nested ones included.

    ``calls`` is exact: the call that would pass it is not made. ``tokens`` and ``money`` are known only
    after a reply, so the call that crosses the limit is the last. ``seconds`` counts from the start of
    the run; it is checked before each effect, and under `arun` it also ends an effect in the middle.

    Raises `InputError` for a negative limit, and for ``money`` without a ``price``.
    """

    calls: int | None = None
    tokens: int | None = None
    seconds: float | None = None
    money: float | None = None
    price: Price | None = None

    def __post_init__(self) -> None:
        for name in ("calls", "tokens", "seconds", "money"):
            limit = getattr(self, name)
            if limit is not None and limit < 0:
                raise InputError(f"Budget({name}={limit}): expected a limit of 0 or more, or None for none")
        if self.money is not None and self.price is None:
            raise InputError("Budget(money=...) needs price=Price(input_per_million=..., output_per_million=...)")


class Meter:
    """What a run has spent of a budget; thread-safe. Spending counts for the parent meter too."""

    def __init__(self, budget: Budget, parent: Meter | None = None) -> None:
        self.budget = budget
        self.parent = parent
        self.calls = 0
        self.tokens = 0
        self.money = 0.0
        self._lock = threading.Lock()
        self._started = time.monotonic()

    @property
    def seconds(self) -> float:
        return time.monotonic() - self._started

    def remaining_seconds(self) -> float | None:
        """Time left under this budget and its parents'; None without a limit."""
        own = None if self.budget.seconds is None else max(0.0, self.budget.seconds - self.seconds)
        outer = self.parent.remaining_seconds() if self.parent else None
        return min((s for s in (own, outer) if s is not None), default=None)

    def take(self, calls: int = 1) -> None:
        """Count ``calls`` calls, or raise `BudgetExceeded` and count none.

        ``take(0)`` only asks whether tokens, seconds and money still allow to go on.
        """
        with self._lock:
            limits = self.budget
            for what, limit, spent, needed in (
                ("calls", limits.calls, self.calls, calls),
                ("tokens", limits.tokens, self.tokens, 1),
                ("seconds", limits.seconds, self.seconds, 0),
                ("money", limits.money, self.money, 0),
            ):
                used_up = limit is not None and (spent + needed > limit if needed else spent >= limit)
                if used_up and (what != "calls" or calls):
                    raise BudgetExceeded(what, limit or 0, spent)
            if self.parent:
                self.parent.take(calls)
            self.calls += calls

    def give_back(self, calls: int) -> None:
        """Undo `take` for calls that were refused after all by another limit."""
        with self._lock:
            self.calls -= calls
        if self.parent:
            self.parent.give_back(calls)

    def add_usage(self, usage: Usage) -> None:
        with self._lock:
            self.tokens += usage.total
            if self.budget.price:
                self.money += self.budget.price.of(usage)
        if self.parent:
            self.parent.add_usage(usage)


current_meter: contextvars.ContextVar[Meter | None] = contextvars.ContextVar("denoise_meter", default=None)


def enter(budget: Budget | None) -> Meter | None:
    """The meter a new run draws on: its own over the surrounding run's, or the surrounding one."""
    outer = current_meter.get()
    return Meter(budget, outer) if budget is not None else outer
