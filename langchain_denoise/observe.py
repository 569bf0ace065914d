"""The record of a run, in a child span and in a custom event."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any, TypeAlias

from langchain_core.callbacks import (
    AsyncParentRunManager,
    ParentRunManager,
    adispatch_custom_event,
    dispatch_custom_event,
)
from langchain_core.runnables import RunnableConfig, RunnableSerializable
from langchain_core.runnables.utils import Input, Output
from pydantic import ConfigDict
from typing_extensions import override

from denoise_core._frameworks import cache_signature
from denoise_core.runtime.budget import limit_concurrency

EVENT_NAME = "denoise"
SPAN_NAME = "denoise_record"

Record = dict[str, Any]
Fields: TypeAlias = Mapping[str, Any]
"""A record, metadata or a state that is read and not changed."""
RunRecord: TypeAlias = tuple[Record, Record]
"""The arguments of `emit_record`: what went in, and the record of what came of it."""
AnyRunManager: TypeAlias = ParentRunManager | AsyncParentRunManager


class RecordedCall(ABC):
    """One input of a `RecordedRunnable`."""

    @abstractmethod
    def run(self) -> Any:
        """The result; None if there is nothing to do."""

    @abstractmethod
    async def arun(self) -> Any:
        """`run` for async."""

    @abstractmethod
    def build_output(self, result: Any) -> Any:
        """The runnable's output."""

    @abstractmethod
    def record(self, result: Any) -> RunRecord:
        """What is recorded of a result."""


class RecordedRunnable(RunnableSerializable[Input, Output]):
    """A runnable that records each call; inner calls are children of its run."""

    model_config = ConfigDict(arbitrary_types_allowed=True, extra="forbid")

    @abstractmethod
    def _prepare_call(
        self, input: Any, run: AnyRunManager, config: RunnableConfig, options: Record
    ) -> RecordedCall:
        """One call, from its input and options."""

    @override
    def invoke(
        self, input: Input, config: RunnableConfig | None = None, **kwargs: Any
    ) -> Output:
        return self._call_with_config(self._run_call, input, config, **kwargs)

    @override
    async def ainvoke(
        self, input: Input, config: RunnableConfig | None = None, **kwargs: Any
    ) -> Output:
        return await self._acall_with_config(self._arun_call, input, config, **kwargs)

    # LangChain inspects this signature at every call; the cache saves most of that cost.
    @cache_signature
    def _run_call(
        self,
        input: Input,
        run_manager: ParentRunManager,
        config: RunnableConfig,
        **kwargs: Any,
    ) -> Output:
        call = self._prepare_call(input, run_manager, config, kwargs)
        with limit_concurrency(config.get("max_concurrency")):
            result = call.run()
        output: Output = call.build_output(result)
        # Building the record costs time, so it is skipped when nothing listens.
        if result is not None and has_listeners(run_manager):
            emit_record(run_manager, *call.record(result))
        return output

    @cache_signature
    async def _arun_call(
        self,
        input: Input,
        run_manager: AsyncParentRunManager,
        config: RunnableConfig,
        **kwargs: Any,
    ) -> Output:
        call = self._prepare_call(input, run_manager, config, kwargs)
        with limit_concurrency(config.get("max_concurrency")):
            result = await call.arun()
        output: Output = call.build_output(result)
        if result is not None and has_listeners(run_manager):
            await aemit_record(run_manager, *call.record(result))
        return output


def emit_record(run: ParentRunManager, inputs: Record, record: Record) -> None:
    """Write the record as a child span and as a custom event.

    The span exists because tracers ignore custom events.
    """
    span = run.get_child().on_chain_start({"name": SPAN_NAME}, inputs, name=SPAN_NAME)
    span.on_chain_end(record)
    dispatch_custom_event(EVENT_NAME, record)


async def aemit_record(
    run: AsyncParentRunManager, inputs: Record, record: Record
) -> None:
    """`emit_record` for async."""
    child_run = run.get_child()
    span = await child_run.on_chain_start({"name": SPAN_NAME}, inputs, name=SPAN_NAME)
    await span.on_chain_end(record)
    await adispatch_custom_event(EVENT_NAME, record)


def has_listeners(run: AnyRunManager) -> bool:
    """Whether a handler listens; without one no record is built."""
    return bool(run.handlers or run.inheritable_handlers)
