"""A conversation as S2A reads it: the user's messages as passages.

The last of them is the question too. Messages of the model, of tools and of the system
are never changed: the user's own messages pull an answer towards the user's opinion
(System 2 Attention, section 1).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from langchain_core.messages import BaseMessage, HumanMessage

from denoise_core import DenoiseResult, Passage
from denoise_core.runtime.record import RECORD_KEY, passage_record
from denoise_core.s2a.options import EXTRACTIVE, Variant
from denoise_core.s2a.question import same_question
from langchain_denoise.convert.messages import block_text
from langchain_denoise.observe import Record

MessageScope = Literal["latest", "history"]

OMITTED_MESSAGE = "(This message was left out: it does not help with the question.)"
"""Replaces an earlier message of which nothing is kept, so that turns still alternate."""


@dataclass(frozen=True, slots=True)
class UserTurn:
    """The user's messages to denoise; the last of them is the question.

    ``positions`` are their indices in ``messages``. ``variant`` decides how the last
    message is assembled: the extractive variants keep the question within the message,
    the others return it separately.
    """

    messages: tuple[BaseMessage, ...]
    positions: tuple[int, ...]
    variant: Variant

    @staticmethod
    def from_messages(
        messages: Sequence[BaseMessage], scope: MessageScope, variant: Variant
    ) -> UserTurn | None:
        """The turn of a conversation; None if it has no user message with text."""
        positions = []
        for position, message in enumerate(messages):
            if isinstance(message, HumanMessage) and message.text.strip():
                positions.append(position)
        if not positions:
            return None
        if scope == "latest":
            positions = positions[-1:]
        return UserTurn(tuple(messages), tuple(positions), variant)

    @property
    def question(self) -> str:
        """The text of the user's last message."""
        return str(self.messages[self.positions[-1]].text)

    @property
    def passages(self) -> tuple[Passage, ...]:
        """The messages at `positions` as passages."""
        passages = []
        for position in self.positions:
            text = str(self.messages[position].text)
            passages.append(Passage(text, f"message-{position}"))
        return tuple(passages)

    def apply_result(self, result: DenoiseResult) -> list[BaseMessage]:
        """The conversation with the denoised messages, as copies that keep their ids."""
        conversation = list(self.messages)
        changed_texts = self.changed_texts(result)
        for position, (text, record) in changed_texts.items():
            message = conversation[position]
            conversation[position] = replace_message_text(message, text, record)
        last = self.positions[-1]
        if result.fallback and last not in changed_texts:
            passage = self.passages[-1]
            record = passage_record(passage, {passage.id: passage}, result)
            conversation[last] = record_on_message(conversation[last], record)
        return conversation

    def changed_texts(self, result: DenoiseResult) -> dict[int, tuple[str, Record]]:
        """The new text and record of each message that changed, by position."""
        passages = self.passages
        originals = {passage.id: passage for passage in passages}
        kept_passages = {passage.id: passage for passage in result.passages}
        changed_texts: dict[int, tuple[str, Record]] = {}
        for position, passage in zip(self.positions, passages):
            kept = kept_passages.get(passage.id) or Passage(
                "", passage.id, is_rewritten=True
            )
            new_text = kept.text.strip()
            if position == self.positions[-1]:
                new_text = self._assemble_question(new_text, result.query.strip())
            if position != self.positions[-1] and not new_text:
                new_text = OMITTED_MESSAGE
            if new_text != passage.text.strip():
                record = passage_record(kept, originals, result)
                changed_texts[position] = new_text, {**record, "original": passage.text}
        return changed_texts

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


def _normalize_text(text: str) -> str:
    return " ".join(text.casefold().split())


def replace_message_text(
    message: BaseMessage, text: str, record: Record
) -> BaseMessage:
    """A copy of the message with other text and the record; images stay in position."""
    content: Any = text
    if not isinstance(message.content, str):
        content = _replace_block_texts(message.content, text, record)
    return record_on_message(message.model_copy(update={"content": content}), record)


def record_on_message(message: BaseMessage, record: Record) -> BaseMessage:
    """A copy of the message with the record in its ``response_metadata``."""
    metadata = {**message.response_metadata, RECORD_KEY: record}
    return message.model_copy(update={"response_metadata": metadata})


def _replace_block_texts(content: list[Any], text: str, record: Record) -> list[Any]:
    """The content blocks in their order, with other text in the text blocks.

    Text that is the message's own characters stays in the block that each part came from;
    rewritten text goes into the first block. A block left without text is removed and
    passes its ``cache_control`` to the block before it.
    """
    block_texts = [block_text(block) for block in content]
    original_texts = [original for original in block_texts if original is not None]
    new_texts = _split_into_blocks(original_texts, text, record)
    new_content: list[Any] = []
    for block, original in zip(content, block_texts, strict=True):
        if original is None:
            new_content.append(block)
            continue
        new_text = next(new_texts)
        is_text_only = isinstance(block, str)
        if new_text.strip():
            new_content.append(
                new_text if is_text_only else {**block, "text": new_text}
            )
        elif not is_text_only and "cache_control" in block and new_content:
            previous = new_content[-1]
            if isinstance(previous, dict):
                cache_control = block["cache_control"]
                new_content[-1] = {**previous, "cache_control": cache_control}
    return new_content


def _split_into_blocks(
    block_texts: Sequence[str], text: str, record: Record
) -> Iterator[str]:
    """The new text of each text block.

    Its part of the kept ranges; or all of a rewritten text in the first block.
    """
    full_text = "".join(block_texts)
    ranges: list[tuple[int, int]] = []
    for passage_ranges in record["spans"].values():
        ranges += passage_ranges
    kept_text = "".join(full_text[start:end] for start, end in ranges)
    if not record["extractive"] or kept_text.strip() != text:
        yield text
        for _ in block_texts[1:]:
            yield ""
        return
    # Kept ranges count characters of the joined text; each block gets its intersection.
    block_start = 0
    for original in block_texts:
        block_end = block_start + len(original)
        parts = []
        for start, end in ranges:
            parts.append(full_text[max(start, block_start) : min(end, block_end)])
        yield "".join(parts)
        block_start = block_end
