"""A tool's message as documents, and the message again from what is left of them."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from langchain_core.documents import Document
from langchain_core.messages import ToolMessage

from denoise_core import Passage, unique_ids
from denoise_core.running.record import KEY, short_id
from denoise_core.text.chunk import chunks
from langchain_denoise.convert.places import documents_of

NOTHING = "(No part of this result helps with the question.)"
"""Stands in a tool's message of which nothing is kept: a tool call without a message is an error for models."""

LONGEST = 1200
"""Characters of a paragraph; a longer one is cut into pieces of whole sentences, half as long."""

_BLANK = re.compile(r"\n[ \t]*\n\s*")
_HEADING = re.compile(r"#{1,6} .*|.{1,80}:|\*\*.{1,80}\*\*")


@dataclass(frozen=True, slots=True)
class ToolText:
    """The text of one message as ``documents``. ``blocks[i]`` is the content block that document i stands in, -1
    for one that stands in the artifact alone; ``items`` are the elements of a JSON list, by block."""

    message: ToolMessage
    documents: tuple[Document, ...]
    blocks: tuple[int, ...]
    items: Mapping[int, list[Any]]

    @staticmethod
    def of(message: ToolMessage) -> ToolText:
        """The documents a tool kept; or else paragraphs of its text blocks, or elements of a JSON list in one."""
        kept = documents_of(message)
        if kept is not None:
            blocks = tuple(_where(message, d.page_content) for d in kept)
            return ToolText(message, tuple(kept), blocks, {})
        documents: list[Document] = []
        places: list[int] = []
        items: dict[int, list[Any]] = {}
        for at, text in _texts(message):
            found = json_items(text)
            if found is not None:
                items[at] = found
            for n, piece in enumerate(map(said_in, found) if found is not None else paragraphs(text)):
                documents.append(Document(page_content=piece, id=f"{message.tool_call_id}:{at}:{n}"))
                places.append(at)
        return ToolText(message, tuple(documents), tuple(places), items)

    def cleared(self, kept: Sequence[Document]) -> ToolMessage:
        """The message with what is left in the place of what was there."""
        left = self._left(kept)
        content = self._content(left)
        record = {
            "given": len(self.documents),
            "kept": len(kept),
            "fallback": next((d.metadata[KEY]["fallback"] for d in kept if KEY in d.metadata), None),
            "characters_before": len(str(self.message.text)),
            "characters_after": sum(len(t) for t in _strings(content)),
        }
        artifact = list(kept) if documents_of(self.message) is not None else self.message.artifact
        metadata = {**self.message.response_metadata, KEY: record}
        return self.message.model_copy(
            update={"content": content, "artifact": artifact, "response_metadata": metadata}
        )

    def _left(self, kept: Sequence[Document]) -> list[str | None]:
        """The text left of each document, None for one that was dropped."""
        place = {short_id(i): n for n, i in enumerate(unique_ids([d.id for d in self.documents]))}
        left: list[str | None] = [None] * len(self.documents)
        joint: list[str] = []
        for document in kept:
            origin = document.metadata.get(KEY, {}).get("origin", document.id)
            at = place.get(short_id(str(origin)))
            if at is None:
                joint.append(document.page_content)  # several rewritten as one: it takes the first place
            else:
                left[at] = document.page_content
        if joint:
            left[0] = "\n\n".join([*joint, *([left[0]] if left[0] else [])])
        return left

    def _content(self, left: Sequence[str | None]) -> Any:
        new: dict[int, str] = {}
        for at, text in _texts(self.message):
            mine = [i for i, block in enumerate(self.blocks) if block == at]
            if at in self.items:
                stay = [item for i, item in zip(mine, self.items[at], strict=True) if left[i] is not None]
                new[at] = json.dumps(stay, ensure_ascii=False) if stay else ""
            elif mine:
                new[at] = rewrite(text, [self.documents[i].page_content for i in mine], [left[i] for i in mine])
            elif documents_of(self.message) is not None and len(self.documents) > 0 and -1 in self.blocks:
                new[at] = "\n\n".join(t for t in left if t is not None)
        content = self.message.content
        if isinstance(content, str):
            return new.get(0, content) or NOTHING
        out: list[Any] = []
        for at, block in enumerate(content):
            if at not in new:
                out.append(block)
            elif new[at].strip():
                out.append(new[at] if isinstance(block, str) else {**block, "text": new[at]})
        return out or [{"type": "text", "text": NOTHING}]


def paragraphs(text: str) -> list[str]:
    """The paragraphs of a text, a heading with the one it stands over, a long one in pieces of whole sentences.

    Each is found again in the text as it is, one after the other.

    >>> paragraphs("# Paris\\n\\nA capital.\\n\\nBananas.")
    ['# Paris\\n\\nA capital.', 'Bananas.']
    """
    out: list[str] = []
    start = 0
    for end, begin in [*((m.start(), m.end()) for m in _BLANK.finditer(text)), (len(text), len(text))]:
        piece = text[start:end].strip()
        if piece and _HEADING.fullmatch(piece) and end < len(text):
            continue
        if piece:
            out += _pieces(piece)
        start = begin
    return out


def _pieces(text: str) -> Iterator[str]:
    if len(text) <= LONGEST:
        yield text
        return
    for span in chunks(LONGEST // 2)(Passage(text, "paragraph")):
        if piece := text[span.start : span.end].strip():
            yield piece


def json_items(text: str) -> list[Any] | None:
    """The elements of a JSON list of objects or texts, as search tools give it; None for anything else."""
    if not text.lstrip().startswith("["):
        return None
    try:
        found = json.loads(text)
    except ValueError:
        return None
    fits = isinstance(found, list) and len(found) > 1 and all(isinstance(i, (dict, str)) for i in found)
    return found if fits else None


def said_in(item: Any) -> str:
    """The texts and numbers in a JSON value, a line each, with the names they stand under."""
    if isinstance(item, dict):
        return "\n".join(f"{k}: {said_in(v)}" for k, v in item.items() if v not in (None, "", [], {}))
    if isinstance(item, list):
        return "\n".join(map(said_in, item))
    return str(item)


def rewrite(content: str, before: Sequence[str], after: Sequence[str | None]) -> str:
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


def _texts(message: ToolMessage) -> list[tuple[int, str]]:
    """The text blocks of a message with their places."""
    if isinstance(message.content, str):
        return [(0, message.content)]
    return [
        (at, block if isinstance(block, str) else str(block.get("text", "")))
        for at, block in enumerate(message.content)
        if isinstance(block, str) or block.get("type") == "text"
    ]


def _where(message: ToolMessage, text: str) -> int:
    """The content block that shows a document's text; -1 when none does."""
    return next((at for at, block in _texts(message) if text in block), -1)


def _strings(content: Any) -> list[str]:
    blocks = [content] if isinstance(content, str) else content
    return [b if isinstance(b, str) else str(b.get("text", "")) for b in blocks]
