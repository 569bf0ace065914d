"""The verification loop as a runnable: at once, or as a stream of checked text.

`verified` and `AugmentedRunnable` are built on it.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import ExitStack, aclosing, closing, contextmanager
from contextvars import Context
from dataclasses import dataclass
from typing import Any

from langchain_core.runnables import RunnableConfig
from langchain_core.runnables.config import (
    ensure_config,
    get_async_callback_manager_for_config,
    get_callback_manager_for_config,
    patch_config,
    set_config_context,
)
from langchain_core.runnables.utils import Input, Output, coro_with_context
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

        A reader that leaves early ends the run, and its span, without an output.

        Args:
            input: The input of `invoke`.
            config: The config of the run.
            show: ``"checked"`` yields one `TextReleased` with the whole answer once it is
                judged; ``"draft"`` yields the first draft while it is written.

        Yields:
            The events; the last is `Finished` or `Revised` with the `Answer`.
        """
        config = ensure_config(config)
        manager = get_callback_manager_for_config(config)
        run = manager.on_chain_start(None, input, **self._run_identity(config))
        output = None
        try:
            loop_run = self._loop_run(input, {})
            with _child_context(config, run) as context:
                stream = context.run(iter, loop_run.stream_events(show))
                with closing(stream) as events:
                    while (event := context.run(next, events, None)) is not None:
                        if isinstance(event, (Finished, Revised)):
                            answer = loop_run.notify(event.answer)
                            output = answer.text
                            records = loop_run.records(answer)
                            context.run(emit_record, run, *records)
                        yield event
        except GeneratorExit:
            # The reader left: the run ends, which is not an error.
            run.on_chain_end(output)
            raise
        except BaseException as error:
            run.on_chain_error(error)
            raise
        run.on_chain_end(output)

    async def astream_checked(
        self,
        input: Input,
        config: RunnableConfig | None = None,
        *,
        show: Show = "checked",
    ) -> AsyncIterator[StreamEvent]:
        """`stream_checked` for async."""
        config = ensure_config(config)
        manager = get_async_callback_manager_for_config(config)
        run = await manager.on_chain_start(None, input, **self._run_identity(config))
        output = None
        try:
            loop_run = self._loop_run(input, {})
            with _child_context(config, run) as context:
                stream = context.run(aiter, loop_run.stream_events(show))
                async with aclosing(stream) as events:
                    while event := await coro_with_context(
                        _next_event(events), context
                    ):
                        if isinstance(event, (Finished, Revised)):
                            answer = loop_run.notify(event.answer)
                            output = answer.text
                            records = loop_run.records(answer)
                            await coro_with_context(
                                aemit_record(run, *records), context
                            )
                        yield event
        except GeneratorExit:
            await run.on_chain_end(output)
            raise
        except BaseException as error:
            await run.on_chain_error(error)
            raise
        await run.on_chain_end(output)

    def _run_identity(self, config: RunnableConfig) -> Record:
        run_name = config.get("run_name") or self.get_name()
        return {"name": run_name, "run_id": config.pop("run_id", None)}


@contextmanager
def _child_context(config: RunnableConfig, run: AnyRunManager) -> Iterator[Context]:
    """A context in which calls are children of the run, under its concurrency limit."""
    child_config = patch_config(config, callbacks=run.get_child())
    concurrency_limit = ExitStack()
    with set_config_context(child_config) as context:
        try:
            limit = limit_concurrency(config.get("max_concurrency"))
            context.run(concurrency_limit.enter_context, limit)
            yield context
        finally:
            context.run(concurrency_limit.close)


async def _next_event(events: AsyncIterator[StreamEvent]) -> StreamEvent | None:
    return await anext(events, None)
