"""A tool's message as texts or documents, and the message with what is kept of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

from langchain_core.documents import Document
from langchain_core.messages import ToolMessage

from denoise_core import DenoiseResult
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
from langchain_denoise.convert.chain_values import artifact_documents
from langchain_denoise.convert.documents import FALLBACK_KEY, unique_document_ids
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

    def cap_message(
        self, message: ToolMessage, content: Any, artifact: Any, record: Record
    ) -> DenoisedMessage:
        """The message with other content, which is capped first."""
        omitted: tuple[OmittedText, ...] = ()
        if self.hard_cap is not None:
            name = f"{_result_name(message)}-cap"
            result = read_result(content, name=name, must_keep=self.must_keep)
            cap_result = result.cap(self.hard_cap, has_recall=self.has_recall)
            content = cap_result.value
            omitted = cap_result.omitted_texts
        if omitted:
            record = {**record, "capped": len(omitted)}
        is_unchanged = content == message.content and artifact is message.artifact
        if is_unchanged and not record:
            return message, ()
        record = {**record, "characters_after": _count_characters(content)}
        changed_message = record_on_message(message, record)
        if self.where == "state":
            update = {"content": content, "artifact": artifact}
            changed_message = changed_message.model_copy(update=update)
        elif content != message.content:
            changed_message = with_view(changed_message, content)
        return changed_message, omitted


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
        record = {
            "fallback": result.fallback,
            "note": result.note,
            "left_out": len(reduced.omitted_texts),
            "characters_before": self.characters,
        }
        artifact = self.message.artifact
        message, cap_texts = cut.cap_message(
            self.message, reduced.value, artifact, record
        )
        return message, reduced.omitted_texts + cap_texts


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
        kept_texts = self._kept_texts(kept_documents)
        is_pinned = read_pin(cut.must_keep)
        for n, document in enumerate(self.documents):
            if is_pinned is not None and is_pinned(document.page_content):
                kept_texts[n] = document.page_content
        text_id = f"{_result_name(self.message)}1"
        recall_id = ""
        if cut.has_recall:
            recall_id = text_id
        note = self._omission_note(kept_texts, recall_id)
        fallbacks = []
        for document in kept_documents:
            fallbacks.append(document.metadata.get(FALLBACK_KEY))
        kept_count = 0
        for kept_text in kept_texts:
            kept_count += kept_text is not None
        record = {
            "given": len(self.documents),
            "kept": kept_count,
            "fallback": next(filter(None, fallbacks), None),
            "characters_before": self.characters,
        }
        content = None
        if note:
            content = self._replace_content(kept_texts, note)
        if content is None or _count_characters(content) >= self.characters:
            record["kept"] = len(self.documents)
            artifact = self.message.artifact
            return cut.cap_message(self.message, self.message.content, artifact, record)
        shown_documents = self._shown_documents(kept_documents, kept_texts)
        message, cap_texts = cut.cap_message(
            self.message, content, shown_documents, record
        )
        omitted = OmittedText(text_id, self._omitted_text(kept_texts))
        return message, (omitted, *cap_texts)

    def _omission_note(self, kept_texts: Sequence[str | None], recall_id: str) -> str:
        """What the content says about documents that were dropped or shortened."""
        dropped_count = 0
        shortened_count = 0
        for document, kept_text in zip(self.documents, kept_texts, strict=True):
            dropped_count += kept_text is None
            shortened_count += kept_text not in (None, document.page_content)
        if not dropped_count and not shortened_count:
            return ""
        note = omission_note(len(self.documents), dropped_count, "documents", recall_id)
        if shortened_count:
            note += f"; {shortened_count} shortened"
        return f"[{note}]"

    def _omitted_text(self, kept_texts: Sequence[str | None]) -> str:
        """The whole text of each document that was dropped or shortened."""
        texts = []
        for document, kept_text in zip(self.documents, kept_texts, strict=True):
            if kept_text != document.page_content:
                texts.append(document.page_content)
        return _join_paragraphs(texts)

    def _shown_documents(
        self, kept_documents: Sequence[Document], kept_texts: Sequence[str | None]
    ) -> list[Document]:
        """The kept documents, with pinned ones as they were."""
        shown_texts = {document.page_content for document in kept_documents}
        pinned_documents = []
        for document, kept_text in zip(self.documents, kept_texts, strict=True):
            is_whole = kept_text == document.page_content
            if is_whole and kept_text not in shown_texts:
                pinned_documents.append(document)
        return [*kept_documents, *pinned_documents]

    def _kept_texts(self, kept_documents: Sequence[Document]) -> list[str | None]:
        """The kept text of each document; None for one that was dropped."""
        document_ids = []
        for unique_id in unique_document_ids(self.documents):
            document_ids.append(short_id(unique_id))
        kept_texts: list[str | None] = [None] * len(self.documents)
        joint_texts: list[str] = []
        for document in kept_documents:
            origin = document.metadata.get("denoise_origin", document.id)
            origin_id = short_id(str(origin))
            if origin_id in document_ids:
                position = document_ids.index(origin_id)
                kept_texts[position] = document.page_content
            else:
                joint_texts.append(document.page_content)
        if joint_texts:
            # One text rewritten from several documents goes to the first position.
            kept_texts[0] = _join_paragraphs([*joint_texts, kept_texts[0] or None])
        return kept_texts

    def _replace_content(
        self, kept_texts: Sequence[str | None], note: str
    ) -> str | None:
        """The content with other texts and the note; None if it does not show them."""
        content = self.message.content
        if not isinstance(content, str):
            return None
        originals = []
        for document in self.documents:
            originals.append(document.page_content)
        new_content = replace_texts(content, originals, kept_texts)
        if new_content is None:
            return None
        if not any(text is not None for text in kept_texts):
            note = f"{EMPTY_RESULT_TEXT}\n{note}"
        return f"{new_content}\n\n{note}".lstrip("\n")


def parse_tool_message(
    message: ToolMessage, cut: MessageCut
) -> ToolText | ToolDocuments | None:
    """The texts or documents of a tool's message; None if it has neither."""
    documents = artifact_documents(message)
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
    is_first_kept = bool(replacements) and replacements[0] is not None
    if is_first_kept:
        return new_content
    return new_content.lstrip("\n")


def _join_paragraphs(texts: Sequence[str | None]) -> str:
    paragraphs = []
    for text in texts:
        if text is not None:
            paragraphs.append(text)
    return "\n\n".join(paragraphs)


def _result_name(message: ToolMessage) -> str:
    """A short name of the message's result, from which its recall ids are made."""
    return str(message.tool_call_id)[-8:] or "result"


def _count_characters(content: Any) -> int:
    """Characters of the text blocks."""
    characters = 0
    for block in [content] if isinstance(content, str) else content:
        characters += len(block_text(block) or "")
    return characters
