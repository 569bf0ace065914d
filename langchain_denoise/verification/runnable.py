"""The verification loop as a runnable: at once, or as a stream of checked text.

`verified` and `AugmentedRunnable` are built on it.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import aclosing, closing
from dataclasses import dataclass
from functools import partial
from typing import Any

from langchain_core.callbacks import AsyncParentRunManager, ParentRunManager
from langchain_core.runnables import RunnableConfig
from langchain_core.runnables.utils import Input, Output
from typing_extensions import override

from denoise_core import Message
from denoise_core.augmenter import Answer, Augmenter
from denoise_core.augmenter.drafting import Drafter
from denoise_core.augmenter.streaming import (
    Finished,
    Revised,
    Show,
    StreamEvent,
    stream_verified,
)
from denoise_core.augmenter.traces.record import answer_record
from denoise_core.runtime.budget import limit_concurrency
from langchain_denoise.observe import (
    AnyRunManager,
    Record,
    RecordedCall,
    RecordedRunnable,
    RunRecords,
    aemit_record,
    emit_record,
    short_record,
)


@dataclass(frozen=True)
class LoopRun(RecordedCall):
    """One input as the loop takes it; its result is an `Answer`.

    ``output_for_answer`` returns the runnable's output; ``on_answer`` is called with the
    answer.
    """

    loop: Augmenter
    question: str
    history: tuple[Message, ...]
    output_for_answer: Callable[[Answer], Any]
    drafter: Drafter | None = None
    on_answer: Callable[[Answer], None] | None = None

    @override
    def run(self) -> Answer:
        answer = self.loop.answer(self.question, self.history, drafter=self.drafter)
        return self.notify(answer)

    @override
    async def arun(self) -> Answer:
        loop = self.loop
        return self.notify(
            await loop.aanswer(self.question, self.history, drafter=self.drafter)
        )

    @override
    def build_output(self, result: Answer) -> Any:
        return self.output_for_answer(result)

    @override
    def records(self, result: Answer) -> RunRecords:
        record = answer_record(result)
        return {"question": self.question}, short_record(record), record

    def notify(self, answer: Answer) -> Answer:
        """Call ``on_answer``, and return the answer."""
        if self.on_answer is not None:
            self.on_answer(answer)
        return answer

    def stream_events(self, show: Show) -> Any:
        """The loop as a stream of events, for sync and async."""
        return stream_verified(
            self.loop, self.question, self.history, drafter=self.drafter, show=show
        )


class VerifyingRunnable(RecordedRunnable[Input, Output]):
    """Answers that are judged before they are returned.

    ``stream`` yields one value: nothing is shown before it is judged. `stream_checked`
    shows the answer once it is judged, or the draft first and its verdict after.
    """

    def _loop_run(self, input: Any, options: Record) -> LoopRun:
        raise NotImplementedError

    @override
    def _prepare_call(
        self, input: Any, run: AnyRunManager, config: RunnableConfig, options: Record
    ) -> RecordedCall:
        return self._loop_run(input, options)

    def stream_checked(
        self,
        input: Input,
        config: RunnableConfig | None = None,
        *,
        show: Show = "checked",
    ) -> Iterator[StreamEvent]:
        """Stream the answer as events of `denoise_core.augmenter.streaming`.

        A reader that leaves early ends the run.

        Args:
            input: The input of `invoke`.
            config: The config of the run.
            show: ``"checked"`` yields one `TextReleased` with the whole answer once it is
                judged; ``"draft"`` yields the first draft while it is written.

        Yields:
            The events; the last is `Finished` or `Revised` with the `Answer`.
        """
        transformer: Any = partial(self._checked_events, show=show)
        stream: Any = self._transform_stream_with_config(
            iter([input]), transformer, config
        )
        yield from stream

    async def astream_checked(
        self,
        input: Input,
        config: RunnableConfig | None = None,
        *,
        show: Show = "checked",
    ) -> AsyncIterator[StreamEvent]:
        """`stream_checked` for async."""

        async def inputs() -> AsyncIterator[Input]:
            yield input

        transformer: Any = partial(self._achecked_events, show=show)
        stream: Any = self._atransform_stream_with_config(inputs(), transformer, config)
        async with aclosing(stream) as events:
            async for event in events:
                yield event

    def _checked_events(
        self,
        inputs: Iterator[Input],
        run_manager: ParentRunManager,
        config: RunnableConfig,
        *,
        show: Show,
    ) -> Iterator[StreamEvent]:
        run = self._loop_run(next(inputs), {})
        with closing(iter(run.stream_events(show))) as events:
            while True:
                # A reader that leaves closes this in another context: nothing may be set
                # in the context while an event is shown.
                with limit_concurrency(config.get("max_concurrency")):
                    event = next(events, None)
                if event is None:
                    return
                if isinstance(event, (Finished, Revised)):
                    records = run.records(run.notify(event.answer))
                    emit_record(run_manager, *records)
                yield event

    async def _achecked_events(
        self,
        inputs: AsyncIterator[Input],
        run_manager: AsyncParentRunManager,
        config: RunnableConfig,
        *,
        show: Show,
    ) -> AsyncIterator[StreamEvent]:
        run = self._loop_run(await anext(inputs), {})
        async with aclosing(aiter(run.stream_events(show))) as events:
            while True:
                with limit_concurrency(config.get("max_concurrency")):
                    event = await anext(events, None)
                if event is None:
                    return
                if isinstance(event, (Finished, Revised)):
                    records = run.records(run.notify(event.answer))
                    await aemit_record(run_manager, *records)
                yield event
