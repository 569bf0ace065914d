"""The state of a run: where the flow stands, what has happened, what has been spent, who serves."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

from denoise_core.errors import BrokenLaw, BudgetExceeded, UnparsableReply, is_mistake, said
from denoise_core.protocols import LLM, Denoiser, Retriever
from denoise_core.result import DenoiseResult, Trace, attach_trace, trace_of
from denoise_core.running.budget import Budget, Meter, bounded, current_meter, enter
from denoise_core.running.effects import Batch, Complete, Denoise, Effect, Failed, Flow, Retrieve, Single
from denoise_core.running.offload import left_behind
from denoise_core.types import Event, Passage, Reply, Usage

T = TypeVar("T")

CHARACTERS_PER_TOKEN = 4
"""Characters (code points) a token: a rule of thumb for English, where a model does not report usage."""


@dataclass(frozen=True, slots=True)
class Servers:
    """Who carries effects out when the effect itself names nobody."""

    llm: LLM | None
    retriever: Retriever | None
    denoiser: Denoiser | None
    call_seconds: float | None = None

    def of(self, effect: Single) -> Any:
        """Who carries this effect out. Raises `TypeError` where nobody was given."""
        what = {Complete: "llm", Retrieve: "retriever", Denoise: "denoiser"}[type(effect)]
        server = getattr(effect, what) or getattr(self, what)
        if server is None:
            own = (
                "; give Augmenter(llm, ...) one, or the part that asks a model of its own" if what == "llm" else ""
            )
            raise TypeError(f"this flow asked for {effect.tag!r} but no {what}= was given to run(){own}")
        return server


class Drive(Generic[T]):
    """The state both drivers share: where the flow stands, what has happened, what has been spent."""

    def __init__(self, flow: Flow[T], servers: Servers, budget: Budget | None, max_concurrency: int) -> None:
        bound = bounded(max_concurrency)
        self.flow = flow
        self.servers = servers
        self.meter = enter(budget)
        self.max_concurrency = bound or max_concurrency
        self.events: list[Event] = []
        self.done = False
        self.effect: Effect
        self._value: T

    def resume(self, outcome: Any) -> None:
        """Give the flow what its effect brought, or raise inside it what went wrong.

        A mistake is not for the flow to handle: it ends the run.
        """
        if (mistake := mistake_in(outcome)) is not None:
            raise mistake
        try:
            if isinstance(outcome, Failed):
                self.effect = self.flow.throw(outcome.error)
            else:
                self.effect = self.flow.send(outcome)
        except StopIteration as stop:
            self.done, self._value = True, stop.value

    @contextmanager
    def recording(self) -> Iterator[None]:
        token = current_meter.set(self.meter)
        try:
            self.resume(None)
            yield
        except BaseException as error:
            attach_trace(error, self.events)
            raise
        finally:
            self.flow.close()
            current_meter.reset(token)

    def value(self) -> T:
        return self._value

    def trace(self) -> Trace:
        return Trace(tuple(self.events))


@dataclass(slots=True)
class Attempt:
    """One effect under way: becomes an `Event`, whether it ends in a reply, an error or a cancellation."""

    effect: Single
    meter: Meter | None
    started: float = field(default_factory=time.perf_counter)
    event: Event | None = None
    refusal: BudgetExceeded | None = None
    inner: tuple[Event, ...] = ()
    begun: bool = False

    @property
    def calls(self) -> int:
        return 0 if isinstance(self.effect, Denoise) else 1

    def begin(self) -> None:
        self.started = time.perf_counter()
        left = left_behind.get()
        if left is not None and left.is_set():
            raise TimeoutError("the call that this run belongs to has run out of time")
        if self.refusal:
            raise self.refusal
        if self.meter:
            self.meter.take(self.calls)
        self.begun = True

    def events(self) -> tuple[Event, ...]:
        """What goes into the trace once no more will come of it."""
        return self.inner if self.event is None else (*self.inner, self.event)

    def succeed(self, reply: Any) -> Any:
        checked, usage = _check(self.effect, reply)
        if self.meter and usage and isinstance(self.effect, Complete):
            self.meter.add_usage(usage)
        if isinstance(checked, Reply):
            self.inner = checked.inner
            if self.meter:
                self.meter.add_calls(checked.calls - 1)
        self.event = Event(self.effect.tag, self.effect, checked, time.perf_counter() - self.started, usage)
        return checked

    def fail(self, error: BaseException) -> None:
        seconds = time.perf_counter() - self.started
        if isinstance(self.effect, Denoise):  # what it had done has no reply to travel in
            self.inner = trace_of(error).events
        self.event = Event(self.effect.tag, self.effect, None, seconds, error=said(error), made=self.begun)


def mistake_in(outcome: Any) -> Exception | None:
    """The first mistake among what an effect brought."""
    outcomes = outcome if isinstance(outcome, list) else (outcome,)
    return next((o.error for o in outcomes if isinstance(o, Failed) and is_mistake(o.error)), None)


def _check(effect: Single, reply: Any) -> tuple[Any, Usage | None]:
    """The reply in the promised type, and the tokens it cost."""
    if isinstance(effect, Complete):
        if not isinstance(reply, Reply):
            raise BrokenLaw(f"LLM.complete must return denoise_core.Reply, got {type(reply).__name__}")
        if not isinstance(reply.text, str):  # a model wrapper that passes on an empty message
            raise UnparsableReply(f"expected a text as reply, got {type(reply.text).__name__}")
        return reply, reply.usage or (_estimate(effect, reply) if reply.calls else Usage(0, 0))
    if isinstance(effect, Retrieve):
        if not isinstance(reply, Iterable) or isinstance(reply, (str, bytes)):
            raise BrokenLaw(f"Retriever.retrieve must return Passages, got a {type(reply).__name__}")
        passages = tuple(reply)
        for p in passages:
            if not isinstance(p, Passage):
                raise BrokenLaw(f"Retriever.retrieve must return Passages, got a {type(p).__name__}")
        return passages, None
    if not isinstance(reply, DenoiseResult):
        raise BrokenLaw(f"Denoiser.denoise must return DenoiseResult, got {type(reply).__name__}")
    return reply, reply.trace.usage if reply.trace.events else None


def _estimate(effect: Complete, reply: Reply) -> Usage:
    asked = sum(len(m.content) for m in effect.messages)
    return Usage(-(-asked // CHARACTERS_PER_TOKEN), -(-len(reply.text) // CHARACTERS_PER_TOKEN), estimated=True)


def attempts_of(drive: Drive[Any], effect: Batch) -> list[Attempt]:
    """One for each item. When the calls left do not suffice, the last items are refused, under both drivers."""
    attempts = []
    needed = 0
    for item in effect.items:
        attempt = Attempt(item, drive.meter)
        needed += attempt.calls
        attempt.refusal = drive.meter.refusal(needed) if drive.meter and attempt.calls else None
        attempts.append(attempt)
    return attempts
