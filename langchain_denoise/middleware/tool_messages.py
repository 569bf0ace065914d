"""A tool's message as texts and documents, and the message again from what is left of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

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

STRUCTURED_KEYS = (
    "structured_content",
    "structuredContent",
)  # where MCP adapters put the structured result


@dataclass(frozen=True, slots=True)
class ToolText:
    """The texts of one message: those of its content, and those of the structured content in its artifact."""

    message: ToolMessage
    content: ToolResult
    structured: Mapping[str, ToolResult]

    @staticmethod
    def from_message(message: ToolMessage) -> ToolText:
        name = str(message.tool_call_id)[-8:] or "result"
        artifact = message.artifact if isinstance(message.artifact, Mapping) else {}
        structured = {
            key: read_result(artifact[key], name=f"{name}-{key[0]}")
            for key in STRUCTURED_KEYS
            if artifact.get(key)
        }
        return ToolText(message, read_result(message.content, name=name), structured)

    @property
    def parts(self) -> tuple[ToolResult, ...]:
        """Content and structured contents: one says the other again, so each is denoised by itself."""
        return (self.content, *self.structured.values())

    def denoise_inputs(self, query: str) -> list[dict[str, Any]]:
        """What a compressor is asked for it: one question each of `parts`."""
        return [{"texts": part.passages, "query": query} for part in self.parts]

    def apply_results(
        self, each: Sequence[DenoiseResult], recall: bool = False
    ) -> tuple[ToolMessage, tuple[OmittedText, ...]]:
        """The message with what is left of each of `parts` in its place, and what its content lost; with
        ``recall`` the ids of such parts stand at the end."""
        found = each[0]
        content = self.content.restore(found)
        if isinstance(content, list):
            content = [b for b in content if (t := block_text(b)) is None or t.strip()]
        if not content or not (isinstance(content, list) or content.strip()):
            content = (
                EMPTY_RESULT_TEXT
                if isinstance(self.message.content, str)
                else [{"type": "text", "text": EMPTY_RESULT_TEXT}]
            )
        gone = self.content.omitted_texts(found)
        if recall and gone:
            said = omission_notice(gone)
            blocks = isinstance(content, list)
            content = (
                [*content, {"type": "text", "text": said}]
                if blocks
                else f"{content}\n\n{said}"
            )
        record = {
            "fallback": found.fallback,
            "note": found.note,
            "left_out": len(gone),
            "characters_before": self.content.characters,
            "characters_after": sum(map(len, _texts(content).values())),
        }
        artifact = self.message.artifact
        if self.structured:
            left = {
                k: read.restore(f)
                for (k, read), f in zip(self.structured.items(), each[1:], strict=True)
            }
            artifact = {**artifact, **left}
        return _changed(self.message, content, artifact, record), gone


@dataclass(frozen=True, slots=True)
class ToolDocuments:
    """The documents that a tool kept in its artifact, and where the message's content shows them."""

    message: ToolMessage
    documents: tuple[Document, ...]

    def denoise_inputs(self, query: str) -> list[dict[str, Any]]:
        """What a compressor is asked for it."""
        return [{"documents": self.documents, "query": query}]

    def apply_results(
        self, each: Sequence[Sequence[Document]], recall: bool = False
    ) -> tuple[ToolMessage, tuple[OmittedText, ...]]:
        """The message with what is left of each document where it stood; documents shown nowhere are joined. What
        was dropped is not to be had back."""
        kept = each[0]
        left = self._left(kept)
        content = self._content(left)
        record = {
            "given": len(self.documents),
            "kept": len(kept),
            "fallback": next(
                (d.metadata[FALLBACK_KEY] for d in kept if FALLBACK_KEY in d.metadata),
                None,
            ),
            "characters_before": len(str(self.message.text)),
            "characters_after": sum(map(len, _texts(content).values())),
        }
        return _changed(self.message, content, list(kept), record), ()

    def _left(self, kept: Sequence[Document]) -> list[str | None]:
        """The text left of each document, None for one that was dropped."""
        place = {
            short_id(i): n for n, i in enumerate(unique_document_ids(self.documents))
        }
        left: list[str | None] = [None] * len(self.documents)
        joint: list[str] = []
        for document in kept:
            origin = document.metadata.get("denoise_origin", document.id)
            at = place.get(short_id(str(origin)))
            if at is None:
                joint.append(
                    document.page_content
                )  # several rewritten as one: it takes the first place
            else:
                left[at] = document.page_content
        if joint:
            left[0] = "\n\n".join([*joint, *([left[0]] if left[0] else [])])
        return left

    def _content(self, left: Sequence[str | None]) -> Any:
        texts = _texts(self.message.content)
        where = [
            next((at for at, t in texts.items() if d.page_content in t), -1)
            for d in self.documents
        ]
        new: dict[int, str] = {}
        for at, text in texts.items():
            mine = [i for i, block in enumerate(where) if block == at]
            if mine:
                new[at] = replace_texts(
                    text,
                    [self.documents[i].page_content for i in mine],
                    [left[i] for i in mine],
                )
            elif -1 in where:
                new[at] = "\n\n".join(t for t in left if t is not None)
        content = self.message.content
        if isinstance(content, str):
            return new.get(0, content) or EMPTY_RESULT_TEXT
        out: list[Any] = []
        for at, block in enumerate(content):
            if at not in new:
                out.append(block)
            elif new[at].strip():
                out.append(
                    new[at] if isinstance(block, str) else {**block, "text": new[at]}
                )
        return out or [{"type": "text", "text": EMPTY_RESULT_TEXT}]


def parse_tool_message(message: ToolMessage) -> ToolText | ToolDocuments | None:
    """What of a tool's message can be denoised; None when there is nothing."""
    kept = artifact_documents(message)
    if kept is not None:
        return ToolDocuments(message, tuple(kept)) if kept else None
    text = ToolText.from_message(message)
    return text if any(part.passages for part in text.parts) else None


def replace_texts(
    content: str, before: Sequence[str], after: Sequence[str | None]
) -> str:
    """``content`` with each text of ``before`` replaced by its successor, None taking its heading away with it.

    Texts are looked for one after the other. When one is not there, as in a content that does not show the
    documents' text, the successors are joined by blank lines instead.

    >>> rewrite("1: aa\\n2: bb\\n3: cc\\n", ["aa", "bb", "cc"], ["a", None, "cc"])
    '1: a\\n3: cc\\n'
    """
    out: list[str] = []
    at = 0
    for old, new in zip(before, after, strict=True):
        found = content.find(old, at)
        if found < 0:
            return "\n\n".join(text for text in after if text is not None)
        if new is not None:
            out += [content[at:found], new]
        at = found + len(old)
    text = "".join(out) + content[at:]
    return text if after and after[0] is not None else text.lstrip("\n")


def _changed(
    message: ToolMessage, content: Any, artifact: Any, record: Mapping[str, Any]
) -> ToolMessage:
    metadata = {**message.response_metadata, RECORD_KEY: dict(record)}
    return message.model_copy(
        update={"content": content, "artifact": artifact, "response_metadata": metadata}
    )


def _texts(content: Any) -> dict[int, str]:
    """The text blocks of a content by their places."""
    blocks = [content] if isinstance(content, str) else content
    return {
        at: text
        for at, block in enumerate(blocks)
        if (text := block_text(block)) is not None
    }
