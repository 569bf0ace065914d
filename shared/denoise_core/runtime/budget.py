"""What a run may use: one allowance of calls, tokens and seconds over everything it does, and how much at once.

`Budget` is the limits, a value. `Meter` is what has been spent, and is shared: a run puts its meter where
the runs it starts can see it, so nested loops draw on the same allowance, also across threads and tasks.
"""

from __future__ import annotations

import contextvars
import math
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from denoise_core.errors import BudgetExceeded, InputError
from denoise_core.types import Usage


@dataclass(frozen=True, slots=True)
class Price:
    """Money for a million tokens, in any currency as long as the budget uses the same.

    ``cached_per_million`` is for those that the server read from its cache of prompts; None: as any other."""

    input_per_million: float
    output_per_million: float
    cached_per_million: float | None = None

    def __post_init__(self) -> None:
        for name in ("input_per_million", "output_per_million", "cached_per_million"):
            price = getattr(self, name)
            if price is not None and not 0 <= price < math.inf:
                raise InputError(
                    f"Price({name}={price}): expected a finite price of 0 or more"
                )

    def cost_of(self, usage: Usage) -> float:
        """What the tokens of ``usage`` cost, in the currency that the prices are in."""
        cached = (
            0
            if self.cached_per_million is None
            else min(usage.cached_tokens, usage.input_tokens)
        )
        money = (usage.input_tokens - cached) * self.input_per_million
        return (
            money
            + cached * (self.cached_per_million or 0.0)
            + usage.output_tokens * self.output_per_million
        ) / 1e6


@dataclass(frozen=True, slots=True)
class Budget:
    """Limits; None is none. A call is one LLM completion, one retrieval or one request of a remote scorer,
    nested ones included.

    ``calls`` is exact: the call that would pass it is not made. ``tokens`` and ``money`` are known only
    after a reply, so no call starts once the limit is reached, and those already under way are finished: of
    a batch up to ``max_concurrency``. ``seconds`` counts from the start of
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
            if (
                limit is not None and not limit >= 0
            ):  # NaN is refused too: nothing ever passes it
                raise InputError(
                    f"Budget({name}={limit}): expected a limit of 0 or more, or None for none"
                )
        if self.money is not None and self.price is None:
            raise InputError(
                "Budget(money=...) needs price=Price(input_per_million=..., output_per_million=...)"
            )


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
        own = (
            None
            if self.budget.seconds is None
            else max(0.0, self.budget.seconds - self.seconds)
        )
        outer = self.parent.remaining_seconds() if self.parent else None
        return min((s for s in (own, outer) if s is not None), default=None)

    def reserve(self, calls: int = 1) -> None:
        """Count ``calls`` calls, or raise `BudgetExceeded` and count none.

        ``reserve(0)`` only asks whether tokens, seconds and money still allow to go on.
        """
        with self._lock:
            refusal = self._own_refusal(calls)
            if refusal:
                raise refusal
            if self.parent:
                self.parent.reserve(calls)
            self.calls += calls

    def refusal(self, calls: int = 1) -> BudgetExceeded | None:
        """What `reserve` would raise now, without counting anything."""
        with self._lock:
            own = self._own_refusal(calls)
        return own or (self.parent.refusal(calls) if self.parent else None)

    def _own_refusal(self, calls: int) -> BudgetExceeded | None:
        limits = self.budget
        if limits.calls is not None and calls and self.calls + calls > limits.calls:
            return BudgetExceeded("calls", limits.calls, self.calls)
        for what, limit, spent in (
            ("tokens", limits.tokens, self.tokens),
            ("seconds", limits.seconds, self.seconds),
            ("money", limits.money, self.money),
        ):
            if limit is not None and spent >= limit:
                return BudgetExceeded(what, limit, spent)
        return None

    def add_calls(self, calls: int) -> None:
        """Count calls that were made already: known only after a reply, like tokens. Below zero gives back."""
        with self._lock:
            self.calls += calls
        if self.parent:
            self.parent.add_calls(calls)

    def add_usage(self, usage: Usage) -> None:
        with self._lock:
            self.tokens += usage.total
            if self.budget.price:
                self.money += self.budget.price.cost_of(usage)
        if self.parent:
            self.parent.add_usage(usage)


current_meter: contextvars.ContextVar[Meter | None] = contextvars.ContextVar(
    "denoise_meter", default=None
)


_bound: contextvars.ContextVar[int | None] = contextvars.ContextVar(
    "denoise_bound", default=None
)


@contextmanager
def limit_concurrency(concurrency: int | None) -> Iterator[None]:
    """Within this block a run carries out at most ``concurrency`` effects of a batch at once.

    So an adapter can bound a denoiser it was handed. The smallest of nested bounds holds; None adds none.
    Raises `InputError` below 1.
    """
    token = _bound.set(effective_concurrency(concurrency))
    try:
        yield
    finally:
        _bound.reset(token)


def effective_concurrency(concurrency: int | None) -> int | None:
    """``concurrency``, or the surrounding bound if that is smaller; None when there is neither."""
    around = _bound.get()
    if concurrency is None:
        return around
    if concurrency < 1:
        raise InputError(f"max_concurrency={concurrency}: expected 1 or more")
    return concurrency if around is None else min(concurrency, around)
