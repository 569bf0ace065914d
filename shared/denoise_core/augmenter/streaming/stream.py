"""Answers as they are written: held back until judged, or draft first and the verdict after (paper, section 6).

``held_back`` releases a sentence only when the utility passes it; the first that does not pass ends the draft
there, and a new one begins (`Restarted`). ``draft_first`` shows the first draft as it comes, unverified, and
ends with what became of it. Either way the last event is `Verified`, `Revised` or `Unverified` and holds the
whole `Answer`. Closing the iterator, or cancelling the task that reads it, ends the run.
"""

from __future__ import annotations

import asyncio
import contextvars
import copy
import queue
import threading
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterator, Sequence
from contextlib import aclosing
from dataclasses import dataclass, replace
from typing import Protocol, TypeAlias, runtime_checkable

from denoise_core.augmenter.actions import Action
from denoise_core.augmenter.answer import Answer, Outcome
from denoise_core.augmenter.loop import Augmenter
from denoise_core.augmenter.memory import Reason, WorkingMemory, same_text
from denoise_core.augmenter.policy import Policy
from denoise_core.augmenter.streaming.watch import DraftFirst, HeldBack, Watcher
from denoise_core.protocols import LLM
from denoise_core.running.effects import Complete, Flow
from denoise_core.running.flow import arun, run
from denoise_core.types import Message, Reply, Usage


@runtime_checkable
class StreamingLLM(LLM, Protocol):
    """An LLM that can also hand out its reply in pieces, and at the end, if it knows it, the usage."""

    def stream(self, messages: Sequence[Message]) -> Iterator[str | Usage]: ...

    def astream(self, messages: Sequence[Message]) -> AsyncIterator[str | Usage]: ...


@dataclass(frozen=True, slots=True)
class Text:
    """More of what is shown: pieces of the draft, or whole sentences that passed."""

    text: str


@dataclass(frozen=True, slots=True)
class Restarted:
    """What was shown so far is withdrawn; a new draft begins."""

    reasons: tuple[Reason, ...] = ()


@dataclass(frozen=True, slots=True)
class Verified:
    """What was shown is the answer, and it passed."""

    answer: Answer


@dataclass(frozen=True, slots=True)
class Revised:
    """The answer is another text than the one shown; its outcome says how far it can be trusted."""

    answer: Answer


@dataclass(frozen=True, slots=True)
class Unverified:
    """What was shown is the best there is, and it did not pass."""

    answer: Answer


StreamEvent: TypeAlias = Text | Restarted | Verified | Revised | Unverified
Emit: TypeAlias = Callable[[StreamEvent], None]


def held_back(augmenter: Augmenter, question: str, history: Sequence[Message] = ()) -> Iterator[StreamEvent]:
    """Sentences that passed, as they pass; see the module."""
    return _stream(augmenter, question, history, HeldBack(augmenter.utility))


def draft_first(augmenter: Augmenter, question: str, history: Sequence[Message] = ()) -> Iterator[StreamEvent]:
    """The first draft in pieces, then its verdict or its replacement; see the module."""
    return _stream(augmenter, question, history, DraftFirst())


def aheld_back(augmenter: Augmenter, question: str, history: Sequence[Message] = ()) -> AsyncIterator[StreamEvent]:
    """`held_back` for async."""
    return _astream(augmenter, question, history, HeldBack(augmenter.utility))


def adraft_first(
    augmenter: Augmenter, question: str, history: Sequence[Message] = ()
) -> AsyncIterator[StreamEvent]:
    """`draft_first` for async."""
    return _astream(augmenter, question, history, DraftFirst())


class _Closed(BaseException):
    """The reader went away: ends the run in its thread, past everything that handles errors."""


def _stream(
    augmenter: Augmenter, question: str, history: Sequence[Message], watcher: Watcher
) -> Iterator[StreamEvent]:
    events: queue.SimpleQueue[StreamEvent | BaseException] = queue.SimpleQueue()
    closed = threading.Event()

    flow = _watched(augmenter, question, history, watcher, events.put, closed)

    def work() -> None:
        try:
            limits = augmenter.limits
            answer, trace = run(flow, llm=augmenter.llm, budget=augmenter.budget, call_seconds=limits.call_seconds)
            events.put(_last(replace(answer, trace=trace), watcher.shown))
        except BaseException as error:
            events.put(error)

    # The run draws on the budget and the tracing of whoever reads the stream.
    context = contextvars.copy_context()
    threading.Thread(target=context.run, args=(work,), name="denoise-stream", daemon=True).start()
    try:
        while True:
            event = events.get()
            if isinstance(event, BaseException):
                raise event
            yield event
            if not isinstance(event, (Text, Restarted)):
                return
    finally:
        closed.set()


async def _astream(
    augmenter: Augmenter, question: str, history: Sequence[Message], watcher: Watcher
) -> AsyncIterator[StreamEvent]:
    events: asyncio.Queue[StreamEvent | None] = asyncio.Queue()
    flow = _watched(augmenter, question, history, watcher, events.put_nowait, threading.Event())

    async def work() -> Answer:
        try:
            limits = augmenter.limits
            answer, trace = await arun(
                flow, llm=augmenter.llm, budget=augmenter.budget, call_seconds=limits.call_seconds
            )
            return replace(answer, trace=trace)
        finally:
            events.put_nowait(None)

    task = asyncio.create_task(work())
    try:
        while (event := await events.get()) is not None:
            yield event
        yield _last(await task, watcher.shown)
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


def _last(answer: Answer, shown: str) -> StreamEvent:
    if same_text(shown) != same_text(answer.text):
        return Revised(answer)
    return Verified(answer) if answer.outcome is Outcome.VERIFIED else Unverified(answer)


def _watched(
    augmenter: Augmenter,
    question: str,
    history: Sequence[Message],
    watcher: Watcher,
    emit: Emit,
    closed: threading.Event,
) -> Flow[Answer]:
    """The loop with its drafts going through a tee."""
    loop = copy.copy(augmenter)
    loop.policy = _Telling(augmenter.policy, watcher)
    return _rerouted(loop.flow(question, history), _Tee(augmenter.llm, watcher, emit, closed))


def _rerouted(flow: Flow[Answer], tee: _Tee) -> Flow[Answer]:
    """``flow`` with its drafts, and only those, served by the tee."""
    effect = next(flow)
    while True:
        if isinstance(effect, Complete) and effect.tag == "draft":
            effect = replace(effect, llm=tee)
        failed: Exception | None = None
        reply = None
        try:
            reply = yield effect
        except Exception as error:
            failed = error
        try:
            effect = flow.send(reply) if failed is None else flow.throw(failed)
        except StopIteration as stop:
            answer: Answer = stop.value
            return answer


class _Telling:
    """A policy that lets the watcher see the memory a draft will be written from."""

    def __init__(self, policy: Policy, watcher: Watcher) -> None:
        self.policy = policy
        self.watcher = watcher

    def choose(self, memory: WorkingMemory) -> Action:
        self.watcher.memory = memory
        return self.policy.choose(memory)


class _Tee:
    """The drafting model, with a watcher that sees each piece and may end the draft.

    A sync call that was given up for lack of time goes on in its thread until its next piece; its draft is
    no longer the current one, and so it ends there unseen.
    """

    def __init__(self, llm: LLM, watcher: Watcher, emit: Emit, closed: threading.Event) -> None:
        self.llm = llm
        self.watcher = watcher
        self.emit = emit
        self.closed = closed
        self._lock = threading.Lock()
        self._draft = 0

    def complete(self, messages: Sequence[Message]) -> Reply:
        with self._lock:
            mine = self._begin()
        usage = None
        for piece in self._pieces(messages):
            with self._lock:
                self._check(mine)
                if isinstance(piece, Usage):
                    usage = piece
                elif not self._tell(run(self.watcher.more(piece), llm=self.llm)[0]):
                    break
        else:
            with self._lock:
                self._check(mine)
                self._tell(run(self.watcher.end(), llm=self.llm)[0])
        return Reply(self.watcher.text, usage)

    async def acomplete(self, messages: Sequence[Message]) -> Reply:
        self._begin()
        usage = None
        async with aclosing(self._apieces(messages)) as pieces:
            async for piece in pieces:
                if isinstance(piece, Usage):
                    usage = piece
                elif not self._tell((await arun(self.watcher.more(piece), llm=self.llm))[0]):
                    break
            else:
                self._tell((await arun(self.watcher.end(), llm=self.llm))[0])
        return Reply(self.watcher.text, usage)

    def _begin(self) -> int:
        self._draft += 1
        if self.watcher.begin():
            last = self.watcher.memory.last
            self.emit(Restarted(last.verdict.reasons if last else ()))
        return self._draft

    def _check(self, draft: int) -> None:
        if self.closed.is_set():
            raise _Closed
        if draft != self._draft:
            raise TimeoutError("this draft was given up")

    def _tell(self, released: tuple[str, bool]) -> bool:
        text, go_on = released
        if text:
            self.emit(Text(text))
        return go_on

    def _pieces(self, messages: Sequence[Message]) -> Iterator[str | Usage]:
        if isinstance(self.llm, StreamingLLM):
            yield from self.llm.stream(messages)
            return
        yield from _whole(self.llm.complete(messages))

    async def _apieces(self, messages: Sequence[Message]) -> AsyncGenerator[str | Usage, None]:
        if not isinstance(self.llm, StreamingLLM):
            for piece in _whole(await self.llm.acomplete(messages)):
                yield piece
            return
        stream = self.llm.astream(messages)
        try:
            async for piece in stream:
                yield piece
        finally:  # a model's connection is not left to the garbage collector
            close = getattr(stream, "aclose", None)
            if close is not None:
                await close()


def _whole(reply: Reply) -> Iterator[str | Usage]:
    yield reply.text
    if reply.usage is not None:
        yield reply.usage
