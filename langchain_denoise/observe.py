"""The record of a run, in a child span and in a custom event."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from langchain_core.callbacks import (
    AsyncParentRunManager,
    ParentRunManager,
    adispatch_custom_event,
    dispatch_custom_event,
)

from denoise_core import DenoiseResult, Passage
from denoise_core.runtime.record import bounded_result_summary, result_summary

EVENT_NAME = "denoise"
SPAN_NAME = "denoise_record"

Record = dict[str, Any]


def emit_record(
    run: ParentRunManager, inputs: Record, brief: Record, complete: Record
) -> None:
    """Write ``brief`` as a child span, ``complete`` as a custom event.

    The span exists because tracers ignore custom events.
    """
    child_run = run.get_child()
    span = child_run.on_chain_start({"name": SPAN_NAME}, inputs, name=SPAN_NAME)
    span.on_chain_end(brief)
    # Handlers get the complete record, which may be too large for a tracer.
    dispatch_custom_event(EVENT_NAME, complete)


async def aemit_record(
    run: AsyncParentRunManager, inputs: Record, brief: Record, complete: Record
) -> None:
    """`emit_record` for async."""
    child_run = run.get_child()
    span = await child_run.on_chain_start({"name": SPAN_NAME}, inputs, name=SPAN_NAME)
    await span.on_chain_end(brief)
    await adispatch_custom_event(EVENT_NAME, complete)


def result_summaries(
    passages: Sequence[Passage], result: DenoiseResult
) -> tuple[Record, Record]:
    """The bounded summary of a denoising, for the span, and the complete one."""
    return bounded_result_summary(passages, result), result_summary(passages, result)


def has_listeners(run: ParentRunManager | AsyncParentRunManager) -> bool:
    """Whether a handler listens; without one no record is built."""
    return bool(run.handlers or run.inheritable_handlers)


def short_record(record: Record) -> Record:
    """The record without the text of the drafts, for a span."""
    attempt_keys = ("draft", "outcome", "score", "reasons")
    run_keys = (
        "outcome",
        "stopped_because",
        "score",
        "judge",
        "calls",
        "input_tokens",
        "output_tokens",
    )
    attempts = [_select(attempt, attempt_keys) for attempt in record["attempts"]]
    return {**_select(record, run_keys), "attempts": attempts}


def _select(record: Record, keys: tuple[str, ...]) -> Record:
    return {key: record[key] for key in keys}
