"""Messages of the core as LangChain's, and back; and the config that our own calls run under."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, SystemMessage
from langchain_core.runnables import RunnableConfig
from langchain_core.runnables.config import ensure_config

from denoise_core import Message
from denoise_core.types import Role

NOSTREAM = "nostream"
"""LangGraph leaves calls with this tag out of a user's token stream."""

_MESSAGE: dict[str, type[BaseMessage]] = {
    "system": SystemMessage,
    "user": HumanMessage,
    "assistant": AIMessage,
}
_ROLE: dict[str, Role] = {"system": "system", "human": "user", "ai": "assistant"}


def to_langchain_messages(messages: Sequence[Message]) -> list[BaseMessage]:
    """The core's messages as LangChain's."""
    return [_MESSAGE[m.role](content=m.content) for m in messages]


def to_core_messages(messages: Sequence[BaseMessage]) -> tuple[Message, ...]:
    """LangChain's messages as the core's: text only; tool calls and their results are left out."""
    return tuple(
        Message(_ROLE[m.type], str(m.text)) for m in messages if m.type in _ROLE
    )


def block_text(block: Any) -> str | None:
    """The text of a content block; None for an image and the like."""
    if isinstance(block, str):
        return block
    return str(block.get("text", "")) if block.get("type") == "text" else None


def internal_config() -> RunnableConfig:
    """The surrounding run's config for a call of ours inside it: its child in a trace, out of its stream."""
    config = ensure_config()
    config["tags"] = [*config.get("tags", []), NOSTREAM]
    config["metadata"] = {**config.get("metadata", {}), "lc_source": "denoise"}
    return config
