"""A conversation as S2A sees it: the user's messages as passages, the last one as the question too.

What the model, tools and the system said is never touched: it is the user's own words that pull an answer
towards the user's opinion (System 2 Attention, section 1).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from langchain_core.messages import BaseMessage, HumanMessage

from denoise_core import DenoiseResult, Passage
from denoise_core.runtime.record import RECORD_KEY, passage_record
from denoise_core.s2a.options import EXTRACTIVE, Variant
from denoise_core.s2a.question import same_question
from langchain_denoise.convert.messages import block_text

MessageScope = Literal["latest", "history"]

OMITTED_MESSAGE = "(This message was left out: it does not help with the question.)"
"""Stands for an earlier message of which nothing is kept, so that turns still alternate."""


@dataclass(frozen=True, slots=True)
class UserTurn:
    """The user's messages that are to be cleared, by their place in the conversation; the last is the question.

    ``variant`` decides how the last one is put together: the extractive variants keep the question within the
    message, the others give it back by itself.
    """

    messages: tuple[BaseMessage, ...]
    positions: tuple[int, ...]
    variant: Variant

    @staticmethod
    def from_messages(
        messages: Sequence[BaseMessage], scope: MessageScope, variant: Variant
    ) -> UserTurn | None:
        """None when the user said nothing that could be cleared."""
        places = [
            i
            for i, m in enumerate(messages)
            if isinstance(m, HumanMessage) and m.text.strip()
        ]
        if not places:
            return None
        return UserTurn(
            tuple(messages),
            tuple(places if scope == "history" else places[-1:]),
            variant,
        )

    @property
    def question(self) -> str:
        return str(self.messages[self.positions[-1]].text)

    @property
    def passages(self) -> tuple[Passage, ...]:
        return tuple(
            Passage(str(self.messages[i].text), f"message-{i}") for i in self.positions
        )

    def apply_result(self, result: DenoiseResult) -> list[BaseMessage]:
        """The conversation with the cleared messages in it, as copies that keep their ids."""
        out = list(self.messages)
        for place, (text, record) in self.changed_texts(result).items():
            out[place] = replace_message_text(out[place], text, record)
        last = self.positions[-1]
        if result.fallback and out[last] is self.messages[last]:
            asked = self.passages[-1]
            out[last] = record_on_message(
                out[last],
                passage_record(asked, {asked.id: asked}, result, detail="spans"),
            )
        return out

    def changed_texts(
        self, result: DenoiseResult
    ) -> dict[int, tuple[str, dict[str, Any]]]:
        """The new text of each message that changed, by place, with the record of what was done."""
        given = {p.id: p for p in self.passages}
        kept = {p.id: p for p in result.passages}
        changed: dict[int, tuple[str, dict[str, Any]]] = {}
        for place, passage in zip(self.positions, self.passages):
            left = kept.get(passage.id)
            if place == self.positions[-1]:
                text = self._asked(
                    left.text.strip() if left else "", result.query.strip()
                )
            else:
                text = (
                    left.text.strip() if left and left.text.strip() else OMITTED_MESSAGE
                )
            if text != passage.text.strip():
                record = passage_record(
                    left or Passage("", passage.id, is_rewritten=True),
                    given,
                    result,
                    detail="spans",
                )
                changed[place] = text, {**record, "original": passage.text}
        return changed

    def _asked(self, context: str, question: str) -> str:
        """The last message anew; as it was when what was written does not ask the user's question any more."""
        original = self.question.strip()
        if question != original and self.variant in EXTRACTIVE:
            return question
        if self.variant in EXTRACTIVE:
            return original if same_question(original, context) else context
        if question == original:
            return original
        if _plain(question) in _plain(context):
            return context
        return f"{context}\n\n{question}".strip()


def _plain(text: str) -> str:
    return " ".join(text.casefold().split())


def replace_message_text(
    message: BaseMessage, text: str, record: dict[str, Any]
) -> BaseMessage:
    """A copy of the message with other text; images and the like stay in place, the record goes beside it."""
    content: Any = (
        text
        if isinstance(message.content, str)
        else _blocks(message.content, text, record)
    )
    return record_on_message(message.model_copy(update={"content": content}), record)


def record_on_message(message: BaseMessage, record: dict[str, Any]) -> BaseMessage:
    """A copy of the message with the record beside its content."""
    return message.model_copy(
        update={"response_metadata": {**message.response_metadata, RECORD_KEY: record}}
    )


def _blocks(content: list[Any], text: str, record: Mapping[str, Any]) -> list[Any]:
    """The content blocks with other text in them, in their order, with all that stood in a block beside its text.

    Text that is the message's own characters stays in the block that each part came from; text written anew stands
    in the first one. A block left without text goes, and hands its ``cache_control`` to the block before it.
    """
    own = [block_text(b) for b in content]
    parts = _parts([t for t in own if t is not None], text, record)
    out: list[Any] = []
    for block, was in zip(content, own, strict=True):
        if was is None:
            out.append(block)
            continue
        left = next(parts)
        if left.strip():
            out.append(left if isinstance(block, str) else {**block, "text": left})
        elif (
            isinstance(block, dict)
            and "cache_control" in block
            and out
            and isinstance(out[-1], dict)
        ):
            out[-1] = {**out[-1], "cache_control": block["cache_control"]}
    return out


def _parts(own: Sequence[str], text: str, record: Mapping[str, Any]) -> Iterator[str]:
    """What stands in each text block: its share of the kept ranges, or all of a new text in the first."""
    whole = "".join(own)
    ranges = [r for found in record["spans"].values() for r in found]
    cut = "".join(whole[a:b] for a, b in ranges)
    if not record["extractive"] or cut.strip() != text:
        yield text
        yield from ("" for _ in own[1:])
        return
    start = 0
    for piece in own:
        end = start + len(piece)
        yield "".join(
            whole[max(a, start) : min(b, end)]
            for a, b in ranges
            if a < end and b > start
        )
        start = end
