"""A tool's message as texts or documents, and the message with what is kept of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from langchain_core.documents import Document
from langchain_core.messages import ToolMessage

from denoise_core import DenoiseResult
from denoise_core.runtime.record import RECORD_KEY, short_id
from denoise_core.tool_results import (
    EMPTY_RESULT_TEXT,
    OmittedText,
    ToolResult,
    omission_notice,
    read_result,
)
from langchain_denoise.convert.chain_values import artifact_documents
from langchain_denoise.convert.documents import FALLBACK_KEY, unique_document_ids
from langchain_denoise.convert.messages import block_text
from langchain_denoise.observe import Record

# Where MCP adapters put the structured result in an artifact.
STRUCTURED_KEYS = ("structured_content", "structuredContent")

DenoisedMessage: TypeAlias = tuple[ToolMessage, tuple[OmittedText, ...]]


@dataclass(frozen=True, slots=True)
class ToolText:
    """The texts of one message: its content, and the structured content it carries."""

    message: ToolMessage
    content: ToolResult
    structured: Mapping[str, ToolResult]

    @staticmethod
    def from_message(message: ToolMessage) -> ToolText:
        """The texts of a tool's message."""
        name = str(message.tool_call_id)[-8:] or "result"
        artifact = message.artifact if isinstance(message.artifact, Mapping) else {}
        structured = {}
        for key in STRUCTURED_KEYS:
            if artifact.get(key):
                structured[key] = read_result(artifact[key], name=f"{name}-{key[0]}")
        content = read_result(message.content, name=name)
        return ToolText(message, content, structured)

    @property
    def parts(self) -> tuple[ToolResult, ...]:
        """Content and structured contents; each is denoised alone, as they repeat."""
        return (self.content, *self.structured.values())

    def denoise_inputs(self, query: str) -> list[Record]:
        """The inputs for `DenoiseCompressor.denoise_texts`: one for each of `parts`."""
        return [{"texts": part.passages, "query": query} for part in self.parts]

    def apply_results(
        self, results: Sequence[DenoiseResult], recall: bool = False
    ) -> DenoisedMessage:
        """The message with what each result keeps, and the texts its content lost.

        Args:
            results: One result for each of `parts`.
            recall: List the ids of the omitted texts at the end of the content.
        """
        # The first result belongs to the content, as in `parts`.
        result, *structured_results = results
        content = _without_empty_blocks(self.content.restore(result))
        if not content:
            content = _empty_content(self.message)
        omitted = self.content.omitted_texts(result)
        if recall and omitted:
            content = _append_text(content, omission_notice(omitted))
        record = {
            "fallback": result.fallback,
            "note": result.note,
            "left_out": len(omitted),
            "characters_before": self.content.characters,
            "characters_after": _count_characters(content),
        }
        artifact = self.message.artifact
        pairs = zip(self.structured.items(), structured_results, strict=True)
        for (key, part), part_result in pairs:
            artifact = {**artifact, key: part.restore(part_result)}
        return _updated_message(self.message, content, artifact, record), omitted


@dataclass(frozen=True, slots=True)
class ToolDocuments:
    """The documents that a tool kept in its artifact, which its content shows."""

    message: ToolMessage
    documents: tuple[Document, ...]

    def denoise_inputs(self, query: str) -> list[Record]:
        """The input for `DenoiseCompressor.denoise_texts`."""
        return [{"documents": self.documents, "query": query}]

    def apply_results(
        self, results: Sequence[Sequence[Document]], recall: bool = False
    ) -> DenoisedMessage:
        """The message with what is kept of each document, in its position.

        Documents that the content does not show are joined. Nothing can be recalled.
        """
        kept_documents = list(results[0])
        content = self._replace_content(self._kept_texts(kept_documents))
        fallbacks = [document.metadata.get(FALLBACK_KEY) for document in kept_documents]
        record = {
            "given": len(self.documents),
            "kept": len(kept_documents),
            "fallback": next(filter(None, fallbacks), None),
            "characters_before": len(str(self.message.text)),
            "characters_after": _count_characters(content),
        }
        return _updated_message(self.message, content, kept_documents, record), ()

    def _kept_texts(self, kept_documents: Sequence[Document]) -> list[str | None]:
        """The kept text of each document; None for one that was dropped."""
        document_ids = [short_id(name) for name in unique_document_ids(self.documents)]
        kept_texts: list[str | None] = [None] * len(self.documents)
        joint_texts: list[str] = []
        for document in kept_documents:
            origin = document.metadata.get("denoise_origin", document.id)
            origin_id = short_id(str(origin))
            if origin_id in document_ids:
                kept_texts[document_ids.index(origin_id)] = document.page_content
            else:
                joint_texts.append(document.page_content)
        if joint_texts:
            # One text rewritten from several documents goes to the first position.
            kept_texts[0] = _join_paragraphs([*joint_texts, kept_texts[0] or None])
        return kept_texts

    def _replace_content(self, kept_texts: Sequence[str | None]) -> Any:
        texts = _texts_by_position(self.message.content)
        block_of_document = [self._find_block(item, texts) for item in self.documents]
        new_texts: dict[int, str] = {}
        for position, text in texts.items():
            originals = []
            replacements = []
            for document, shown_at, kept_text in zip(
                self.documents, block_of_document, kept_texts
            ):
                if shown_at == position:
                    originals.append(document.page_content)
                    replacements.append(kept_text)
            if originals:
                new_texts[position] = replace_texts(text, originals, replacements)
            elif None in block_of_document:
                new_texts[position] = _join_paragraphs(kept_texts)
        content = self.message.content
        if isinstance(content, str):
            return new_texts.get(0, content) or EMPTY_RESULT_TEXT
        return _replace_blocks(content, new_texts) or _empty_content(self.message)

    @staticmethod
    def _find_block(document: Document, texts: Mapping[int, str]) -> int | None:
        for position, text in texts.items():
            if document.page_content in text:
                return position
        return None


def parse_tool_message(message: ToolMessage) -> ToolText | ToolDocuments | None:
    """The texts or documents of a tool's message; None if it has neither."""
    documents = artifact_documents(message)
    if documents is not None:
        return ToolDocuments(message, tuple(documents))
    text = ToolText.from_message(message)
    return text if any(part.passages for part in text.parts) else None


def replace_texts(
    content: str, originals: Sequence[str], replacements: Sequence[str | None]
) -> str:
    r"""``content`` with each original replaced; None removes it with its heading.

    Originals are searched one after the other. If one is missing, as in a content that
    does not show the documents' text, the replacements are joined by blank lines instead.

    >>> content = "1: aa\n2: bb\n3: cc\n"
    >>> replace_texts(content, ["aa", "bb", "cc"], ["a", None, "cc"])
    '1: a\n3: cc\n'
    """
    new_content = ""
    end = 0
    for original, replacement in zip(originals, replacements, strict=True):
        start = content.find(original, end)
        if start < 0:
            return _join_paragraphs(replacements)
        if replacement is not None:
            new_content += content[end:start] + replacement
        end = start + len(original)
    new_content += content[end:]
    is_first_kept = bool(replacements) and replacements[0] is not None
    return new_content if is_first_kept else new_content.lstrip("\n")


def _join_paragraphs(texts: Sequence[str | None]) -> str:
    return "\n\n".join(text for text in texts if text is not None)


def _replace_blocks(content: list[Any], new_texts: Mapping[int, str]) -> list[Any]:
    new_content: list[Any] = []
    for position, block in enumerate(content):
        new_text = new_texts.get(position)
        if new_text is None:
            new_content.append(block)
        elif new_text.strip():
            is_text_only = isinstance(block, str)
            new_content.append(
                new_text if is_text_only else {**block, "text": new_text}
            )
    return new_content


def _without_empty_blocks(content: Any) -> Any:
    if isinstance(content, str):
        return content if content.strip() else ""
    blocks = []
    for block in content:
        text = block_text(block)
        if text is None or text.strip():
            blocks.append(block)
    return blocks


def _empty_content(message: ToolMessage) -> Any:
    if isinstance(message.content, str):
        return EMPTY_RESULT_TEXT
    return [{"type": "text", "text": EMPTY_RESULT_TEXT}]


def _append_text(content: Any, text: str) -> Any:
    if isinstance(content, list):
        return [*content, {"type": "text", "text": text}]
    return f"{content}\n\n{text}"


def _updated_message(
    message: ToolMessage, content: Any, artifact: Any, record: Record
) -> ToolMessage:
    metadata = {**message.response_metadata, RECORD_KEY: record}
    update = {"content": content, "artifact": artifact, "response_metadata": metadata}
    return message.model_copy(update=update)


def _count_characters(content: Any) -> int:
    return sum(map(len, _texts_by_position(content).values()))


def _texts_by_position(content: Any) -> dict[int, str]:
    """The texts of the text blocks, by position."""
    texts = {}
    for position, block in enumerate(
        [content] if isinstance(content, str) else content
    ):
        text = block_text(block)
        if text is not None:
            texts[position] = text
    return texts
