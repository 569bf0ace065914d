"""A conversation as S2A reads it: the user's last message as a passage and the question.

Messages of the model, of tools and of the system are never changed: the user's own
messages pull an answer towards the user's opinion (System 2 Attention, section 1).
"""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from langchain_core.messages import BaseMessage, HumanMessage

from denoise_core import DenoiseResult, Passage
from denoise_core.runtime.fallbacks import log_fallback
from denoise_core.runtime.record import RECORD_KEY, passage_record
from denoise_core.s2a.options import EXTRACTIVE, Variant
from denoise_core.s2a.question import same_question
from langchain_denoise.convert.messages import block_text
from langchain_denoise.observe import Record

MessageType = TypeVar("MessageType", bound=BaseMessage)


@dataclass(frozen=True, slots=True)
class UserTurn:
    """The user's last message with text, which is the question, at ``position``.

    ``variant`` decides how it is assembled: the extractive variants keep the question
    within the message, the others return it separately.
    """

    messages: tuple[BaseMessage, ...]
    position: int
    variant: Variant

    @staticmethod
    def from_messages(
        messages: Sequence[BaseMessage], variant: Variant
    ) -> UserTurn | None:
        """The turn of a conversation; None if it has no user message with one text."""
        position = question_position(messages)
        if position is None:
            return None
        if has_several_texts(messages[position]):
            problem = "a message has several blocks of text"
            log_fallback("S2AMessages", problem, "the message was kept as it was")
            return None
        return UserTurn(tuple(messages), position, variant)

    @property
    def question(self) -> str:
        """The text of the user's last message."""
        return str(self.messages[self.position].text)

    @property
    def passage(self) -> Passage:
        """The message as a passage."""
        return Passage(self.question, f"message-{self.position}")

    def apply_result(self, result: DenoiseResult) -> list[BaseMessage]:
        """The conversation with the denoised message, a copy that keeps its id."""
        passage = self.passage
        kept = Passage("", passage.id, is_rewritten=True)
        for kept_passage in result.passages:
            if kept_passage.id == passage.id:
                kept = kept_passage
        new_text = self._assemble_question(kept.text.strip(), result.query.strip())
        conversation = list(self.messages)
        message = self.messages[self.position]
        originals = {passage.id: passage}
        if new_text != passage.text.strip():
            record = passage_record(kept, originals, result)
            record["original"] = passage.text
            message = replace_message_text(message, new_text, record)
        elif result.fallback:
            record = passage_record(passage, originals, result)
            message = record_on_message(message, record)
        conversation[self.position] = message
        return conversation

    def _assemble_question(self, context: str, question: str) -> str:
        """The text of the last message.

        The original, when the new text no longer asks the user's question.
        """
        original = self.question.strip()
        is_extractive = self.variant in EXTRACTIVE
        if question == original:
            # `same_question` returns why the two may differ; None means proven equal.
            is_proven = same_question(original, context) is None
            return context if is_extractive and is_proven else original
        if is_extractive:
            return question
        if _normalize_text(question) in _normalize_text(context):
            return context
        return f"{context}\n\n{question}".strip()


def question_position(messages: Sequence[BaseMessage]) -> int | None:
    """The index of the last user message with text; None if there is none."""
    for position in reversed(range(len(messages))):
        message = messages[position]
        if isinstance(message, HumanMessage) and message.text.strip():
            return position
    return None


def _normalize_text(text: str) -> str:
    return " ".join(text.casefold().split())


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
            if isinstance(block, dict) and block_text(block) is not None:
                block = {**block, "text": text}
            elif isinstance(block, str):
                block = text
            content.append(block)
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
    if view["content"] == message.content:
        return message
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
