"""Replies by a JSON schema, from models that can promise one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol, runtime_checkable

from denoise_core.protocols import LLM
from denoise_core.types import Message, Reply


@runtime_checkable
class StructuredLLM(LLM, Protocol):
    """An `LLM` that can also be held to a JSON schema; its reply's text is the JSON."""

    def complete_json(self, messages: Sequence[Message], schema: Mapping[str, Any]) -> Reply:
        """A reply whose text is JSON of ``schema``."""
        ...

    async def acomplete_json(self, messages: Sequence[Message], schema: Mapping[str, Any]) -> Reply:
        """The same without blocking the event loop."""
        ...


def held_to_schema(llm: LLM, schema: Mapping[str, Any] | None) -> LLM:
    """``llm`` answering by the schema if it can, else ``llm`` itself: its text is parsed. None is no schema."""
    return _Held(llm, schema) if schema is not None and isinstance(llm, StructuredLLM) else llm


class _Held:
    def __init__(self, llm: StructuredLLM, wanted: Mapping[str, Any]) -> None:
        self.llm = llm
        self.wanted = wanted

    def complete(self, messages: Sequence[Message]) -> Reply:
        return self.llm.complete_json(messages, self.wanted)

    async def acomplete(self, messages: Sequence[Message]) -> Reply:
        return await self.llm.acomplete_json(messages, self.wanted)


def by_schema(llm: LLM) -> bool | None:
    """Whether ``llm`` can be held to a JSON schema; None while only asking tells.

    An adapter says so by its attribute ``structured``, which it sets after the first reply; a `StructuredLLM`
    without it can."""
    if not isinstance(llm, StructuredLLM):
        return False
    known = getattr(llm, "structured", True)
    return known if known is None else bool(known)
