"""Replies by a JSON schema, from models that can promise one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol, runtime_checkable

from denoise_core.protocols import LLM
from denoise_core.types import Message, Reply

_NUMBER_LIST = {"type": "array", "items": {"type": ["integer", "string"]}}


def schema(variant: str) -> dict[str, Any] | None:
    """The JSON schema of a variant's reply; None for the one that replies with bare text."""
    if variant in ("select", "remove"):
        return _object({"keep" if variant == "select" else "drop": _NUMBER_LIST})
    if variant == "auto":
        # One of the two lists, so that the model writes the shorter one.
        return {"type": "object", "properties": {"keep": _NUMBER_LIST, "drop": _NUMBER_LIST}, "maxProperties": 1}
    if variant == "single":
        return None
    return _object({"context": {"type": "string"}, "question": {"type": "string"}})


@runtime_checkable
class StructuredLLM(Protocol):
    """An `LLM` that can also be held to a JSON schema; its reply's text is the JSON."""

    def complete(self, messages: Sequence[Message]) -> Reply: ...

    async def acomplete(self, messages: Sequence[Message]) -> Reply: ...

    def complete_json(self, messages: Sequence[Message], schema: Mapping[str, Any]) -> Reply: ...

    async def acomplete_json(self, messages: Sequence[Message], schema: Mapping[str, Any]) -> Reply: ...


def held_to_schema(llm: LLM, variant: str) -> LLM:
    """``llm`` answering by the variant's schema if it can, else ``llm`` itself: its text is parsed."""
    wanted = schema(variant)
    return _Held(llm, wanted) if wanted is not None and isinstance(llm, StructuredLLM) else llm


class _Held:
    def __init__(self, llm: StructuredLLM, wanted: Mapping[str, Any]) -> None:
        self.llm = llm
        self.wanted = wanted

    def complete(self, messages: Sequence[Message]) -> Reply:
        return self.llm.complete_json(messages, self.wanted)

    async def acomplete(self, messages: Sequence[Message]) -> Reply:
        return await self.llm.acomplete_json(messages, self.wanted)


def _object(properties: dict[str, Any]) -> dict[str, Any]:
    return {
        "type": "object",
        "properties": properties,
        "required": list(properties),
        "additionalProperties": False,
    }
