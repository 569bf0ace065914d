"""Answers as a stream: the draft while it is written and the verdict after it, or the checked answer as a whole.

`stream_verified` is the one function. Each draft is judged exactly once, when it is complete. With
``show="draft"`` the first draft is shown as it comes; with ``show="checked"`` nothing is shown before the loop has
ended. The last event is `Finished` (the text shown is the answer) or `Revised` (it is not: show the answer
instead); both carry the whole `Answer`. Read ``events`` first, then ``splitter``.
"""

from __future__ import annotations

import asyncio
import contextvars
import queue
import threading
from collections.abc import AsyncGenerator, Callable, Generator, Sequence
from dataclasses import dataclass, replace
from typing import Literal, TypeAlias

from denoise_core.augmenter.answer import Answer
from denoise_core.augmenter.drafting.drafter import Drafter
from denoise_core.augmenter.loop import Augmenter
from denoise_core.augmenter.streaming.events import (
    Finished,
    Revised,
    StreamEvent,
    StreamingLLM,
    TextReleased,
)
from denoise_core.augmenter.streaming.splitter import StreamSplitter
from denoise_core.errors import InputError
from denoise_core.result import Trace
from denoise_core.runtime.effects import Flow
from denoise_core.runtime.flow import arun, run
from denoise_core.types import Message, Passage

__all__ = [
    "Finished",
    "Revised",
    "Stream",
    "StreamEvent",
    "StreamingLLM",
    "TextReleased",
    "stream_verified",
]

Show: TypeAlias = Literal["draft", "checked"]
"""What a stream shows: the draft as it comes, or the whole text once it is judged."""


def stream_verified(
    augmenter: Augmenter,
    question: str,
    history: Sequence[Message] = (),
    *,
    drafter: Drafter | None = None,
    evidence: Sequence[Passage] = (),
    show: Show = "draft",
) -> Stream:
    """Stream the answer to one question.

    Args:
        augmenter: The loop that searches, drafts and judges.
        question: The question.
        history: The conversation before it.
        drafter: Writes the drafts instead of the model, as in `Augmenter.answer`.
        evidence: Passages at hand already.
        show: ``"draft"`` shows the first draft as it is written, ``"checked"`` only the answer, once it is judged.

    Returns:
        The events, for ``for`` or ``async for``. Closing the iterator, or cancelling the task that reads it, ends
        the run.

    Raises:
        InputError: If ``show`` is neither of the two.
    """
    if show not in ("draft", "checked"):
        raise InputError(f"show={show!r}: expected 'draft' or 'checked'")
    return Stream(augmenter, question, history, drafter, evidence, show)


@dataclass(frozen=True, slots=True)
class Stream:
    """One question with everything it is asked with. Each iteration is a new run."""

    augmenter: Augmenter
    question: str
    history: Sequence[Message]
    drafter: Drafter | None
    evidence: Sequence[Passage]
    show: Show

    def __iter__(self) -> Generator[StreamEvent, None, None]:
        """Run the loop in a thread and yield its events."""
        events: queue.SimpleQueue[StreamEvent | BaseException | None] = (
            queue.SimpleQueue()
        )
        closed = threading.Event()
        flow, splitter = self._split_flow(events.put, closed)

        def run_loop() -> None:
            try:
                answer, trace = run(flow, **self.augmenter.run_options())
                for event in self._closing_events(answer, trace, splitter):
                    events.put(event)
                events.put(None)
            except BaseException as error:
                events.put(error)

        # The run draws on the budget and the tracing of the code that reads the stream.
        context = contextvars.copy_context()
        threading.Thread(
            target=context.run, args=(run_loop,), name="denoise-stream", daemon=True
        ).start()
        try:
            while (event := events.get()) is not None:
                if isinstance(event, BaseException):
                    raise event
                yield event
        finally:
            closed.set()

    async def __aiter__(self) -> AsyncGenerator[StreamEvent, None]:
        """Run the loop in a task and yield its events."""
        events: asyncio.Queue[StreamEvent | None] = asyncio.Queue()
        flow, splitter = self._split_flow(events.put_nowait, threading.Event())

        async def run_loop() -> list[StreamEvent]:
            try:
                answer, trace = await arun(flow, **self.augmenter.run_options())
                return self._closing_events(answer, trace, splitter)
            finally:
                events.put_nowait(None)

        task = asyncio.create_task(run_loop())
        try:
            while (event := await events.get()) is not None:
                yield event
            for event in await task:
                yield event
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    def _split_flow(
        self, emit_event: Callable[[StreamEvent], None], closed: threading.Event
    ) -> tuple[Flow[Answer], StreamSplitter]:
        """The loop as a flow whose drafts pass through a splitter."""
        splitter = StreamSplitter(emit_event, closed, show_draft=self.show == "draft")
        flow = self.augmenter.flow(
            self.question,
            self.history,
            drafter=self.drafter,
            evidence=self.evidence,
            wrap_server=splitter.wrap_server,
        )
        return flow, splitter

    def _closing_events(
        self, answer: Answer, trace: Trace, splitter: StreamSplitter
    ) -> list[StreamEvent]:
        """What follows once the loop has ended."""
        answer = replace(answer, trace=trace)
        if self.show == "checked" and answer.text:
            return [TextReleased(answer.text), Finished(answer)]
        if splitter.shown_text == answer.text:
            return [Finished(answer)]
        return [Revised(answer, splitter.shown_text)]
