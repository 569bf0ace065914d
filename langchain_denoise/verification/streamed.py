"""A run that is streamed, traced as any other: a span around it, inner calls under it, the record at its end."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Callable, Generator, Iterator
from contextlib import ExitStack, aclosing, closing, contextmanager
from contextvars import Context
from dataclasses import dataclass
from typing import Any, cast

from langchain_core.runnables import RunnableConfig
from langchain_core.runnables.config import (
    ensure_config,
    get_async_callback_manager_for_config,
    get_callback_manager_for_config,
    patch_config,
    set_config_context,
)
from langchain_core.runnables.utils import coro_with_context

from denoise_core.augmenter import Answer
from denoise_core.augmenter.streaming import Finished, Revised, StreamEvent
from denoise_core.augmenter.traces.record import answer_record
from denoise_core.running.budget import at_most
from langchain_denoise.observe import atell, short_record, tell


@dataclass(frozen=True, slots=True)
class Streamed:
    """One input's stream of checked text. ``told`` is called with the `Answer` before the last event is given;
    at most ``concurrency`` calls of the loop are made at once.

    A reader that leaves early ends the run, and its span, without an output.
    """

    name: str
    given: Any
    question: str
    told: Callable[[Answer], Any]
    concurrency: int | None = None

    def events(
        self, begin: Callable[[], Iterator[StreamEvent]], config: RunnableConfig | None
    ) -> Iterator[StreamEvent]:
        """What ``begin()`` gives, in the context of this run."""
        config = ensure_config(config)
        name, run_id = config.get("run_name") or self.name, config.pop("run_id", None)
        run = get_callback_manager_for_config(config).on_chain_start(None, self.given, name=name, run_id=run_id)
        output = None
        try:
            with (
                set_config_context(patch_config(config, callbacks=run.get_child())) as context,
                self._bounded(context, config),
            ):
                made = cast("Generator[StreamEvent, None, None]", context.run(begin))
                with closing(made) as events:
                    while (event := context.run(next, events, None)) is not None:
                        if isinstance(event, (Finished, Revised)):
                            self.told(event.answer)
                            record, output = answer_record(event.answer), event.answer.text
                            context.run(tell, run, {"question": self.question}, short_record(record), record)
                        yield event
        except GeneratorExit:
            run.on_chain_end(output)
            raise
        except BaseException as error:
            run.on_chain_error(error)
            raise
        run.on_chain_end(output)

    async def aevents(
        self, begin: Callable[[], AsyncIterator[StreamEvent]], config: RunnableConfig | None
    ) -> AsyncGenerator[StreamEvent, None]:
        """`events` for async."""
        config = ensure_config(config)
        name, run_id = config.get("run_name") or self.name, config.pop("run_id", None)
        manager = get_async_callback_manager_for_config(config)
        run = await manager.on_chain_start(None, self.given, name=name, run_id=run_id)
        output = None
        try:
            with (
                set_config_context(patch_config(config, callbacks=run.get_child())) as context,
                self._bounded(context, config),
            ):
                made = cast("AsyncGenerator[StreamEvent, None]", context.run(begin))
                async with aclosing(made) as events:
                    while (event := await coro_with_context(_next(events), context)) is not None:
                        if isinstance(event, (Finished, Revised)):
                            self.told(event.answer)
                            record, output = answer_record(event.answer), event.answer.text
                            telling = atell(run, {"question": self.question}, short_record(record), record)
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
    def _bounded(self, context: Context, config: RunnableConfig) -> Iterator[None]:
        """The bounds on concurrency, within ``context`` alone."""
        bounds = ExitStack()
        try:
            for bound in (self.concurrency, config.get("max_concurrency")):
                context.run(bounds.enter_context, at_most(bound))
            yield
        finally:
            context.run(bounds.close)


async def _next(events: AsyncIterator[StreamEvent]) -> StreamEvent | None:
    return await anext(events, None)
