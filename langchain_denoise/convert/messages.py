"""Messages of the core as LangChain's, and back; the config of the calls made here."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from langchain_core.messages import (
    BaseMessage,
    HumanMessage,
    convert_to_messages,
)
from langchain_core.runnables import RunnableConfig
from langchain_core.runnables.config import ensure_config

from denoise_core import Message
from denoise_core.runtime.fallbacks import log_fallback
from denoise_core.support.judging import ProviderCitation
from denoise_core.types import Role

Messages: TypeAlias = Sequence[BaseMessage]
Citations: TypeAlias = tuple[ProviderCitation, ...]

NOSTREAM = "nostream"
"""LangGraph leaves calls with this tag out of a user's token stream."""

_ROLES: dict[str, Role] = {"system": "system", "human": "user", "ai": "assistant"}


def read_messages(value: Any) -> list[BaseMessage] | None:
    """A list of messages in any spelling of LangChain; None for anything else.

    Messages, ``("user", "...")``, ``{"role": "user", "content": "..."}`` and strings.
    """
    if not isinstance(value, Sequence) or isinstance(value, (str, bytes)) or not value:
        return None
    for item in value:
        if not isinstance(item, (BaseMessage, str, Mapping)) and not is_role_pair(item):
            return None
    try:
        return convert_to_messages(value)
    except (ValueError, NotImplementedError, KeyError):
        return None  # such as rows with a key "role" that names no speaker


def is_role_pair(item: Any) -> bool:
    """Whether this is a role and a content, such as ``("user", "Why?")``."""
    is_pair = isinstance(item, (tuple, list)) and len(item) == 2
    return is_pair and all(isinstance(part, str) for part in item)


def to_langchain_messages(messages: Sequence[Message]) -> list[BaseMessage]:
    """The core's messages as LangChain's."""
    return convert_to_messages([(item.role, item.content) for item in messages])


def to_core_messages(messages: Messages) -> tuple[Message, ...]:
    """LangChain's messages as the core's: text only, without tool calls and results."""
    core_messages = []
    for message in messages:
        if message.type in _ROLES:
            core_messages.append(Message(_ROLES[message.type], str(message.text)))
    return tuple(core_messages)


def block_text(block: Any) -> str | None:
    """The text of a content block; None for an image and the like."""
    if isinstance(block, str):
        return block
    return str(block.get("text", "")) if block.get("type") == "text" else None


def message_citations(message: BaseMessage) -> Citations:
    """What the model's provider cites, as ranges of the message's text.

    Read are LangChain's standard annotations that have a cited text; one without a
    range is of its whole block.
    """
    if not any(map(_has_annotations, message.content)):
        return ()
    try:
        return _read_citations(message)
    except Exception as error:  # annotations of a form that LangChain cannot read
        # Its text may quote the message: users' texts are not logged.
        log_fallback("message_citations", type(error).__name__, "no citation was read")
        return ()


def _read_citations(message: BaseMessage) -> Citations:
    text = ""
    citations = []
    for block in message.content_blocks:
        if block["type"] != "text":
            continue
        for annotation in block.get("annotations") or ():
            if annotation["type"] != "citation":
                continue
            cited_text = annotation.get("cited_text") or ""
            if not cited_text.strip():  # raises for what is no text
                continue
            first = annotation.get("start_index") or 0
            last = annotation.get("end_index") or len(block["text"])
            citation = ProviderCitation(len(text) + first, len(text) + last, cited_text)
            citations.append(citation)
        text += block["text"]
    # Ranges of another text would be wrong.
    return tuple(citations) if text == str(message.text) else ()


def _has_annotations(block: Any) -> bool:
    """Whether a block has some, in LangChain's form or in the provider's."""
    if not isinstance(block, Mapping):
        return False
    return bool(block.get("annotations") or block.get("citations"))


def last_position(
    messages: Sequence[Any], message_type: type[BaseMessage]
) -> int | None:
    """The index of the last message of a type; None if there is none."""
    for position in reversed(range(len(messages))):
        if isinstance(messages[position], message_type):
            return position
    return None


@dataclass(frozen=True, slots=True)
class ConversationTurn:
    """The last turn of a conversation.

    Attributes:
        history: The messages before the question.
        question: The last human message; None if there is none.
        replies: The messages after it; all of a conversation without a question.
    """

    history: Messages
    question: BaseMessage | None
    replies: Messages

    @staticmethod
    def from_messages(messages: Messages) -> ConversationTurn:
        """The last turn of these messages."""
        position = last_position(messages, HumanMessage)
        if position is None:
            return ConversationTurn((), None, messages)
        return ConversationTurn(
            messages[:position], messages[position], messages[position + 1 :]
        )

    @property
    def question_text(self) -> str:
        """The text of the question; "" if there is none."""
        return "" if self.question is None else str(self.question.text)


def internal_config() -> RunnableConfig:
    """The config of a call made inside a run: a child in the trace, never streamed."""
    config = ensure_config()
    config["tags"] = [*config.get("tags", []), NOSTREAM]
    config["metadata"] = {**config.get("metadata", {}), "lc_source": "denoise"}
    return config
