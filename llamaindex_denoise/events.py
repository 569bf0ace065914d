"""Events for LlamaIndex's instrumentation and for agents' streams."""

from __future__ import annotations

from typing import Any

from llama_index.core.bridge.pydantic import Field
from llama_index.core.instrumentation.events import BaseEvent
from llama_index.core.workflow import Event


class DenoiseEvent(BaseEvent):
    """One denoising.

    Attributes:
        method: Name of the method.
        summary: `denoise_core.runtime.record.result_summary` as plain JSON: the ranges
            of each node that were kept and dropped, why, and the cost.
        passed_through: Ids of the nodes that were not denoised: without text, or with
            what must stay.
    """

    method: str
    summary: dict[str, Any]
    passed_through: list[str]

    @classmethod
    def class_name(cls) -> str:
        """Return the event's name."""
        return "DenoiseEvent"


class ShadowEvent(BaseEvent):
    """One denoising in shadow mode.

    Attributes:
        call: The `denoise_core.shadow.ShadowCall`; it has texts and is not serialised.
    """

    call: Any = Field(exclude=True, repr=False)

    @classmethod
    def class_name(cls) -> str:
        """Return the event's name."""
        return "ShadowEvent"


class VerificationEvent(Event):
    """The verdict on one answer, in an agent's stream.

    Attributes:
        record: Plain JSON; ``record["outcome"]`` is supported, partly supported,
            unsupported, unknown, abstained or failed.
    """

    record: dict[str, Any]
