"""The loop as a runnable, whole and as a stream of checked text: under `verified` and `AugmentedRunnable`."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import ExitStack, aclosing, closing, contextmanager
from contextvars import Context
from dataclasses import dataclass
from typing import Any, cast

from langchain_core.callbacks import AsyncParentRunManager, ParentRunManager
from langchain_core.runnables import RunnableConfig, RunnableSerializable
from langchain_core.runnables.config import (
    ensure_config,
    get_async_callback_manager_for_config,
    get_callback_manager_for_config,
    patch_config,
    set_config_context,
)
from langchain_core.runnables.utils import Input, Output, coro_with_context
from pydantic import ConfigDict
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
from langchain_denoise.observe import aemit_record, emit_record, short_record


@dataclass(frozen=True, slots=True)
class LoopRun:
    """One input as the loop takes it; ``told`` is called with the answer, ``output`` gives what is put in its
    place and the record of the run."""

    loop: Augmenter
    question: str
    history: tuple[Message, ...]
    notify: Callable[[Answer], Answer]
    build_output: Callable[[Answer], tuple[Any, dict[str, Any]]]
    drafter: Drafter | None = None

    def stream_events(self, show: Show) -> Any:
        """The loop as a stream of events, blocking or not."""
        return stream_verified(
            self.loop, self.question, self.history, drafter=self.drafter, show=show
        )

    def record_outputs(
        self, record: dict[str, Any]
    ) -> tuple[dict[str, Any], dict[str, Any], dict[str, Any]]:
        """What is told of the run: what was asked, the record in short, and whole."""
        return {"question": self.question}, short_record(record), record


class VerifyingRunnable(RunnableSerializable[Input, Output]):
    """Answers that are judged before they are given.

    ``stream`` yields one value: nothing is shown before it is judged. `stream_checked` shows the answer once it is
    judged, or the draft first and its verdict after. Inner calls are children of this run.
    """

    model_config = ConfigDict(arbitrary_types_allowed=True, extra="forbid")

    def _loop_run(self, input: Input, options: dict[str, Any]) -> LoopRun:
        raise NotImplementedError

    @override
    def invoke(
        self, input: Input, config: RunnableConfig | None = None, **kwargs: Any
    ) -> Output:
        return self._call_with_config(self._answer, input, config, **kwargs)

    @override
    async def ainvoke(
        self, input: Input, config: RunnableConfig | None = None, **kwargs: Any
    ) -> Output:
        return await self._acall_with_config(self._aanswer, input, config, **kwargs)

    def _answer(
        self,
        input: Input,
        run_manager: ParentRunManager,
        config: RunnableConfig,
        **kwargs: Any,
    ) -> Output:
        asked = self._loop_run(input, kwargs)
        with limit_concurrency(config.get("max_concurrency")):
            answer = asked.notify(
                asked.loop.answer(asked.question, asked.history, drafter=asked.drafter)
            )
        output, record = asked.build_output(answer)
        emit_record(run_manager, *asked.record_outputs(record))
        return cast("Output", output)

    async def _aanswer(
        self,
        input: Input,
        run_manager: AsyncParentRunManager,
        config: RunnableConfig,
        **kwargs: Any,
    ) -> Output:
        asked = self._loop_run(input, kwargs)
        with limit_concurrency(config.get("max_concurrency")):
            answer = asked.notify(
                await asked.loop.aanswer(
                    asked.question, asked.history, drafter=asked.drafter
                )
            )
        output, record = asked.build_output(answer)
        await aemit_record(run_manager, *asked.record_outputs(record))
        return cast("Output", output)

    def stream_checked(
        self,
        input: Input,
        config: RunnableConfig | None = None,
        *,
        show: Show = "checked",
    ) -> Iterator[StreamEvent]:
        """`denoise_core.augmenter.streaming` events: `TextReleased` with the whole answer once it is judged
        (``"checked"``) or with the first draft as it is written (``"draft"``), last `Finished` or `Revised` with
        the `Answer`. A reader that leaves early ends the run, and its span, without an output."""
        asked, config = self._loop_run(input, {}), ensure_config(config)
        name, run_id = (
            config.get("run_name") or self.get_name(),
            config.pop("run_id", None),
        )
        run = get_callback_manager_for_config(config).on_chain_start(
            None, input, name=name, run_id=run_id
        )
        output = None
        try:
            with (
                _within(config, run) as context,
                closing(context.run(iter, asked.stream_events(show))) as events,
            ):
                while (event := context.run(next, events, None)) is not None:
                    if isinstance(event, (Finished, Revised)):
                        output = asked.notify(event.answer).text
                        context.run(
                            emit_record,
                            run,
                            *asked.record_outputs(answer_record(event.answer)),
                        )
                    yield event
        except GeneratorExit:
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
        asked, config = self._loop_run(input, {}), ensure_config(config)
        name, run_id = (
            config.get("run_name") or self.get_name(),
            config.pop("run_id", None),
        )
        manager = get_async_callback_manager_for_config(config)
        run = await manager.on_chain_start(None, input, name=name, run_id=run_id)
        output = None
        try:
            with _within(config, run) as context:
                async with aclosing(
                    context.run(aiter, asked.stream_events(show))
                ) as events:
                    while (
                        event := await coro_with_context(_next(events), context)
                    ) is not None:
                        if isinstance(event, (Finished, Revised)):
                            output = asked.notify(event.answer).text
                            telling = aemit_record(
                                run, *asked.record_outputs(answer_record(event.answer))
                            )
                            await coro_with_context(telling, context)
                        yield event
        except GeneratorExit:
            await run.on_chain_end(output)
            raise
        except BaseException as error:
            await run.on_chain_error(error)
            raise
        await run.on_chain_end(output)


@contextmanager
def _within(
    config: RunnableConfig, run: ParentRunManager | AsyncParentRunManager
) -> Iterator[Context]:
    """A context in which calls are children of the run; its bound on concurrency holds there alone."""
    bounds = ExitStack()
    with set_config_context(patch_config(config, callbacks=run.get_child())) as context:
        try:
            context.run(
                bounds.enter_context, limit_concurrency(config.get("max_concurrency"))
            )
            yield context
        finally:
            context.run(bounds.close)


async def _next(events: AsyncIterator[StreamEvent]) -> StreamEvent | None:
    return await anext(events, None)
