"""The verification loop as a runnable: at once, or as a stream of checked text.

`verified` and `AugmentedRunnable` are built on it.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import aclosing
from dataclasses import dataclass, field
from typing import Any

from langchain_core.runnables import RunnableConfig, RunnableGenerator
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
    TextReleased,
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

    ``output_for_answer`` returns the runnable's output.
    """

    loop: Augmenter
    question: str
    history: tuple[Message, ...]
    output_for_answer: Callable[[Answer], Any]
    drafter: Drafter | None = None

    @override
    def run(self) -> Answer:
        return self.loop.answer(self.question, self.history, drafter=self.drafter)

    @override
    async def arun(self) -> Answer:
        loop = self.loop
        return await loop.aanswer(self.question, self.history, drafter=self.drafter)

    @override
    def build_output(self, result: Answer) -> Any:
        return self.output_for_answer(result)

    @override
    def records(self, result: Answer) -> RunRecords:
        record = answer_record(result)
        return {"question": self.question}, short_record(record), record

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

    @abstractmethod
    def _loop_run(self, input: Any, options: Record) -> LoopRun:
        """The input as the loop takes it."""

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

        A reader that leaves early ends the run, and its span, without an error.

        Args:
            input: The input of `invoke`.
            config: The config of the run.
            show: ``"checked"`` yields one `TextReleased` with the whole answer once it is
                judged; ``"draft"`` yields the first draft while it is written.

        Yields:
            The events; the last is `Finished` or `Revised` with the `Answer`.
        """
        traced = _TracedStream(self._loop_run, show)
        name = self.get_name()
        texts = RunnableGenerator(traced.texts, traced.atexts, name=name)
        for _ in texts.stream(input, config):
            yield traced.last_event

    async def astream_checked(
        self,
        input: Input,
        config: RunnableConfig | None = None,
        *,
        show: Show = "checked",
    ) -> AsyncIterator[StreamEvent]:
        """`stream_checked` for async."""
        traced = _TracedStream(self._loop_run, show)
        name = self.get_name()
        texts = RunnableGenerator(traced.texts, traced.atexts, name=name)
        stream = texts.astream(input, config)
        try:
            async for _ in stream:
                yield traced.last_event
        except GeneratorExit:
            # A run that is closed is an error to LangChain, one that ends is not.
            traced.is_left = True
            async for _ in stream:
                pass
            raise


@dataclass
class _TracedStream:
    """The events of one stream; LangChain traces their texts."""

    build_run: Callable[[Any, Record], LoopRun]
    show: Show
    is_left: bool = False
    last_event: Any = field(default=None, init=False)

    def texts(
        self, inputs: Iterator[Any], run_manager: AnyRunManager, config: RunnableConfig
    ) -> Iterator[str]:
        """The text of each event, which is then the last one."""
        loop_run = self.build_run(next(inputs), {})
        events = iter(loop_run.stream_events(self.show))
        with limit_concurrency(config.get("max_concurrency")):
            self.last_event = next(events, None)
        while self.last_event is not None:
            if isinstance(self.last_event, (Finished, Revised)):
                emit_record(run_manager, *loop_run.records(self.last_event.answer))
            yield self.text
            self.last_event = next(events, None)

    async def atexts(
        self,
        inputs: AsyncIterator[Any],
        run_manager: AnyRunManager,
        config: RunnableConfig,
    ) -> AsyncIterator[str]:
        """`texts` for async."""
        loop_run = self.build_run(await anext(inputs), {})
        events = aiter(loop_run.stream_events(self.show))
        with limit_concurrency(config.get("max_concurrency")):
            self.last_event = await anext(events, None)
        async with aclosing(events):
            while self.last_event is not None:
                if isinstance(self.last_event, (Finished, Revised)):
                    records = loop_run.records(self.last_event.answer)
                    await aemit_record(run_manager, *records)
                yield self.text
                if self.is_left:
                    return
                self.last_event = await anext(events, None)

    @property
    def text(self) -> str:
        """What the last event shows."""
        if isinstance(self.last_event, TextReleased):
            return self.last_event.text
        is_revised = isinstance(self.last_event, Revised)
        return self.last_event.answer.text if is_revised else ""
