"""A tool's message as texts or documents, and the message with what is kept of them."""

from __future__ import annotations

import operator
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

from langchain_core.documents import Document
from langchain_core.messages import ToolMessage

from denoise_core import DenoiseResult
from denoise_core.runtime.fallbacks import log_fallback
from denoise_core.runtime.record import short_id
from denoise_core.text.json_spans import load_json
from denoise_core.text.omissions import omission_note
from denoise_core.tool_results import (
    EMPTY_RESULT_TEXT,
    OmittedText,
    Pin,
    ToolResult,
    count_characters,
    read_pin,
    read_result,
)
from langchain_denoise.convert.documents import (
    FALLBACK_KEY,
    id_from_text,
    read_document_list,
    unique_document_ids,
)
from langchain_denoise.convert.history import record_on_message, with_view
from langchain_denoise.observe import Record

CutPlace: TypeAlias = Literal["view", "state"]
DenoisedMessage: TypeAlias = tuple[ToolMessage, tuple[OmittedText, ...]]


@dataclass(frozen=True, slots=True)
class MessageCut:
    """How a tool's message becomes shorter.

    Attributes:
        where: Whether the message in the state becomes shorter, or only what the model
            reads of it.
        has_recall: Whether notes name the id of what is left out.
        must_keep: What is always shown.
        hard_cap: Characters of any message, whatever was kept of it.
    """

    where: CutPlace
    has_recall: bool
    must_keep: Pin | None
    hard_cap: int

    def is_too_long(self, content: Any) -> bool:
        """Whether the content has more characters than any message may have."""
        return count_characters(content) > self.hard_cap

    def cap_message(self, message: ToolMessage) -> DenoisedMessage:
        """The message with the head and the tail of its content, if that is too long."""
        if not self.is_too_long(message.content):
            return message, ()
        result = read_result(message.content, must_keep=self.must_keep)
        reduced = result.cap(self.hard_cap, has_recall=self.has_recall)
        changed_message = self.change_message(
            message,
            reduced.value,
            message.artifact,
            {"left_out": len(reduced.omitted_texts)},
        )
        return changed_message, reduced.omitted_texts

    def change_message(
        self, message: ToolMessage, content: Any, artifact: Any, record: Record
    ) -> ToolMessage:
        """The message with other content, in the state or for the model alone."""
        record = {**record, "characters_after": count_characters(content)}
        changed_message = record_on_message(message, record)
        if self.where == "state":
            return changed_message.model_copy(
                update={"content": content, "artifact": artifact}
            )
        if content == message.content:
            return changed_message
        return with_view(changed_message, content)


@dataclass(frozen=True, slots=True)
class ToolText:
    """The texts of one message's content."""

    message: ToolMessage
    content: ToolResult

    @property
    def characters(self) -> int:
        """Characters of all texts."""
        return self.content.characters

    def denoise_input(self, query: str) -> Record:
        """The input for `DenoiseCompressor.denoise_texts`."""
        return {"texts": self.content.passages, "query": query}

    def apply_result(self, result: DenoiseResult, cut: MessageCut) -> DenoisedMessage:
        """The message with what the result keeps, and the texts its content lost."""
        reduced = self.content.reduce(result, has_recall=cut.has_recall)
        if cut.is_too_long(reduced.value):
            # Cut again, what was kept would count itself instead of the tool's result.
            reduced = self.content.cap(
                cut.hard_cap, has_recall=cut.has_recall, result=result
            )
        record = {
            "fallback": result.fallback,
            "note": result.note,
            "left_out": len(reduced.omitted_texts),
            "characters_before": self.characters,
        }
        message = cut.change_message(
            self.message, reduced.value, self.message.artifact, record
        )
        return message, reduced.omitted_texts


@dataclass(frozen=True, slots=True)
class ToolDocuments:
    """The documents that a tool kept in its artifact, which its content shows."""

    message: ToolMessage
    documents: Sequence[Document]

    @property
    def characters(self) -> int:
        """Characters of the content that shows the documents."""
        return count_characters(self.message.content)

    def denoise_input(self, query: str) -> Record:
        """The input for `DenoiseCompressor.denoise_texts`."""
        return {"documents": self.documents, "query": query}

    def apply_result(
        self, kept_documents: Sequence[Document], cut: MessageCut
    ) -> DenoisedMessage:
        """The message with what is kept of each document, in its position.

        A content that does not show the documents' texts, such as their ids alone, or
        shows them in JSON, is unchanged, and so are the documents.
        """
        message = self.message
        shown_documents = self._shown_documents(kept_documents, cut.must_keep)
        new_texts = [
            None if document is None else document.page_content
            for document in shown_documents
        ]
        originals = [document.page_content for document in self.documents]
        omitted_texts = [
            before
            for before, after in zip(originals, new_texts, strict=True)
            if before != after
        ]
        content: Any = message.content
        artifact = message.artifact
        omitted: tuple[OmittedText, ...] = ()
        if omitted_texts:
            omitted_text = "\n\n".join(omitted_texts)
            omitted_id = str(id_from_text(omitted_text))
            recall_id = omitted_id if cut.has_recall else ""
            short_content = _shorten_content(content, originals, new_texts, recall_id)
            if len(short_content) < len(content):
                content = short_content
                artifact = [item for item in shown_documents if item is not None]
                omitted = (OmittedText(omitted_id, omitted_text),)
        if cut.is_too_long(content):
            return cut.cap_message(message)
        fallbacks = [document.metadata.get(FALLBACK_KEY) for document in kept_documents]
        record: Record = {
            "given": len(self.documents),
            "kept": len(artifact),
            "fallback": next(filter(None, fallbacks), None),
            "characters_before": self.characters,
        }
        return cut.change_message(message, content, artifact, record), omitted

    def _shown_documents(
        self, kept_documents: Sequence[Document], must_keep: Pin | None
    ) -> list[Document | None]:
        """What is kept of each document; None for one that was dropped.

        All documents are kept when one text was rewritten from several.
        """
        kept_by_id = {}
        for document in kept_documents:
            origin = document.metadata.get("denoise_origin", document.id)
            kept_by_id[short_id(str(origin))] = document
        is_pinned = read_pin(must_keep)
        shown_documents = []
        for document_id, document in zip(
            unique_document_ids(self.documents), self.documents, strict=True
        ):
            shown = kept_by_id.pop(short_id(document_id), None)
            if is_pinned is not None and is_pinned(document.page_content):
                shown = document
            shown_documents.append(shown)
        if kept_by_id:
            log_fallback(
                "DenoiseToolResults",
                "a text was rewritten from several documents of a tool",
                "the input was kept as it is",
            )
            return list(self.documents)
        return shown_documents


def parse_tool_message(
    message: ToolMessage, cut: MessageCut
) -> ToolText | ToolDocuments | None:
    """The texts or documents of a tool's message; None if it has neither."""
    documents = read_document_list(message.artifact)
    if documents is not None:
        # Only a content that is one text can be cut: others cost no call.
        is_text = isinstance(message.content, str)
        return ToolDocuments(message, documents) if is_text else None
    content = read_result(message.content, must_keep=cut.must_keep)
    return ToolText(message, content) if content.passages else None


def _shorten_content(
    content: str,
    originals: Sequence[str],
    new_texts: Sequence[str | None],
    recall_id: str,
) -> str:
    """The content with the new texts and a note; unchanged if it has other texts.

    Args:
        content: What a tool returned.
        originals: The texts of its documents.
        new_texts: What is kept of each; None for one that was dropped.
        recall_id: The id in the note, or "".
    """
    new_content = None
    if not isinstance(load_json(content), dict | list):
        new_content = replace_texts(content, originals, new_texts)
    if new_content is None:
        log_fallback(
            "DenoiseToolResults",
            "its content may show words of one document with another",
            "a result with documents was kept as it is",
        )
        return content
    dropped = new_texts.count(None)
    shortened = sum(map(operator.ne, originals, new_texts)) - dropped
    note = omission_note(len(originals), dropped, "documents", recall_id)
    if shortened:
        note += f"; {shortened} shortened"
    note = f"[{note}]"
    if dropped == len(originals):
        note = f"{EMPTY_RESULT_TEXT}\n{note}"
    return "\n\n".join((new_content.rstrip("\n"), note)).lstrip("\n")


def replace_texts(
    content: str, originals: Sequence[str], replacements: Sequence[str | None]
) -> str | None:
    r"""``content`` with each original replaced; None removes it, heading and trailer too.

    Originals are searched one after the other. None if one is missing, as in a content
    that shows the documents in another order, if one is in a heading too, or if it is
    unknown to which of two neighbours, or to which empty text, the words between belong.

    >>> content = "1: aa\n2: bb\n3: cc\n"
    >>> replace_texts(content, ["aa", "bb", "cc"], ["a", None, "cc"])
    '1: a\n3: cc\n'
    """
    gaps = []
    end = 0
    for original in originals:
        start = content.find(original, end)
        if start < 0:
            return None
        gaps.append(content[end:start])
        end = start + len(original)
    gaps.append(content[end:])
    gap_text = "\n".join(gaps)
    has_words = any(map(str.isalnum, gap_text))
    if has_words and any(original in gap_text for original in originals):
        return None
    trailer_length = _trailer_length(gaps) if None in replacements else 0
    if trailer_length is None:
        return None
    heading, *next_gaps = gaps
    new_content = ""
    if None in replacements[:1]:
        # Paragraphs before the first heading belong to all documents.
        next_heading = next_gaps[0][trailer_length:].lstrip("\n -=*")
        paragraphs = heading.split("\n\n")
        new_content = "\n\n".join(paragraphs[: -1 - next_heading.count("\n\n")])
    for gap, text in zip(next_gaps, replacements, strict=True):
        if text is not None:
            new_content += heading + text + gap[:trailer_length]
        heading = gap[trailer_length:]
    return new_content + heading


def _trailer_length(gaps: Sequence[str]) -> int | None:
    """How much of what is after a text belongs to it; the rest is the next one's heading.

    A tool shows all documents alike: without words before the first text none has a
    heading, and without words after the last one none has a trailer. None if words
    between two texts may be of either.
    """
    before, *between, after = gaps
    has_headings = before.strip()
    trailer = after.rstrip()
    if (
        has_headings
        and between
        and all(gap.startswith(f"{trailer}\n") for gap in between)
    ):
        return len(trailer)
    if not any(map(str.isalnum, "".join(between))):
        return 0
    # Without headings, equal words such as "<hr>" separate the texts.
    if not trailer and (has_headings or len(set(between)) == 1):
        return 0
    # A second paragraph after the last text may belong to all.
    if has_headings or not trailer or "\n\n" in trailer.strip():
        return None
    return sys.maxsize
