"""A conversation as S2A reads it: the user's last message as a passage and the question.

Messages of the model, of tools and of the system are never changed: the user's own
messages pull an answer towards the user's opinion (System 2 Attention, section 1).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from langchain_core.messages import BaseMessage, HumanMessage

from denoise_core import DenoiseResult, Passage
from denoise_core.runtime.record import RECORD_KEY, passage_record
from denoise_core.s2a.options import EXTRACTIVE, Variant
from denoise_core.s2a.question import same_question
from langchain_denoise.convert.messages import block_text
from langchain_denoise.observe import Record


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
        """The turn of a conversation; None if it has no user message with text."""
        position = question_position(messages)
        if position is None:
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
