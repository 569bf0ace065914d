"""Answers as they are written: held back until judged, or draft first and the verdict after (paper, section 6).

``held_back`` releases a sentence only when the utility passes it; the first that does not pass ends the draft
there, and a new one begins (`Restarted`). ``draft_first`` shows the first draft as it comes, not yet judged, and
ends with what became of it. Either way the last event is `Finished` or `Revised` and holds the whole `Answer`. A
``drafter`` writes in the place of the model, as in `Augmenter.answer`; one that cannot be repeated is never ended
early. What they give is read by ``for`` or ``async for``; closing the iterator, or cancelling the task that reads
it, ends the run.
"""

from __future__ import annotations

import asyncio
import contextvars
import queue
import threading
from collections.abc import AsyncGenerator, Callable, Generator, Sequence
from dataclasses import dataclass, replace
from functools import partial

from denoise_core.augmenter.answer import Answer
from denoise_core.augmenter.drafting.drafter import Drafter
from denoise_core.augmenter.loop import Augmenter
from denoise_core.augmenter.memory import same_text
from denoise_core.augmenter.streaming.tee import Tee
from denoise_core.augmenter.streaming.watch import (
    DraftFirst,
    Emit,
    Finished,
    HeldBack,
    Restarted,
    Revised,
    StreamEvent,
    StreamingLLM,
    Text,
    Watcher,
)
from denoise_core.result import Trace
from denoise_core.runtime.effects import Flow
from denoise_core.runtime.flow import arun, run
from denoise_core.types import Message, Passage

__all__ = [
    "Finished",
    "Restarted",
    "Revised",
    "Stream",
    "StreamEvent",
    "StreamingLLM",
    "Text",
    "draft_first",
    "held_back",
]


def held_back(
    augmenter: Augmenter,
    question: str,
    history: Sequence[Message] = (),
    *,
    drafter: Drafter | None = None,
    evidence: Sequence[Passage] = (),
) -> Stream:
    """Sentences that passed, as they pass; see the module."""
    watcher = partial(HeldBack, augmenter.utility, augmenter.when)
    return Stream(augmenter, question, history, drafter, evidence, watcher)


def draft_first(
    augmenter: Augmenter,
    question: str,
    history: Sequence[Message] = (),
    *,
    drafter: Drafter | None = None,
    evidence: Sequence[Passage] = (),
) -> Stream:
    """The first draft in pieces, then its verdict or its replacement; see the module."""
    return Stream(augmenter, question, history, drafter, evidence, DraftFirst)


@dataclass(frozen=True, slots=True)
class Stream:
    """One question with everything it is asked with: ``for event in stream``, or ``async for``.

    Each iteration is a run of its own.
    """

    augmenter: Augmenter
    question: str
    history: Sequence[Message]
    drafter: Drafter | None
    evidence: Sequence[Passage]
    watcher: Callable[[], Watcher]

    def __iter__(self) -> Generator[StreamEvent, None, None]:
        events: queue.SimpleQueue[StreamEvent | BaseException] = queue.SimpleQueue()
        closed = threading.Event()
        flow, tee = self._watched(events.put, closed)

        def work() -> None:
            try:
                events.put(_last(*run(flow, **self.augmenter.driving()), tee))
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

    async def __aiter__(self) -> AsyncGenerator[StreamEvent, None]:
        events: asyncio.Queue[StreamEvent | None] = asyncio.Queue()
        flow, tee = self._watched(events.put_nowait, threading.Event())

        async def work() -> StreamEvent:
            try:
                return _last(*await arun(flow, **self.augmenter.driving()), tee)
            finally:
                events.put_nowait(None)

        task = asyncio.create_task(work())
        try:
            while (event := await events.get()) is not None:
                yield event
            yield await task
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    def _watched(self, emit: Emit, closed: threading.Event) -> tuple[Flow[Answer], Tee]:
        """The loop with its drafts going through a tee."""
        loop, tee = self.augmenter, Tee(self.augmenter.llm, self.watcher(), emit, closed)
        through, drafter, evidence = tee.serving, self.drafter, self.evidence
        return loop.flow(self.question, self.history, drafter=drafter, evidence=evidence, through=through), tee


def _last(answer: Answer, trace: Trace, tee: Tee) -> StreamEvent:
    whole = replace(answer, trace=trace + Trace(tuple(tee.lost)))
    shown = same_text(tee.watcher.shown) == same_text(answer.text)
    return Finished(whole) if shown else Revised(whole)
