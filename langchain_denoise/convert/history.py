"""The user's last message, and what a model reads of a message instead of its content.

Messages of the model, of tools and of the system are never changed: the user's own
messages pull an answer towards the user's opinion (System 2 Attention, section 1).
"""

from __future__ import annotations

import zlib
from typing import Any, TypeVar

from langchain_core.messages import BaseMessage, HumanMessage

from denoise_core.runtime.record import RECORD_KEY
from langchain_denoise.convert.messages import Messages, block_text, last_position
from langchain_denoise.observe import Record

MessageType = TypeVar("MessageType", bound=BaseMessage)


def question_position(messages: Messages) -> int | None:
    """The index of the last user message with text; None if there is none."""
    with_text = [message if message.text.strip() else None for message in messages]
    return last_position(with_text, HumanMessage)


def has_several_texts(message: BaseMessage) -> bool:
    """Whether the message's text is in several blocks."""
    if isinstance(message.content, str):
        return False
    texts = [block for block in message.content if block_text(block) is not None]
    return len(texts) > 1


def replace_message_text(
    message: BaseMessage, text: str, record: Record
) -> BaseMessage:
    """A copy of the message with other text and the record; images stay in position."""
    content: Any = text
    if not isinstance(message.content, str):
        content = []
        for block in message.content:
            is_text = block_text(block) is not None
            new_block = text if isinstance(block, str) else {**block, "text": text}
            content.append(new_block if is_text else block)
    return record_on_message(message.model_copy(update={"content": content}), record)


def record_on_message(message: MessageType, record: Record) -> MessageType:
    """A copy of the message with the record in its ``response_metadata``."""
    return _with_metadata(message, RECORD_KEY, record)


# What a model reads instead of a message


VIEW_KEY = "denoise_view"
"""Key of what the model reads instead of the content, in ``response_metadata``."""


def with_view(message: MessageType, content: Any) -> MessageType:
    """A copy of the message of which the model reads another content."""
    view = {"content": content, "source": _content_checksum(message.content)}
    return _with_metadata(message, VIEW_KEY, view)


def shown_message(message: BaseMessage) -> BaseMessage:
    """The message as the model reads it.

    A message whose content was changed since, such as by a middleware that clears old
    results, is unchanged.
    """
    if not has_current_view(message):
        return message
    view = message.response_metadata[VIEW_KEY]
    return message.model_copy(update={"content": view["content"]})


def has_current_view(message: BaseMessage) -> bool:
    """Whether the message has a view, and its content was not changed since."""
    view = message.response_metadata.get(VIEW_KEY)
    return view is not None and view["source"] == _content_checksum(message.content)


def _content_checksum(content: Any) -> int:
    return zlib.crc32(repr(content).encode("utf-8", "backslashreplace"))


def _with_metadata(message: MessageType, key: str, value: Any) -> MessageType:
    metadata = {**message.response_metadata, key: value}
    return message.model_copy(update={"response_metadata": metadata})
