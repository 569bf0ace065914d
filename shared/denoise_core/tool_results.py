"""What tools return to agents: read as passages, and returned in its own shape.

Example::

    tool_result = read_result(value)  # a text, content blocks, JSON, an MCP result
    result = denoiser.denoise(query, tool_result.passages)
    value = tool_result.restore(result)  # the same shape, without what was dropped
    tool_result.omitted_texts(result)  # what was dropped, by id, for a recall tool

`denoise_core.text.structural.chunk_text` chunks every text of the result, so the
denoiser must chunk the same way: ``chunker="auto"``, the default. Everything that is
no text (images, numbers, cursors) is unchanged. Short first and last lines, which say
how many results there are or which page this is, stay too.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from denoise_core.result import DenoiseResult
from denoise_core.spans import Ranges, complement_spans
from denoise_core.text.json_spans import JsonPath
from denoise_core.text.structural import ChunkedText, chunk_text
from denoise_core.types import Passage

EMPTY_RESULT_TEXT = "(No part of this result helps with the question.)"
"""Replaces a result of which nothing is kept: models reject an empty tool message."""

RECALL_TOOL = "recall"
"""Name of the tool that returns an omitted text by its id."""

OMITTED_STATE_KEY = "denoise_left_out"
"""Key of the omitted texts in an agent's state."""

MAX_EDGE_LINE_CHARACTERS = 160
"""A longer first or last line is content and may be dropped."""

_MAX_PREVIEW_CHARACTERS = 60
_MCP_CONTENT_KEYS = ("content", "structuredContent", "structured_content")
_BLOCK_TEXT_PATHS = (("text",), ("resource", "text"))
_QUERY_ARGUMENTS = (
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


@dataclass(frozen=True, slots=True)
class OmittedText:
    """A dropped run of a result: its id, and its text as it was."""

    id: str
    text: str

    @property
    def preview(self) -> str:
        """The first words, on one line."""
        line = " ".join(self.text.split())
        if len(line) <= _MAX_PREVIEW_CHARACTERS:
            return line
        return line[: _MAX_PREVIEW_CHARACTERS - 3] + "..."


@dataclass(frozen=True, slots=True)
class ToolResult:
    """A tool's result and the texts in it.

    Attributes:
        value: The result.
        passages: Its texts as passages.
        paths: ``passages[i]`` is the text at ``paths[i]`` in ``value``.
        chunked_texts: The chunks of each text.
    """

    value: Any
    passages: tuple[Passage, ...]
    paths: tuple[JsonPath, ...]
    chunked_texts: tuple[ChunkedText, ...]

    @property
    def characters(self) -> int:
        """Characters of all texts together."""
        return sum(len(passage.text) for passage in self.passages)

    def restore(self, result: DenoiseResult) -> Any:
        """Return a copy of the value with what ``result`` kept of its passages.

        A text that a model wrote replaces its source.
        """
        value = self.value
        for n, path in enumerate(self.paths):
            rewritten_texts = _rewritten_texts(result, self.passages[n].id)
            text: Any = "\n\n".join(rewritten_texts)
            if not rewritten_texts:
                text = self.chunked_texts[n].restore(self._kept_spans(n, result))
            value = _replace_at(value, path, text)
        return value

    def omitted_texts(self, result: DenoiseResult) -> tuple[OmittedText, ...]:
        """Return what `restore` leaves out, as runs of text in order.

        The same result gives the same ids.
        """
        omitted_texts: list[OmittedText] = []
        for n, passage in enumerate(self.passages):
            chunked = self.chunked_texts[n]
            retained_spans = chunked.retained_spans(self._kept_spans(n, result))
            for start, end in complement_spans(retained_spans, 0, len(passage.text)):
                text = chunked.readable_text(start, end).strip()
                if len(text) > 2 and any(map(str.isalnum, text)):
                    text_id = f"{passage.id}-{len(omitted_texts) + 1}"
                    omitted_texts.append(OmittedText(text_id, text))
        return tuple(omitted_texts)

    def _kept_spans(self, n: int, result: DenoiseResult) -> Ranges:
        """Return the kept spans of the n-th text, and its short first and last line."""
        passage_id = self.passages[n].id
        text = self.passages[n].text
        kept_spans = []
        for passage in result.passages:
            if passage.is_rewritten:
                continue
            for span in passage.source_spans:
                if span.passage_id == passage_id:
                    kept_spans.append((span.start, span.end))
        if kept_spans:
            return kept_spans + _edge_lines(self.chunked_texts[n])
        is_edge = n in (0, len(self.passages) - 1)
        if is_edge and len(self.passages) > 1 and _is_edge_line(text):
            return [(0, len(text))]
        return []


def read_result(value: Any, *, name: str = "result") -> ToolResult:
    """Read the texts in what a tool returned.

    Args:
        value: A text, bytes or JSON value is one text. A list of content blocks, or
            the blocks and the structured content of an MCP result, are several. A
            value without text has no passages, and `ToolResult.restore` returns it
            unchanged.
        name: Prefix of the passage ids; a number follows.
    """
    passages: list[Passage] = []
    paths = []
    chunked_texts = []
    for path, chunked in _find_texts(value):
        if chunked.text.strip():
            passage_id = f"{name}{len(passages) + 1}"
            passages.append(Passage(chunked.text, passage_id, provenance="tool"))
            paths.append(path)
            chunked_texts.append(chunked)
    return ToolResult(value, tuple(passages), tuple(paths), tuple(chunked_texts))


def _find_texts(value: Any) -> Iterator[tuple[JsonPath, ChunkedText]]:
    if isinstance(value, list) and value and all(map(_is_text_or_block, value)):
        for n, block in enumerate(value):
            for path, text in _block_texts(block):
                yield (n, *path), chunk_text(text)
    elif isinstance(value, Mapping) and _is_block_list(value.get("content")):
        for key in _MCP_CONTENT_KEYS:
            for path, chunked in _find_texts(value.get(key) or None):
                yield (key, *path), chunked
    elif isinstance(value, str | bytes) or (isinstance(value, dict | list) and value):
        yield (), chunk_text(value)


def _is_block_list(content: Any) -> bool:
    return isinstance(content, list) and all(map(_is_block, content))


def _is_block(block: Any) -> bool:
    has_type = isinstance(block, Mapping) and isinstance(block.get("type"), str)
    return has_type and len(block) > 1


def _is_text_or_block(item: Any) -> bool:
    return isinstance(item, str) or _is_block(item)


def _block_texts(block: Any) -> Iterator[tuple[JsonPath, str]]:
    """Yield the texts of a content block, and of the resource in it."""
    if isinstance(block, str):
        yield (), block
        return
    for path in _BLOCK_TEXT_PATHS:
        value: Any = block
        for key in path:
            value = value.get(key) if isinstance(value, Mapping) else None
        if isinstance(value, str):
            yield path, value


def _replace_at(value: Any, path: JsonPath, new_value: Any) -> Any:
    """Return a copy of a value with another value at ``path``."""
    if not path:
        return new_value
    key: Any = path[0]
    copied: Any = list(value) if isinstance(value, list) else dict(value)
    copied[key] = _replace_at(value[key], path[1:], new_value)
    return copied


def _rewritten_texts(result: DenoiseResult, passage_id: str) -> list[str]:
    """Return the texts that a model wrote from this passage."""
    rewritten_texts = []
    for passage in result.passages:
        source_ids = {span.passage_id for span in passage.source_spans}
        if passage.is_rewritten and passage_id in (passage.id, *source_ids):
            rewritten_texts.append(passage.text)
    return rewritten_texts


def _edge_lines(chunked: ChunkedText) -> Ranges:
    """Return the first and last line of a text if they say something about it."""
    has_lines = chunked.text_format in ("text", "entries")
    if not has_lines or len(chunked.chunks) < 3:
        return []
    text = chunked.text.rstrip()
    first_line = (0, text.find("\n") + 1)
    last_line = (text.rfind("\n") + 1, len(chunked.text))
    edge_lines = []
    for start, end in (first_line, last_line):
        if _is_edge_line(text[start:end]):
            edge_lines.append((start, end))
    return edge_lines


def _is_edge_line(text: str) -> bool:
    """Whether a line is short and no sentence."""
    is_sentence = text.rstrip()[-1:] in ".!?。"
    return len(text.strip()) <= MAX_EDGE_LINE_CHARACTERS and not is_sentence


def query_from_arguments(arguments: Mapping[str, Any]) -> str:
    """Return the query in a tool call's arguments; ``""`` if there is none.

    An argument with a usual name, or else the first one of several words.
    """
    texts = []
    for name in _QUERY_ARGUMENTS:
        if isinstance(arguments.get(name), str):
            texts.append(arguments[name])
    if not texts:
        for argument in arguments.values():
            if isinstance(argument, str) and len(argument.split()) > 1:
                texts.append(argument)
    return next(filter(str.strip, texts), "")


def arguments_text(arguments: Any) -> str:
    """Return all arguments of a tool call as one text.

    It says what the tool's result is evidence about.
    """
    if not isinstance(arguments, Mapping):
        return str(arguments)
    texts = []
    for argument in arguments.values():
        if isinstance(argument, str):
            texts.append(argument)
        elif argument is not None:
            texts.append(json.dumps(argument, ensure_ascii=False, default=str))
    return " ".join(texts)


def build_query(user_message: str, tool_query: str) -> str:
    """Return the query that a tool's result is denoised for.

    The user's last message, and the query of the call if it adds something.
    """
    if user_message and tool_query in user_message:
        return user_message
    return f"{user_message}\n{tool_query}".strip()


def omission_notice(omitted_texts: Sequence[OmittedText]) -> str:
    """Return what an agent reads about omitted texts: how to recall which one."""
    lines = [f"(Left out; {RECALL_TOOL}(id) gives one back)"]
    lines += [f"{omitted.id}: {omitted.preview}" for omitted in omitted_texts]
    return "\n".join(lines)


def recall_text(omitted_texts: Mapping[str, str], text_id: str) -> str:
    """Return the omitted text with this id, or a message with the known ids."""
    if text_id in omitted_texts:
        return omitted_texts[text_id]
    known_ids = ", ".join(omitted_texts) or "none"
    return f"There is no part {text_id!r}; there are: {known_ids}"
