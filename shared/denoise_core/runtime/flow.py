"""Logic yields what it needs; a driver does the I/O. One algorithm serves sync and async.

A `Flow[T]` is a generator that yields effects and returns a ``T``::

    def answer(question: str) -> Flow[str]:
        passages = yield from retrieve(question)
        reply = yield from complete(prompt(question, passages), tag="draft")
        return reply.text

`run` and `arun` carry the effects out, keep the budget and record every effect in the `Trace`. An effect
that fails is raised inside the flow, where it asked; a flow that does not catch it ends with that
exception, on which the trace travels (`trace_of`). A mistake (`denoise_core.errors.is_user_error`) is not raised
inside the flow: it ends the run, so that no fallback hides it, and the rest of its batch is not begun.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, as_completed
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Generic, TypeVar

from denoise_core.errors import (
    BudgetExceeded,
    ContractViolation,
    UnparsableReply,
    format_error,
    is_user_error,
)
from denoise_core.protocols import LLM, Denoiser, Retriever
from denoise_core.result import DenoiseResult, Trace, attach_trace, trace_of
from denoise_core.runtime.budget import (
    Budget,
    Meter,
    current_meter,
    effective_concurrency,
)
from denoise_core.runtime.effects import (
    Batch,
    Complete,
    Denoise,
    Effect,
    FailedItem,
    Flow,
    Retrieve,
    SingleEffect,
)
from denoise_core.runtime.thread_pool import (
    CancelToken,
    DaemonThreadPool,
    current_cancel_token,
    run_in_pool,
)
from denoise_core.text.token_budget import estimate_tokens
from denoise_core.types import Event, Passage, Reply, Usage

S = TypeVar("S")
T = TypeVar("T")


def run(
    flow: Flow[T],
    *,
    llm: LLM | None = None,
    retriever: Retriever | None = None,
    denoiser: Denoiser | None = None,
    budget: Budget | None = None,
    max_concurrency: int = 10,
    call_seconds: float | None = None,
) -> tuple[T, Trace]:
    """Drive ``flow`` to its end; returns its value and the trace. Starts no event loop.

    A `Batch` runs on at most ``max_concurrency`` threads. Without a ``budget`` the flow draws on that of
    the run around it, if there is one. ``call_seconds`` bounds one effect: `TimeoutError` is raised in the
    flow when its time is up (sync code cannot be interrupted: its thread is left behind and its reply
    thrown away; a run inside it makes no further effect). Raises `InputError` for ``max_concurrency < 1``,
    `TypeError` when the flow asks for something nobody was given for, and whatever the outside raises.
    """
    drive = FlowRunner(
        flow,
        budget,
        max_concurrency,
        call_seconds,
        llm=llm,
        retriever=retriever,
        denoiser=denoiser,
    )
    with drive.recording():
        drive.resume(None)
        while not drive.done:
            drive.resume(_perform(drive, drive.effect))
    return drive.value, Trace(tuple(drive.events))


async def arun(
    flow: Flow[T],
    *,
    llm: LLM | None = None,
    retriever: Retriever | None = None,
    denoiser: Denoiser | None = None,
    budget: Budget | None = None,
    max_concurrency: int = 10,
    call_seconds: float | None = None,
) -> tuple[T, Trace]:
    """`run` for async: the same flow, the same result; a `Batch` is at most ``max_concurrency`` tasks.

    What the flow does between its effects is done on a thread, so that it holds up no event loop.
    """
    drive = FlowRunner(
        flow,
        budget,
        max_concurrency,
        call_seconds,
        llm=llm,
        retriever=retriever,
        denoiser=denoiser,
    )
    with drive.recording():
        await run_in_pool(drive.resume, None)
        while not drive.done:
            await run_in_pool(drive.resume, await _aperform(drive, drive.effect))
    return drive.value, Trace(tuple(drive.events))


def _perform(drive: FlowRunner[Any], effect: SingleEffect | Batch) -> Any:
    """What an effect brings; of a batch with a mistake that alone: the others would go the same way."""
    attempts = attempts_of(drive, effect)
    workers = min(drive.max_concurrency, len(attempts))
    mistaken: list[Any] = []  # once there is one, none that has not begun begins

    def one(attempt: EffectCall) -> Any:
        outcome = mistaken[0] if mistaken else _attempted(drive, attempt)
        if find_user_error(outcome) is not None:
            mistaken.append(outcome)
        return outcome

    try:
        if not isinstance(effect, Batch):
            return one(attempts[0])
        if workers <= 1:
            return [one(attempt) for attempt in attempts]
        with closing(
            DaemonThreadPool(workers)
        ) as pool:  # after Ctrl-C nobody waits for calls under way, and none starts
            futures = [pool.submit(partial(one, attempt)) for attempt in attempts]
            for future in as_completed(futures):
                if find_user_error(future.result()) is not None:
                    return [future.result()]
            return [future.result() for future in futures]
    finally:
        drive.events += [e for a in attempts for e in a.events()]


async def _aperform(drive: FlowRunner[Any], effect: SingleEffect | Batch) -> Any:
    attempts = attempts_of(drive, effect)
    bound = asyncio.Semaphore(drive.max_concurrency)

    async def one(attempt: EffectCall) -> Any:
        async with bound:
            outcome = await _aattempted(drive, attempt)
        if isinstance(outcome, FailedItem) and is_user_error(outcome.error):
            raise outcome.error  # ends the batch: the others would go the same way
        return outcome

    tasks: list[asyncio.Task[Any]] = []
    try:
        if not isinstance(effect, Batch):  # in the flow's own task
            return await one(attempts[0])
        tasks += [asyncio.create_task(one(attempt)) for attempt in attempts]
        return list(await asyncio.gather(*tasks))
    finally:  # when one was cancelled, gather leaves the others running
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        drive.events += [e for a in attempts for e in a.events()]


def _attempted(drive: FlowRunner[Any], attempt: EffectCall) -> Any:
    try:
        attempt.begin()
        if drive.call_seconds is None:
            return attempt.succeed(drive.call(attempt.effect))
        return attempt.succeed(
            _within(
                drive.call_seconds, attempt.meter, partial(drive.call, attempt.effect)
            )
        )
    except BaseException as error:
        return attempt.fail(error)


def _within(seconds: float, meter: Meter | None, call: Callable[[], S]) -> S:
    """What ``call`` returns, if it does within its time and the budget's; on a thread of its own."""
    limit, left, pool = (
        _limit(seconds, meter),
        CancelToken(),
        DaemonThreadPool(1, "denoise-call"),
    )
    done: Future[S] = pool.submit(partial(left.run_in, call))
    try:
        return done.result(limit)
    except TimeoutError as error:
        if done.done():
            raise  # the outside's own time-out, not ours
        raise _time_up(seconds, meter) from error
    finally:
        if not done.done():
            left.cancel()
        pool.close()


def _limit(seconds: float | None, meter: Meter | None) -> float | None:
    left = meter.remaining_seconds() if meter else None
    return min((s for s in (seconds, left) if s is not None), default=None)


def _time_up(seconds: float | None, meter: Meter | None) -> Exception:
    """The budget's end if that has come, else the call's own."""
    left = meter.remaining_seconds() if meter else None
    if meter is not None and left is not None and (seconds is None or left <= 0):
        return BudgetExceeded("seconds", meter.budget.seconds or left, meter.seconds)
    return TimeoutError(f"no reply within {seconds:g} s")


async def _aattempted(drive: FlowRunner[Any], attempt: EffectCall) -> Any:
    try:
        attempt.begin()
        try:
            async with asyncio.timeout(
                _limit(drive.call_seconds, attempt.meter)
            ) as deadline:
                return attempt.succeed(await drive.call(attempt.effect, "a"))
        except TimeoutError as error:
            if not deadline.expired():
                raise  # the outside's own time-out, not ours
            raise _time_up(drive.call_seconds, attempt.meter) from error
    except BaseException as error:
        return attempt.fail(error)


# Who carries an effect out, by which verb, and what of the effect the verb is given.
_SERVED: dict[type[SingleEffect], tuple[str, str, tuple[str, ...]]] = {
    Complete: ("llm", "complete", ("messages",)),
    Retrieve: ("retriever", "retrieve", ("query",)),
    Denoise: ("denoiser", "denoise", ("query", "passages")),
}


class FlowRunner(Generic[T]):
    """The state both drivers share: where the flow stands, what has happened, what has been spent."""

    def __init__(
        self,
        flow: Flow[T],
        budget: Budget | None,
        max_concurrency: int,
        call_seconds: float | None,
        **servers: LLM | Retriever | Denoiser | None,
    ) -> None:
        self.flow = flow
        self.servers = (
            servers  # who carries effects out when the effect itself names nobody
        )
        self.call_seconds = call_seconds
        outer = (
            current_meter.get()
        )  # a budget of this run's own is drawn on beside the surrounding run's
        self.meter = outer if budget is None else Meter(budget, outer)
        self.max_concurrency = effective_concurrency(max_concurrency) or max_concurrency
        self.events: list[Event] = []
        self._step = threading.Lock()  # held while the flow goes on to its next effect
        self.done = False
        self.effect: Effect
        self.value: T

    def resume(self, outcome: Any) -> None:
        """Give the flow what its effect brought, or raise inside it what went wrong.

        A mistake is not for the flow to handle: it ends the run.
        """
        if (mistake := find_user_error(outcome)) is not None:
            raise mistake
        with self._step:
            try:
                if isinstance(outcome, FailedItem):
                    self.effect = self.flow.throw(outcome.error)
                else:
                    self.effect = self.flow.send(outcome)
            except StopIteration as stop:
                self.done, self.value = True, stop.value

    def call(self, effect: SingleEffect, form: str = "") -> Any:
        """Ask whoever carries it out; ``form`` "a" is async. Raises `TypeError` where nobody was given."""
        what, verb, given = _SERVED[type(effect)]
        server = getattr(effect, what) or self.servers[what]
        if server is None:
            own = (
                "; give Augmenter(llm, ...) one, or the part that asks a model of its own"
                if what == "llm"
                else ""
            )
            raise TypeError(
                f"this flow asked for {effect.tag!r} but no {what}= was given to run(){own}"
            )
        return getattr(server, form + verb)(*(getattr(effect, name) for name in given))

    @contextmanager
    def recording(self) -> Iterator[None]:
        token = current_meter.set(self.meter)
        try:
            yield
        except BaseException as error:
            attach_trace(error, self.events)
            raise
        finally:
            if self._step.acquire(
                blocking=False
            ):  # else a thread that was left behind still holds the flow
                self.flow.close()
                self._step.release()
            current_meter.reset(token)


@dataclass(slots=True)
class EffectCall:
    """One effect under way: becomes an `Event`, whether it ends in a reply, an error or a cancellation."""

    effect: SingleEffect
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
        left = current_cancel_token.get()
        if left is not None and left.is_cancelled():
            raise TimeoutError("the call that this run belongs to has run out of time")
        if self.refusal:
            raise self.refusal
        if self.meter:
            self.meter.reserve(self.calls)
        self.begun = True

    def events(self) -> tuple[Event, ...]:
        """What goes into the trace once no more will come of it."""
        return self.inner if self.event is None else (*self.inner, self.event)

    def succeed(self, reply: Any) -> Any:
        checked, usage = _check(self.effect, reply)
        if self.meter and usage and isinstance(self.effect, Complete):
            self.meter.add_usage(usage)
        if isinstance(checked, Reply):
            self.inner = checked.inner_events
            if self.meter:
                self.meter.add_calls(checked.calls - 1)
        self.event = Event(
            self.effect.tag,
            self.effect,
            checked,
            time.perf_counter() - self.started,
            usage,
        )
        return checked

    def fail(self, error: BaseException) -> FailedItem:
        """The place of what failed. Raises what is no `Exception`: a cancellation, Ctrl-C."""
        seconds = time.perf_counter() - self.started
        if isinstance(
            self.effect, Denoise
        ):  # what it had done has no reply to travel in
            self.inner = trace_of(error).events
        self.event = Event(
            self.effect.tag,
            self.effect,
            None,
            seconds,
            error=format_error(error),
            executed=self.begun,
        )
        if not isinstance(error, Exception):
            raise error
        return FailedItem(error)


def find_user_error(outcome: Any) -> Exception | None:
    """The first mistake among what an effect brought."""
    outcomes = outcome if isinstance(outcome, list) else (outcome,)
    return next(
        (
            o.error
            for o in outcomes
            if isinstance(o, FailedItem) and is_user_error(o.error)
        ),
        None,
    )


def _check(effect: SingleEffect, reply: Any) -> tuple[Any, Usage | None]:
    """The reply in the promised type, and the tokens it cost."""
    if isinstance(effect, Complete):
        if not isinstance(reply, Reply):
            raise ContractViolation(
                f"LLM.complete must return denoise_core.Reply, got {type(reply).__name__}"
            )
        if not isinstance(
            reply.text, str
        ):  # a model wrapper that passes on an empty message
            raise UnparsableReply(
                f"expected a text as reply, got {type(reply.text).__name__}"
            )
        return reply, reply.usage or (
            _estimate(effect, reply) if reply.calls else Usage(0, 0)
        )
    if isinstance(effect, Retrieve):
        if not isinstance(reply, Iterable) or isinstance(reply, (str, bytes)):
            raise ContractViolation(
                f"Retriever.retrieve must return Passages, got a {type(reply).__name__}"
            )
        passages = tuple(reply)
        for p in passages:
            if not isinstance(p, Passage):
                raise ContractViolation(
                    f"Retriever.retrieve must return Passages, got a {type(p).__name__}"
                )
        return passages, None
    if not isinstance(reply, DenoiseResult):
        raise ContractViolation(
            f"Denoiser.denoise must return DenoiseResult, got {type(reply).__name__}"
        )
    return reply, reply.trace.usage if reply.trace.events else None


def _estimate(effect: Complete, reply: Reply) -> Usage:
    asked = "".join(m.content for m in effect.messages)
    return Usage(estimate_tokens(asked), estimate_tokens(reply.text), is_estimated=True)


def attempts_of(
    drive: FlowRunner[Any], effect: SingleEffect | Batch
) -> list[EffectCall]:
    """One for each item. When the calls left do not suffice, the last items are refused, under both drivers."""
    attempts = []
    needed = 0
    for item in effect.items if isinstance(effect, Batch) else (effect,):
        attempt = EffectCall(item, drive.meter)
        needed += attempt.calls
        attempt.refusal = (
            drive.meter.refusal(needed) if drive.meter and attempt.calls else None
        )
        attempts.append(attempt)
    return attempts
