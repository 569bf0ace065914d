"""What tools return to agents: read as passages, and written back in the shape it had.

    read = read_result(value)  # a text, content blocks, JSON, an MCP result
    found = denoiser.denoise(query, read.passages)
    value = read.back(found)  # the same shape, without what was dropped
    read.left_out(found)  # what was cut out, by id, for a tool that gives it back

Every text in the result is cut by the one engine (`denoise_core.text.structural.cut`), so the denoiser has to cut so
too: ``chunker="auto"``, as the default does. What is no text (images, numbers, cursors) stays as it was. What a
result says of itself at its ends (how many there are, which page this is) stays as well.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from denoise_core.result import DenoiseResult
from denoise_core.spans import Range, complement_spans
from denoise_core.text.structural import ChunkedText, chunk_text
from denoise_core.types import Passage

MAX_EDGE_LINE_CHARACTERS = 160  # characters of a first or last line that is kept for what it says of the result
_SETS = ("content", "structuredContent", "structured_content")  # of an MCP result

EMPTY_RESULT_TEXT = "(No part of this result helps with the question.)"
"""Stands for a result of which nothing is kept: a tool call without a message is an error for models."""

RECALL_TOOL = "recall"  # the tool that gives back what was left out, by id
OMITTED_STATE_KEY = "denoise_left_out"  # where in an agent's state that stands
_ASKED = (
    "query",
    "question",
    "q",
    "search",
    "search_query",
    "keywords",
    "topic",
    "text",
    "input",
    "prompt",
)

Path = tuple[str | int, ...]


@dataclass(frozen=True, slots=True)
class OmittedText:
    """A run of a result that was cut out: its ``id``, and its ``text`` as it stood."""

    id: str
    text: str

    @property
    def preview(self) -> str:
        """Its first words, on one line."""
        words = " ".join(self.text.split())
        return words if len(words) <= 60 else words[:57] + "..."


@dataclass(frozen=True, slots=True)
class ToolResult:
    """A tool's result with its texts: ``passages[i]`` is the text at ``paths[i]`` in ``value``."""

    value: Any
    passages: tuple[Passage, ...]
    paths: tuple[Path, ...]
    chunked_texts: tuple[ChunkedText, ...]

    @property
    def characters(self) -> int:
        """Characters of all its texts."""
        return sum(len(p.text) for p in self.passages)

    def restore(self, found: DenoiseResult) -> Any:
        """The value with what ``found`` kept of its passages; what a model wrote takes the place of its source.

        Nothing of the value is changed in place.
        """
        out = self.value
        for n, (passage, path, shape) in enumerate(
            zip(self.passages, self.paths, self.chunked_texts, strict=True)
        ):
            sources = (
                (p, {p.id, *(s.passage_id for s in p.source_spans)})
                for p in found.passages
                if p.is_rewritten
            )
            written = [p.text for p, ids in sources if passage.id in ids]
            out = _put(
                out,
                path,
                "\n\n".join(written)
                if written
                else shape.restore(self._stays(n, found)),
            )
        return out

    def omitted_texts(self, found: DenoiseResult) -> tuple[OmittedText, ...]:
        """What `back` leaves out, as runs of text in order, with ids that are the same for the same result."""
        out: list[OmittedText] = []
        for n, (passage, shape) in enumerate(
            zip(self.passages, self.chunked_texts, strict=True)
        ):
            for start, end in complement_spans(
                shape.retained_spans(self._stays(n, found)), 0, len(passage.text)
            ):
                gone = shape.readable_text(start, end).strip()
                if len(gone) > 2 and any(c.isalnum() for c in gone):
                    out.append(OmittedText(f"{passage.id}-{len(out) + 1}", gone))
        return tuple(out)

    def _stays(self, n: int, found: DenoiseResult) -> list[Range]:
        """What stays of the n-th text: what was kept, and what it says at its ends."""
        text, shape = self.passages[n].text, self.chunked_texts[n]
        spans = (
            s for p in found.passages if not p.is_rewritten for s in p.source_spans
        )
        kept = [(s.start, s.end) for s in spans if s.passage_id == self.passages[n].id]
        if not kept:
            outermost = len(self.passages) > 1 and n in (0, len(self.passages) - 1)
            return [(0, len(text))] if outermost and _is_end(text) else []
        return [*kept, *_ends(shape)]


def read_result(value: Any, *, name: str = "result") -> ToolResult:
    """The texts in what a tool returned, ``name`` with a number as their ids.

    A text, bytes or JSON (a list, an object) is one; of a list of content blocks, or the blocks and the structured
    content of an MCP result, each text is one. A value without text has no passages, and `back` gives it as it is.
    """
    found = [(path, shape) for path, shape in _read(value) if shape.text.strip()]
    passages = tuple(
        Passage(s.text, f"{name}{n}", provenance="tool")
        for n, (_, s) in enumerate(found, 1)
    )
    return ToolResult(
        value, passages, tuple(p for p, _ in found), tuple(s for _, s in found)
    )


def _read(value: Any) -> Iterator[tuple[Path, ChunkedText]]:
    content = value.get("content") if isinstance(value, Mapping) else None
    if (
        isinstance(value, list)
        and value
        and all(_is_block(b) or isinstance(b, str) for b in value)
    ):
        for n, block in enumerate(value):
            for path, text in _in_block(block):
                yield (n, *path), chunk_text(text)
    elif isinstance(content, list) and all(map(_is_block, content)):
        for key in _SETS:
            for path, shape in _read(value[key]) if value.get(key) else ():  # pyright: ignore
                yield (key, *path), shape
    elif isinstance(value, str | bytes) or (isinstance(value, dict | list) and value):
        yield (), chunk_text(value)


def _is_block(block: Any) -> bool:
    return (
        isinstance(block, Mapping)
        and isinstance(block.get("type"), str)
        and len(block) > 1
    )


def _in_block(block: Any) -> Iterator[tuple[Path, str]]:
    """The texts of a content block: its own, or that of the resource in it."""
    if isinstance(block, str):
        yield (), block
        return
    for path in (("text",), ("resource", "text")):
        found: Any = block
        for key in path:
            found = found.get(key) if isinstance(found, Mapping) else None
        if isinstance(found, str):
            yield path, found


def _put(value: Any, path: Path, new: Any) -> Any:
    if not path:
        return new
    key, rest = path[0], path[1:]
    if isinstance(value, list):
        return [_put(v, rest, new) if n == key else v for n, v in enumerate(value)]
    return {k: _put(v, rest, new) if k == key else v for k, v in value.items()}


def _ends(shape: ChunkedText) -> list[Range]:
    """The first and the last line of a text of several pieces, where they are short and no sentences."""
    if shape.text_format not in ("text", "entries") or len(shape.chunks) < 3:
        return []
    text = shape.text.rstrip()
    first, last = text.find("\n") + 1, text.rfind("\n") + 1
    return [
        (a, b) for a, b in ((0, first), (last, len(shape.text))) if _is_end(text[a:b])
    ]


def _is_end(text: str) -> bool:
    return (
        len(text.strip()) <= MAX_EDGE_LINE_CHARACTERS
        and text.rstrip()[-1:] not in ".!?。"
    )


def query_from_arguments(arguments: Mapping[str, Any]) -> str:
    """The words that a tool was called with, "" for none: an argument called so, or one of several words."""
    named = [arguments[n] for n in _ASKED if isinstance(arguments.get(n), str)]
    said = named or [
        v for v in arguments.values() if isinstance(v, str) and len(v.split()) > 1
    ]
    return next((v for v in said if v.strip()), "")


def arguments_text(arguments: Any) -> str:
    """All that a tool was called with, as one text: what its result is evidence about."""
    if not isinstance(arguments, Mapping):
        return str(arguments)
    values = [v for v in arguments.values() if v is not None]
    return " ".join(
        v if isinstance(v, str) else json.dumps(v, ensure_ascii=False, default=str)
        for v in values
    )


def build_query(user: str, asked: str) -> str:
    """What a result is read for: the user's last message, and the words of the call where they are others."""
    return user or asked if not asked or asked in user else f"{user}\n{asked}".strip()


def omission_notice(gone: Sequence[OmittedText]) -> str:
    """What an agent reads of what was left out: how to have it back, and how each part begins."""
    return "\n".join(
        [
            f"(Left out; {RECALL_TOOL}(id) gives one back)",
            *(f"{g.id}: {g.preview}" for g in gone),
        ]
    )


def recall_text(kept: Mapping[str, str], id: str) -> str:
    """The part that was left out under this id, or which ids there are."""
    return (
        kept[id]
        if id in kept
        else f"There is no part {id!r}; there are: {', '.join(kept) or 'none'}"
    )
