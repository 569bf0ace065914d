"""A tool's message as texts or documents, and the message with what is kept of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

from langchain_core.documents import Document
from langchain_core.messages import ToolMessage

from denoise_core import DenoiseResult
from denoise_core.runtime.fallbacks import log_fallback
from denoise_core.runtime.record import short_id
from denoise_core.text.omissions import omission_note
from denoise_core.tool_results import (
    EMPTY_RESULT_TEXT,
    OmittedText,
    Pin,
    ToolResult,
    read_pin,
    read_result,
)
from langchain_denoise.convert.documents import (
    FALLBACK_KEY,
    read_document_list,
    unique_document_ids,
)
from langchain_denoise.convert.history import record_on_message, with_view
from langchain_denoise.convert.messages import block_text
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

    where: CutPlace = "view"
    has_recall: bool = False
    must_keep: Pin | None = None
    hard_cap: int | None = None

    def is_too_long(self, content: Any) -> bool:
        """Whether the content has more characters than any message may have."""
        return self.hard_cap is not None and _count_characters(content) > self.hard_cap

    def cap_message(self, message: ToolMessage) -> DenoisedMessage:
        """The message with the head and the tail of its content, if that is too long."""
        if self.hard_cap is None or not self.is_too_long(message.content):
            return message, ()
        name = f"{_result_name(message)}-cap"
        result = read_result(message.content, name=name, must_keep=self.must_keep)
        reduced = result.cap(self.hard_cap, has_recall=self.has_recall)
        record = {"left_out": len(reduced.omitted_texts)}
        changed_message = self.change_message(
            message, reduced.value, message.artifact, record
        )
        return changed_message, reduced.omitted_texts

    def change_message(
        self, message: ToolMessage, content: Any, artifact: Any, record: Record
    ) -> ToolMessage:
        """The message with other content, in the state or for the model alone."""
        record = {**record, "characters_after": _count_characters(content)}
        changed_message = record_on_message(message, record)
        if self.where == "state":
            update = {"content": content, "artifact": artifact}
            return changed_message.model_copy(update=update)
        if content == message.content:
            return changed_message
        return with_view(changed_message, content)


@dataclass(frozen=True, slots=True)
class ToolText:
    """The texts of one message's content."""

    message: ToolMessage
    content: ToolResult

    @staticmethod
    def from_message(message: ToolMessage, cut: MessageCut) -> ToolText:
        """The texts of a tool's message."""
        name = _result_name(message)
        content = read_result(message.content, name=name, must_keep=cut.must_keep)
        return ToolText(message, content)

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
        if cut.hard_cap is not None and cut.is_too_long(reduced.value):
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
    documents: tuple[Document, ...]

    @property
    def characters(self) -> int:
        """Characters of the content that shows the documents."""
        return _count_characters(self.message.content)

    def denoise_input(self, query: str) -> Record:
        """The input for `DenoiseCompressor.denoise_texts`."""
        return {"documents": self.documents, "query": query}

    def apply_result(
        self, kept_documents: Sequence[Document], cut: MessageCut
    ) -> DenoisedMessage:
        """The message with what is kept of each document, in its position.

        A content that does not show the documents' texts, such as their ids alone, is
        unchanged, and so are the documents.
        """
        shown_documents = self._shown_documents(kept_documents, cut.must_keep)
        fallbacks = [document.metadata.get(FALLBACK_KEY) for document in kept_documents]
        record: Record = {
            "given": len(self.documents),
            "kept": len(self.documents),
            "fallback": next(filter(None, fallbacks), None),
            "characters_before": self.characters,
        }
        name = f"{_result_name(self.message)}1"
        omitted_texts = []
        for document, shown in zip(self.documents, shown_documents, strict=True):
            if shown is None or shown.page_content != document.page_content:
                omitted_texts.append(document.page_content)
        recall_id = name if cut.has_recall else ""
        content = None
        if omitted_texts:
            content = self._shorten_content(
                shown_documents, len(omitted_texts), recall_id
            )
        if cut.is_too_long(self.message.content if content is None else content):
            return cut.cap_message(self.message)
        message = self.message
        if content is None or len(content) >= self.characters:
            unchanged = cut.change_message(
                message, message.content, message.artifact, record
            )
            return unchanged, ()
        artifact = [document for document in shown_documents if document is not None]
        record["kept"] = len(artifact)
        shortened = cut.change_message(message, content, artifact, record)
        return shortened, (OmittedText(name, "\n\n".join(omitted_texts)),)

    def _shown_documents(
        self, kept_documents: Sequence[Document], must_keep: Pin | None
    ) -> list[Document | None]:
        """What is kept of each document; None for one that was dropped.

        All documents are kept when one text was rewritten from several.
        """
        kept_by_id: dict[str, Document] = {}
        for document in kept_documents:
            origin = document.metadata.get("denoise_origin", document.id)
            kept_by_id[short_id(str(origin))] = document
        is_pinned = read_pin(must_keep)
        shown_documents: list[Document | None] = []
        document_ids = unique_document_ids(self.documents)
        for document_id, document in zip(document_ids, self.documents, strict=True):
            shown = kept_by_id.pop(short_id(document_id), None)
            if is_pinned is not None and is_pinned(document.page_content):
                shown = document
            shown_documents.append(shown)
        if kept_by_id:
            problem = "a text was rewritten from several documents of a tool"
            log_fallback("DenoiseToolResults", problem, "the input was kept as it is")
            return list(self.documents)
        return shown_documents

    def _shorten_content(
        self, shown_documents: Sequence[Document | None], changed: int, recall_id: str
    ) -> str | None:
        """The content with the shown texts and a note; None if it has other texts.

        Args:
            shown_documents: What is kept of each document.
            changed: How many documents were dropped or shortened.
            recall_id: The id in the note, or "".
        """
        originals = [document.page_content for document in self.documents]
        new_texts = []
        for document in shown_documents:
            new_texts.append(None if document is None else document.page_content)
        content = replace_texts(str(self.message.content), originals, new_texts)
        if content is None:
            return None
        dropped = new_texts.count(None)
        note = omission_note(len(originals), dropped, "documents", recall_id)
        if changed > dropped:
            note += f"; {changed - dropped} shortened"
        note = f"[{note}]"
        if dropped == len(originals):
            note = f"{EMPTY_RESULT_TEXT}\n{note}"
        return f"{content}\n\n{note}".lstrip("\n")


def parse_tool_message(
    message: ToolMessage, cut: MessageCut
) -> ToolText | ToolDocuments | None:
    """The texts or documents of a tool's message; None if it has neither."""
    documents = read_document_list(message.artifact)
    if documents is not None:
        # Only a content that is one text can be cut: others cost no call.
        is_text = isinstance(message.content, str)
        return ToolDocuments(message, tuple(documents)) if is_text else None
    text = ToolText.from_message(message, cut)
    return text if text.content.passages else None


def replace_texts(
    content: str, originals: Sequence[str], replacements: Sequence[str | None]
) -> str | None:
    r"""``content`` with each original replaced; None removes it with its heading.

    Originals are searched one after the other. None if one is missing, as in a content
    that shows the documents in another order.

    >>> content = "1: aa\n2: bb\n3: cc\n"
    >>> replace_texts(content, ["aa", "bb", "cc"], ["a", None, "cc"])
    '1: a\n3: cc\n'
    """
    new_content = ""
    end = 0
    for original, replacement in zip(originals, replacements, strict=True):
        start = content.find(original, end)
        if start < 0:
            return None
        heading = content[end:start]
        if replacement is not None:
            new_content += heading + replacement
        elif not end:
            # What is before the first heading belongs to all documents.
            paragraph_end = heading.rfind("\n\n") + 1
            new_content += heading[:paragraph_end].rstrip()
        end = start + len(original)
    new_content += content[end:]
    is_first_dropped = not replacements or replacements[0] is None
    return new_content.lstrip("\n") if is_first_dropped else new_content


def _result_name(message: ToolMessage) -> str:
    """A short name of the message's result, from which its recall ids are made."""
    return str(message.tool_call_id)[-8:] or "result"


def _count_characters(content: Any) -> int:
    """Characters of the text blocks."""
    characters = 0
    for block in [content] if isinstance(content, str) else content:
        characters += len(block_text(block) or "")
    return characters
