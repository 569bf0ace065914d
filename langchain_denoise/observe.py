"""What a run did, where every tracer and handler sees it: a span of its own, and a custom event."""

from __future__ import annotations

from typing import Any

from langchain_core.callbacks import (
    AsyncParentRunManager,
    ParentRunManager,
    adispatch_custom_event,
    dispatch_custom_event,
)

from denoise_core.runtime.record import bounded_result_summary, result_summary

EVENT_NAME = "denoise"
SPAN_NAME = "denoise_record"
SUMMARY_FUNCTIONS = (
    bounded_result_summary,
    result_summary,
)  # of a denoising, for the span and for the event


def emit_record(
    run: ParentRunManager,
    asked: dict[str, Any],
    short: dict[str, Any],
    whole: dict[str, Any],
) -> None:
    """``short`` as the outputs of a child span (tracers know no custom events), ``whole`` as the custom event."""
    child = run.get_child()
    child.on_chain_start({"name": SPAN_NAME}, asked, name=SPAN_NAME).on_chain_end(short)
    dispatch_custom_event(EVENT_NAME, whole)


async def aemit_record(
    run: AsyncParentRunManager,
    asked: dict[str, Any],
    short: dict[str, Any],
    whole: dict[str, Any],
) -> None:
    """`tell` for async."""
    child = run.get_child()
    await (
        await child.on_chain_start({"name": SPAN_NAME}, asked, name=SPAN_NAME)
    ).on_chain_end(short)
    await adispatch_custom_event(EVENT_NAME, whole)


def has_listeners(run: ParentRunManager | AsyncParentRunManager) -> bool:
    """Whether anything listens; nothing is built for nobody."""
    return bool(run.handlers or run.inheritable_handlers)


def short_record(record: dict[str, Any]) -> dict[str, Any]:
    """The record without the drafts' words, for a span."""
    attempts = [
        {k: a[k] for k in ("draft", "outcome", "score", "reasons")}
        for a in record["attempts"]
    ]
    keys = (
        "outcome",
        "stopped_because",
        "score",
        "judge",
        "calls",
        "input_tokens",
        "output_tokens",
    )
    return {**{k: record[k] for k in keys}, "attempts": attempts}
