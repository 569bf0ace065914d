"""What the adapters tell LlamaIndex's instrumentation and streams, beside the rerank events it knows."""

from __future__ import annotations

from typing import Any

from llama_index.core.instrumentation.events import BaseEvent
from llama_index.core.workflow import Event


class DenoiseEvent(BaseEvent):
    """One denoising. ``summary`` is `denoise_core.runtime.record.result_summary`, plain JSON: which ranges of which
    nodes were kept and dropped, why, and what it cost. ``passed_through`` are the ids of nodes without text."""

    method: str
    summary: dict[str, Any]
    passed_through: list[str]

    @classmethod
    def class_name(cls) -> str:
        return "DenoiseEvent"


class AnswerEvent(BaseEvent):
    """The loop ended: ``record`` is `denoise_core.augmenter.traces.record.answer_record`, plain JSON, with the
    drafts' text and no node text."""

    record: dict[str, Any]

    @classmethod
    def class_name(cls) -> str:
        return "AnswerEvent"


class VerificationEvent(Event):
    """In an agent's stream, once for every answer: how its check went, plain JSON. ``record["outcome"]`` is
    supported, unsupported, unknown, abstained or failed."""

    record: dict[str, Any]
