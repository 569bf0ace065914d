"""Logic yields what it needs; a driver does the I/O. One algorithm for sync and async.

A `Flow[T]` is a generator that yields effects and returns a ``T``::

    def answer(question: str) -> Flow[str]:
        passages = yield from retrieve(question)
        reply = yield from complete(prompt(question, passages), tag="draft")
        return reply.text

`run` and `arun` carry the effects out, keep the budget and record every effect in the
`Trace`. An effect that fails is raised inside the flow, where it asked; a flow that
does not catch it ends with that exception, on which the trace travels (`trace_of`). A
user error (`denoise_core.errors.is_user_error`) is not raised inside the flow: it ends
the run, so that no fallback hides it, and the rest of its batch does not start.
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

from denoise_core.cancellation import CancelToken, stop_if_abandoned
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
    time_limit,
    timeout_error,
)
from denoise_core.runtime.effects import (
    Batch,
    Complete,
    DenoiseCall,
    Effect,
    FailedItem,
    Flow,
    Retrieve,
    SingleEffect,
)
from denoise_core.runtime.thread_pool import (
    DaemonThreadPool,
    run_in_pool,
)
from denoise_core.text.token_budget import estimate_usage
from denoise_core.types import Event, Passage, Reply, Usage

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
    """Drive ``flow`` to its end; starts no event loop.

    Args:
        flow: The generator to drive.
        llm: Serves effects that name no LLM of their own.
        retriever: The same for retrievals.
        denoiser: The same for denoising.
        budget: Limits of this run; None uses the budget of the surrounding run.
        max_concurrency: The most threads that a `Batch` uses.
        call_seconds: Bound of one effect: then `TimeoutError` is raised in the flow.
            Sync code cannot be interrupted: its thread is abandoned, its reply is
            discarded, and a run inside it makes no further effect.

    Returns:
        The flow's value and the trace.

    Raises:
        InputError: ``max_concurrency`` is below 1.
        TypeError: The flow asked for a server that nobody passed.
        Exception: Whatever the servers raise and the flow does not catch.
    """
    servers = {"llm": llm, "retriever": retriever, "denoiser": denoiser}
    runner = FlowRunner(flow, budget, max_concurrency, call_seconds, servers)
    with runner.recording():
        runner.resume(None)
        while not runner.is_done:
            runner.resume(_execute(runner, runner.effect))
    return runner.value, Trace(tuple(runner.events))


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
    """Do the same as `run` for async code; a `Batch` uses tasks instead of threads.

    What the flow computes between its effects runs on a thread, so that it never
    blocks the event loop: the driver cannot know how much text a step works on.
    """
    servers = {"llm": llm, "retriever": retriever, "denoiser": denoiser}
    runner = FlowRunner(flow, budget, max_concurrency, call_seconds, servers)
    with runner.recording():
        await run_in_pool(runner.resume, None)
        while not runner.is_done:
            outcome = await _aexecute(runner, runner.effect)
            await run_in_pool(runner.resume, outcome)
    return runner.value, Trace(tuple(runner.events))


def _execute(runner: FlowRunner[Any], effect: Effect) -> Any:
    """Return the outcome of an effect.

    A user error in a batch is returned alone: the other items would fail likewise.
    """
    calls = runner.plan_calls(effect)
    workers = min(runner.max_concurrency, len(calls))
    user_errors: list[Any] = []  # once there is one, no further call starts

    def execute_call(call: EffectCall) -> Any:
        outcome = user_errors[0] if user_errors else _execute_call(runner, call)
        if find_user_error(outcome) is not None:
            user_errors.append(outcome)
        return outcome

    try:
        if not isinstance(effect, Batch):
            return execute_call(calls[0])
        if workers <= 1:
            return [execute_call(call) for call in calls]
        # After Ctrl-C nobody waits for calls under way, and none starts.
        with closing(DaemonThreadPool(workers)) as pool:
            futures = [pool.submit(partial(execute_call, call)) for call in calls]
            for future in as_completed(futures):
                if find_user_error(future.result()) is not None:
                    return [future.result()]
            return [future.result() for future in futures]
    finally:
        runner.record_events(calls)


async def _aexecute(runner: FlowRunner[Any], effect: Effect) -> Any:
    calls = runner.plan_calls(effect)
    slots = asyncio.Semaphore(runner.max_concurrency)

    async def execute_call(call: EffectCall) -> Any:
        async with slots:
            outcome = await _aexecute_call(runner, call)
        user_error = find_user_error(outcome)
        if user_error is not None:
            raise user_error  # ends the batch: the others would fail likewise
        return outcome

    tasks: list[asyncio.Task[Any]] = []
    try:
        if not isinstance(effect, Batch):  # in the flow's own task
            return await execute_call(calls[0])
        tasks += [asyncio.create_task(execute_call(call)) for call in calls]
        return list(await asyncio.gather(*tasks))
    finally:  # when one was cancelled, gather leaves the others running
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        runner.record_events(calls)


def _execute_call(runner: FlowRunner[Any], call: EffectCall) -> Any:
    try:
        call.begin()
        ask_server = partial(runner.ask_server, call.effect)
        if runner.call_seconds is None:
            return call.succeed(ask_server())
        return call.succeed(_with_timeout(runner.call_seconds, call.meter, ask_server))
    except BaseException as error:
        return call.fail(error)


async def _aexecute_call(runner: FlowRunner[Any], call: EffectCall) -> Any:
    try:
        call.begin()
        limit = time_limit(runner.call_seconds, call.meter)
        try:
            async with asyncio.timeout(limit) as deadline:
                return call.succeed(await runner.ask_server(call.effect, "a"))
        except TimeoutError as error:
            if not deadline.expired():
                raise  # the server's own time-out, not ours
            is_budget_limit = limit != runner.call_seconds
            raise timeout_error(
                limit, call.meter, is_budget_limit=is_budget_limit
            ) from error
    except BaseException as error:
        return call.fail(error)


def _with_timeout(seconds: float, meter: Meter | None, function: Callable[[], T]) -> T:
    """Return what ``function`` returns within its time and the budget's, on a thread."""
    cancel_token = CancelToken()
    pool = DaemonThreadPool(1, "denoise-call")
    future: Future[T] = pool.submit(partial(cancel_token.run_in, function))
    limit = time_limit(seconds, meter)
    try:
        return future.result(limit)
    except TimeoutError as error:
        if future.done():
            raise  # the server's own time-out, not ours
        is_budget_limit = limit != seconds
        raise timeout_error(limit, meter, is_budget_limit=is_budget_limit) from error
    finally:
        if not future.done():
            cancel_token.cancel()
        pool.close()


# By effect: the server's role, its method, and the effect's fields that it takes.
_SERVER_METHODS: dict[type[SingleEffect], tuple[str, str, tuple[str, ...]]] = {
    Complete: ("llm", "complete", ("messages",)),
    Retrieve: ("retriever", "retrieve", ("query",)),
    DenoiseCall: ("denoiser", "denoise", ("query", "passages")),
}


class FlowRunner(Generic[T]):
    """The state that both drivers share: the flow, its events, what has been spent."""

    def __init__(
        self,
        flow: Flow[T],
        budget: Budget | None,
        max_concurrency: int,
        call_seconds: float | None,
        servers: dict[str, Any],
    ) -> None:
        self.flow = flow
        self.servers = servers  # for effects that name no server
        self.call_seconds = call_seconds
        outer_meter = current_meter.get()  # also counts what this run spends
        self.meter = outer_meter if budget is None else Meter(budget, outer_meter)
        self.max_concurrency = effective_concurrency(max_concurrency) or max_concurrency
        self.events: list[Event] = []
        self._step_lock = threading.Lock()  # while the flow computes its next effect
        self.is_done = False
        self.is_abandoned = False  # the run has ended while a step still computes
        self.effect: Effect
        self.value: T

    def resume(self, outcome: Any) -> None:
        """Send the effect's outcome into the flow, or raise its failure there.

        A user error is not for the flow to handle: it ends the run.
        """
        user_error = find_user_error(outcome)
        if user_error is not None:
            raise user_error
        with self._step_lock:
            try:
                if isinstance(outcome, FailedItem):
                    self.effect = self.flow.throw(outcome.error)
                else:
                    self.effect = self.flow.send(outcome)
            except StopIteration as stop:
                self.is_done = True
                self.value = stop.value
        if self.is_abandoned:
            self._close_flow()

    def _close_flow(self) -> None:
        """Close the flow, unless a step of it still computes on another thread."""
        if self._step_lock.acquire(blocking=False):
            self.flow.close()
            self._step_lock.release()

    def plan_calls(self, effect: Effect) -> list[EffectCall]:
        """Return one call for each item of the effect.

        When the budget's calls do not suffice, the last items are refused, the same
        under both drivers.
        """
        calls = []
        call_count = 0
        for item in effect.items if isinstance(effect, Batch) else (effect,):
            call = EffectCall(item, self.meter)
            call_count += call.cost
            if self.meter and call.cost:
                call.refusal = self.meter.refusal(call_count)
            calls.append(call)
        return calls

    def ask_server(self, effect: SingleEffect, prefix: str = "") -> Any:
        """Call the effect's server; ``prefix`` "a" is the async form.

        Raises:
            TypeError: Nobody passed a server for this effect.
        """
        role, method, field_names = _SERVER_METHODS[type(effect)]
        server = getattr(effect, role) or self.servers[role]
        if server is None:
            hint = ""
            if role == "llm":
                hint = "; give one to Augmenter(llm, ...), or to the part that needs it"
            raise TypeError(
                f"this flow asked for {effect.tag!r} but no {role}= was given to "
                f"run(){hint}"
            )
        arguments = [getattr(effect, name) for name in field_names]
        return getattr(server, prefix + method)(*arguments)

    def record_events(self, calls: Iterable[EffectCall]) -> None:
        """Add the events of ended calls to the trace, in the order of the calls."""
        for call in calls:
            self.events += call.inner_events
            if call.event is not None:
                self.events.append(call.event)

    @contextmanager
    def recording(self) -> Iterator[None]:
        """Use this run's meter; attach the trace to what is raised; close the flow."""
        token = current_meter.set(self.meter)
        try:
            yield
        except BaseException as error:
            attach_trace(error, self.events)
            raise
        finally:
            # A thread may still be inside the flow: it closes the flow when its step ends.
            self.is_abandoned = True
            self._close_flow()
            current_meter.reset(token)


@dataclass(slots=True)
class EffectCall:
    """One effect under way; ends as an `Event`: a reply, an error or a cancellation."""

    effect: SingleEffect
    meter: Meter | None
    start_time: float = field(default_factory=time.perf_counter)
    event: Event | None = None
    refusal: BudgetExceeded | None = None
    inner_events: tuple[Event, ...] = ()
    was_executed: bool = False

    @property
    def cost(self) -> int:
        """Calls that the budget counts before the reply; a denoiser counts its own."""
        return 0 if isinstance(self.effect, DenoiseCall) else 1

    def begin(self) -> None:
        """Count the call, or raise why it may not start."""
        self.start_time = time.perf_counter()
        stop_if_abandoned()
        if self.refusal:
            raise self.refusal
        if self.meter:
            self.meter.reserve(self.cost)
        self.was_executed = True

    def succeed(self, reply: Any) -> Any:
        """Check the reply, count its tokens, record it; returns it in its type."""
        reply, usage = _check_reply(self.effect, reply)
        if isinstance(reply, Reply) and self.meter:
            self.meter.add_calls(reply.calls - 1)
            self.meter.add_usage(usage or Usage(0, 0))
        seconds = time.perf_counter() - self.start_time
        self.event = Event(self.effect.tag, self.effect, reply, seconds, usage)
        return reply

    def fail(self, error: BaseException) -> FailedItem:
        """Record the failure; raises what is no `Exception`: a cancellation, Ctrl-C."""
        if isinstance(
            self.effect, DenoiseCall
        ):  # its events have no reply to travel in
            self.inner_events = trace_of(error).events
        self.event = Event(
            self.effect.tag,
            self.effect,
            None,
            time.perf_counter() - self.start_time,
            error=format_error(error),
            executed=self.was_executed,
        )
        if not isinstance(error, Exception):
            raise error
        return FailedItem(error)


def find_user_error(outcome: Any) -> Exception | None:
    """Return the first user error in an effect's outcome."""
    for item in outcome if isinstance(outcome, list) else (outcome,):
        if isinstance(item, FailedItem) and is_user_error(item.error):
            return item.error
    return None


def _check_reply(effect: SingleEffect, reply: Any) -> tuple[Any, Usage | None]:
    """Return the reply in the promised type, and the tokens it cost."""
    if isinstance(effect, Complete):
        return _check_completion(effect, reply)
    if isinstance(effect, Retrieve):
        return _check_passages(reply), None
    if not isinstance(reply, DenoiseResult):
        raise ContractViolation(
            f"Denoiser.denoise must return DenoiseResult, got {type(reply).__name__}"
        )
    return reply, reply.trace.usage if reply.trace.events else None


def _check_completion(effect: Complete, reply: Any) -> tuple[Reply, Usage]:
    if not isinstance(reply, Reply):
        raise ContractViolation(
            f"LLM.complete must return denoise_core.Reply, got {type(reply).__name__}"
        )
    if not isinstance(reply.text, str):  # a wrapper that passes on an empty message
        raise UnparsableReply(
            f"expected a text as reply, got {type(reply.text).__name__}"
        )
    if reply.usage:
        return reply, reply.usage
    if not reply.calls:
        return reply, Usage(0, 0)
    return reply, estimate_usage(effect.messages, reply.text)


def _check_passages(reply: Any) -> tuple[Passage, ...]:
    passages = (reply,)
    if isinstance(reply, Iterable) and not isinstance(reply, (str, bytes)):
        passages = tuple(reply)
    for passage in passages:
        if not isinstance(passage, Passage) or passage is reply:
            raise ContractViolation(
                "Retriever.retrieve must return Passages, got a "
                f"{type(passage).__name__}"
            )
    return passages
