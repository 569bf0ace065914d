"""What a run of the verification loop returns, shared by engines, chats and agents."""

from __future__ import annotations

from typing import Any, Literal, TypeAlias

from llama_index.core.base.response.schema import PydanticResponse, Response

from denoise_core.augmenter import Answer
from denoise_core.augmenter.answer import NO_ANSWER, Outcome, StopReason
from denoise_core.augmenter.traces.record import answer_record, claims_record
from llamaindex_denoise.engines.drafter import EngineDrafter

ErrorPolicy: TypeAlias = Literal["answer", "raise"]
"""After an error without an answer: a text that names its class, or the error."""


def run_record(answer: Answer) -> dict[str, Any]:
    """The record of a run as plain JSON, with the verdict on each claim."""
    return {**answer_record(answer), "claims": claims_record(answer)}


def final_response(
    answer: Answer, drafter: EngineDrafter, on_error: ErrorPolicy
) -> Response | PydanticResponse:
    """Return the answer with its sources, and the record in its metadata.

    Args:
        answer: What the loop returned.
        drafter: The engine that drafted for it.
        on_error: What an error without an answer returns.

    Raises:
        Exception: The error that prevented an answer, with ``on_error="raise"``.
    """
    text = answer.text
    record = run_record(answer)
    error = None
    has_failed = answer.outcome is Outcome.FAILED
    if has_failed and answer.stop_reason is StopReason.LLM_ERROR:
        # The engine itself knows of no error if the loop's time for a call was up.
        error = drafter.last_error or TimeoutError(answer.text)
    if drafter.is_retrieval_only:  # sources without text claim nothing
        text = ""
        record.update(outcome="unknown", stopped_because="unjudged")
    elif error is not None:
        if on_error == "raise":
            raise error
        error_name = type(error).__name__
        text = NO_ANSWER.format(why=f"the engine failed ({error_name})")
    if answer.best is None:
        return Response(text, metadata={"denoise": record})
    draft = answer.best.origin
    nodes = list(draft.source_nodes)
    draft_metadata = draft.metadata or {}
    metadata = {**draft_metadata, "denoise": record}
    if isinstance(draft, PydanticResponse):
        return PydanticResponse(draft.response, nodes, metadata)
    return Response(text, nodes, metadata)
