"""What tools return to agents: read as passages, and returned in its own shape.

Example::

    tool_result = read_result(value)  # a text, content blocks, JSON, an MCP result
    result = denoiser.denoise(query, tool_result.passages)
    reduced = tool_result.reduce(result)
    reduced.value  # the same shape, without what was dropped
    reduced.omitted_texts  # what was dropped, by id, for a recall tool

`denoise_core.text.structural.chunk_text` chunks every text of the result, so the
denoiser must chunk the same way: ``chunker="auto"``, the default. Everything that is
no text (images, numbers, cursors) is unchanged. Records are whole or left out, and
`denoise_core.text.omissions` writes into each text what is missing. Short first and
last lines, which say how many results there are or which page this is, stay too.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeAlias

from denoise_core.errors import InputError
from denoise_core.result import DenoiseResult
from denoise_core.runtime.fallbacks import log_fallback
from denoise_core.spans import Ranges, clip_spans, merge_spans
from denoise_core.text.json_spans import (
    JsonPath,
    TextEdit,
    apply_edits,
    object_fields,
)
from denoise_core.text.omissions import cut_text, left_out_text
from denoise_core.text.structural import ChunkedText, chunk_text
from denoise_core.types import Passage

EMPTY_RESULT_TEXT = "(No part of this result helps with the question.)"
"""Replaces a result of which nothing is kept: models reject an empty tool message."""

RECALL_TOOL = "recall"
"""Name of the tool that returns an omitted text by its id."""

OMITTED_STATE_KEY = "denoise_left_out"
"""Key of the omitted texts in an agent's state."""

MIN_CHARACTERS = 8000
"""Characters of one call's result from which it is cut by default."""

MAX_EDGE_LINE_CHARACTERS = 160
"""A longer first or last line is content and may be dropped."""

MAX_NOTE_CHARACTERS = 200
"""Upper bound of the notes that a capped text gets."""

_MCP_CONTENT_KEYS = ("content", "structuredContent", "structured_content")
# A list of such blocks is content even where none holds a text; other objects with a
# field "type" are records.
_BLOCK_TYPES = frozenset(
    (
        "audio",
        "document",
        "file",
        "image",
        "image_url",
        "input_audio",
        "input_file",
        "input_image",
        "resource",
        "resource_link",
        "search_result",
        "text",
        "tool_reference",
        "video",
    )
)
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


Pin: TypeAlias = str | re.Pattern[str] | Callable[[str], bool]
"""What is always shown: a regular expression, or a function of the text of a record or
paragraph. A record is also read as its fields: ``status: failed``."""


@dataclass(frozen=True, slots=True)
class OmittedText:
    """What one text of a result does not show any more, and the id that recalls it."""

    id: str
    text: str


@dataclass(frozen=True, slots=True)
class ReducedResult:
    """A tool's result with less text, in the shape it had."""

    value: Any
    omitted_texts: tuple[OmittedText, ...] = ()


class _NewText(NamedTuple):
    """What replaces a text, if it is not None, what is omitted, and its length."""

    value: Any
    omitted: str
    length: int = 0


@dataclass(frozen=True, slots=True)
class ToolResult:
    """A tool's result and the texts in it.

    Attributes:
        value: The result.
        passages: Its texts as passages.
        paths: ``passages[i]`` is the text at ``paths[i]`` in ``value``.
        chunked_texts: The chunks of each text.
        is_pinned: Whether a record or paragraph must stay; None if none must.
    """

    value: Any
    passages: tuple[Passage, ...]
    paths: tuple[JsonPath, ...]
    chunked_texts: tuple[ChunkedText, ...]
    is_pinned: Callable[[str], bool] | None = None

    @property
    def characters(self) -> int:
        """Characters of all texts together."""
        return sum(len(passage.text) for passage in self.passages)

    def reduce(
        self, result: DenoiseResult, *, has_recall: bool = False
    ) -> ReducedResult:
        """Return the value with what ``result`` kept of its passages.

        Records are whole or left out, and each text that became shorter says what is
        missing. A text that would not become shorter is unchanged, and a text that a
        model wrote replaces its source.

        Args:
            result: The result of denoising ``passages``.
            has_recall: Whether the notes name the id of the omitted text.
        """
        source_spans, rewritten_texts = _kept_by_id(result)
        new_texts = {}
        for n, passage in enumerate(self.passages):
            texts = rewritten_texts.get(passage.id)
            if texts is None:
                kept_spans = source_spans.get(passage.id, [])
                spans = self._kept_spans(n, kept_spans)
                new_texts[n] = self._cut_text(n, spans, has_recall)
                continue
            new_texts[n] = _NewText("\n\n".join(texts), passage.text)
        return self._replace_texts(new_texts)

    def cap(
        self,
        max_characters: int,
        *,
        has_recall: bool = False,
        result: DenoiseResult | None = None,
    ) -> ReducedResult:
        """Return the value with the head and the tail of each text.

        Whole records stay where the format has records. A text of which even the rest
        is too long is cut in the middle, and says that its format is broken there. Of
        so many texts that their notes alone would fill the limit, the first and last
        stay, and one note says how many are left out. An object without a list of
        records and a text with a pinned part are not cut in the middle: they may stay
        longer than the limit, which is logged once.

        Args:
            max_characters: Characters of all texts together, but for the notes.
            has_recall: Whether the notes name the id of the omitted text.
            result: What denoising kept of ``passages``: the head and the tail are those
                of the kept records. None, and a text of which nothing is kept, means all.
        """
        if self.characters <= max_characters:
            return ReducedResult(self.value)
        omitted_numbers = self._texts_to_omit(max_characters)
        shown_numbers = set(range(len(self.passages)))
        shown_numbers.difference_update(omitted_numbers)
        characters = 0
        for n in shown_numbers:
            passage = self.passages[n]
            characters += len(passage.text)
        new_texts = {}
        source_spans: dict[str, Ranges] = {}
        if result is not None:
            source_spans, _ = _kept_by_id(result)
        if characters > max_characters:
            for n in sorted(shown_numbers):
                limit = max_characters * len(self.passages[n].text) // characters
                new_texts[n] = self._cap_text(n, limit, has_recall, source_spans)
        reduced = self._replace_texts(new_texts)
        if not omitted_numbers:
            return reduced
        return self._omit_texts(reduced, omitted_numbers, has_recall)

    def _cap_text(
        self, n: int, limit: int, has_recall: bool, source_spans: Mapping[str, Ranges]
    ) -> _NewText:
        """Return the n-th text with its head and its tail."""
        chunked = self.chunked_texts[n]
        pinned_spans = self._pinned_spans(chunked)
        whole_text = [(0, len(chunked.text))]
        kept_spans = merge_spans(source_spans.get(self.passages[n].id, whole_text))
        spans = _head_and_tail(chunked, limit, kept_spans) + pinned_spans
        new_text = self._cut_text(n, spans, has_recall)
        is_too_long = new_text.length > limit + MAX_NOTE_CHARACTERS
        is_string = chunked.source_value is None
        recall_id = self.passages[n].id if has_recall else ""
        middle_edit = _middle_edit(chunked, limit, recall_id)
        omitted_length = middle_edit.end - middle_edit.start
        is_shorter = len(middle_edit.replacement) < omitted_length
        can_cut_middle = is_string and is_shorter and not pinned_spans
        if can_cut_middle and (is_too_long or not spans):
            new_value = chunked.apply([middle_edit])
            return _NewText(new_value, chunked.text)
        if is_too_long:
            log_fallback(
                "ToolResult.cap",
                "an object without a list, or a text with a pinned part",
                "a result stayed longer than its limit",
            )
        return new_text

    def _texts_to_omit(self, max_characters: int) -> list[int]:
        """Return the numbers of the texts in the middle that a cap leaves out whole."""
        count = len(self.passages)
        if count * MAX_NOTE_CHARACTERS <= max_characters:
            return []
        list_path = _block_path(self.paths[0])[:-1]
        listed_numbers = []
        listed_characters = 0
        for n, path in enumerate(self.paths):
            block_path = _block_path(path)
            if block_path and block_path[:-1] == list_path:
                listed_numbers.append(n)
                listed_characters += len(self.passages[n].text)
        shown_blocks: set[JsonPath] = set()
        room = max_characters * listed_characters // self.characters
        for position in range(len(listed_numbers)):
            # From both ends inwards: 0, -1, 1, -2 ...
            index = position // 2
            if position % 2:
                index = -1 - index
            n = listed_numbers[index]
            length = len(self.passages[n].text)
            if position < 2:  # the first and the last are cut rather than left out
                length = min(length, room // 2)
            if length <= room:
                room -= length
                shown_blocks.add(_block_path(self.paths[n]))
        omitted_numbers = []
        for n in listed_numbers:
            is_pinned = bool(self._pinned_spans(self.chunked_texts[n]))
            if _block_path(self.paths[n]) not in shown_blocks and not is_pinned:
                omitted_numbers.append(n)
        return omitted_numbers

    def _omit_texts(
        self, reduced: ReducedResult, numbers: Sequence[int], has_recall: bool
    ) -> ReducedResult:
        """Remove the blocks of these texts; the first of them becomes a note."""
        first_number = numbers[0]
        text_id = self.passages[first_number].id
        note = f"{len(numbers)} of {len(self.passages)} texts left out here"
        if has_recall:
            note += f"; recall({text_id}) returns them"
        value = _replace_at(reduced.value, self.paths[first_number], f"[{note}]")
        first_block = _block_path(self.paths[first_number])
        positions = set()
        for n in numbers[1:]:
            block_path = _block_path(self.paths[n])
            positions.add(block_path[-1])
        positions.discard(first_block[-1])
        value = _remove_items(value, first_block[:-1], positions)
        texts = []
        for n in numbers:
            passage = self.passages[n]
            texts.append(passage.text)
        joined_texts = "\n\n".join(texts)
        omitted = OmittedText(text_id, joined_texts)
        return ReducedResult(value, (*reduced.omitted_texts, omitted))

    def _cut_text(self, n: int, kept_spans: Ranges, has_recall: bool) -> _NewText:
        """Return the n-th text with what is kept of it."""
        chunked = self.chunked_texts[n]
        recall_id = self.passages[n].id if has_recall else ""
        edits = cut_text(chunked, kept_spans, recall_id)
        length = len(apply_edits(chunked.text, edits))
        if not edits:
            return _NewText(None, "", length)
        return _NewText(
            value=chunked.apply(edits),
            omitted=left_out_text(chunked, edits),
            length=length,
        )

    def _replace_texts(self, new_texts: Mapping[int, _NewText]) -> ReducedResult:
        value = self.value
        omitted_texts = []
        for n, new_text in new_texts.items():
            if new_text.value is None:
                continue
            path = self.paths[n]
            value = _replace_at(value, path, new_text.value)
            text_id = self.passages[n].id
            omitted = OmittedText(text_id, new_text.omitted)
            omitted_texts.append(omitted)
        return ReducedResult(value, tuple(omitted_texts))

    def _kept_spans(self, n: int, source_spans: Ranges) -> Ranges:
        """Return the kept spans of the n-th text, its pins, and its edge lines."""
        chunked = self.chunked_texts[n]
        kept_spans = self._pinned_spans(chunked) + source_spans
        if kept_spans:
            return kept_spans + _edge_lines(chunked)
        last_index = len(self.passages) - 1
        is_edge = last_index > 0 and n in (0, last_index)
        if is_edge and _is_edge_line(chunked.text):
            return [(0, len(chunked.text))]
        return []

    def pinned_ids(self) -> list[str]:
        """Return the ids of the passages with a part that must stay."""
        ids = []
        for passage, chunked in zip(self.passages, self.chunked_texts, strict=True):
            if self._pinned_spans(chunked):
                ids.append(passage.id)
        return ids

    def _pinned_spans(self, chunked: ChunkedText) -> Ranges:
        if self.is_pinned is None:
            return []
        pinned_spans = []
        for chunk in chunked.chunks:
            texts = (chunk.text_of(chunked.text), chunk.display_text)
            if any(map(self.is_pinned, texts)):
                pinned_spans.append(chunk.span)
        return pinned_spans


def read_pin(must_keep: Pin | None) -> Callable[[str], bool] | None:
    """Return whether a text must be shown, as a function; None if none must.

    Raises:
        InputError: For an invalid expression, and for a pin of another type.
    """
    if must_keep is None or callable(must_keep):
        return must_keep
    try:
        re.search(must_keep, "")
    except (re.error, TypeError) as error:
        raise InputError(
            f"must_keep={must_keep!r}: expected a regular expression, such as "
            f"'status: failed' for a field, or a function of a text: {error}"
        ) from error
    return lambda text: re.search(must_keep, text) is not None


def read_result(
    value: Any, *, name: str = "result", must_keep: Pin | None = None
) -> ToolResult:
    """Read the texts in what a tool returned.

    Args:
        value: A text or JSON value is one text. A list of content blocks, or the
            blocks and the structured content of an MCP result, are several. A value
            without text, such as bytes, has no passages, and `ToolResult.reduce`
            returns it unchanged.
        name: Prefix of the passage ids; a number follows.
        must_keep: Records and paragraphs that are shown, whatever a denoiser says.
    """
    passages: list[Passage] = []
    paths = []
    chunked_texts = []
    for path, chunked in _find_texts(value):
        if chunked.text.strip():
            number = len(passages) + 1
            passage_id = f"{name}{number}"
            passage = Passage(chunked.text, passage_id, provenance="tool")
            passages.append(passage)
            paths.append(path)
            chunked_texts.append(chunked)
    return ToolResult(
        value,
        tuple(passages),
        tuple(paths),
        tuple(chunked_texts),
        read_pin(must_keep),
    )


def _find_texts(value: Any) -> Iterator[tuple[JsonPath, ChunkedText]]:
    if _is_content(value):
        for n, block in enumerate(value):
            for path, text in _block_texts(block):
                yield (n, *path), chunk_text(text)
    elif isinstance(value, Mapping) and _is_block_list(value.get("content")):
        for key in _MCP_CONTENT_KEYS:
            for path, chunked in _find_texts(value.get(key) or None):
                yield (key, *path), chunked
    elif isinstance(value, str):
        yield (), chunk_text(value)
    elif (isinstance(value, dict | list | tuple) and value) or object_fields(value):
        try:
            yield (), chunk_text(value)
        except InputError:
            return  # what JSON cannot hold stays whole


def _is_block_list(content: Any) -> bool:
    """Whether this is a list of content blocks, without a plain string."""
    if not isinstance(content, list) or not all(map(_is_typed_object, content)):
        return False
    return not content or _is_content(content)


def _is_content(value: Any) -> bool:
    """Whether this is a list of texts and content blocks.

    Objects with a field ``type`` are records instead if none of them holds a text and
    if a type is unknown, as in a list of events.
    """
    if not isinstance(value, list) or not value:
        return False
    blocks = [item for item in value if not isinstance(item, str)]
    if not all(map(_is_typed_object, blocks)):
        return False
    has_text = any(any(_block_texts(item)) for item in value)
    return has_text or all(block["type"] in _BLOCK_TYPES for block in blocks)


def _is_typed_object(item: Any) -> bool:
    if not isinstance(item, Mapping):
        return False
    item_type = item.get("type")
    has_content = len(item) > 1
    return has_content and isinstance(item_type, str)


def _block_texts(block: Any) -> Iterator[tuple[JsonPath, str]]:
    """Yield the texts of a content block, and of the resource in it."""
    if isinstance(block, str):
        yield (), block
        return
    for path in _BLOCK_TEXT_PATHS:
        value: Any = block
        for key in path:
            if not isinstance(value, Mapping):
                value = None
                break
            value = value.get(key)
        if isinstance(value, str):
            yield path, value


def _block_path(path: JsonPath) -> JsonPath:
    """Return where the block of a text is in its list; () for a text in no list."""
    for position, key in enumerate(path):
        if isinstance(key, int):
            return path[: position + 1]
    return ()


def _remove_items(value: Any, list_path: JsonPath, positions: Collection[Any]) -> Any:
    """Return a copy of a value without these items of the list at ``list_path``."""
    items = value
    for key in list_path:
        items = items[key]
    kept_items = []
    for position, item in enumerate(items):
        if position not in positions:
            kept_items.append(item)
    return _replace_at(value, list_path, kept_items)


def _replace_at(value: Any, path: JsonPath, new_value: Any) -> Any:
    """Return a copy of a value with another value at ``path``."""
    if not path:
        return new_value
    key: Any = path[0]
    copied: Any
    if isinstance(value, list):
        copied = list(value)
    else:
        copied = dict(value)
    inner_path = path[1:]
    copied[key] = _replace_at(value[key], inner_path, new_value)
    return copied


def _kept_by_id(
    result: DenoiseResult,
) -> tuple[dict[str, Ranges], dict[str, list[str]]]:
    """Return kept spans, and texts that a model wrote, by the id of their passage."""
    source_spans: dict[str, Ranges] = {}
    rewritten_texts: dict[str, list[str]] = {}
    for passage in result.passages:
        if passage.is_rewritten:
            source_ids = {span.passage_id for span in passage.source_spans}
            for passage_id in source_ids | {passage.id}:
                rewritten_texts.setdefault(passage_id, []).append(passage.text)
            continue
        for span in passage.source_spans:
            passage_spans = source_spans.setdefault(span.passage_id, [])
            passage_spans.append((span.start, span.end))
    return source_spans, rewritten_texts


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
        line = text[start:end]
        if _is_edge_line(line):
            edge_lines.append((start, end))
    return edge_lines


def _is_edge_line(text: str) -> bool:
    """Whether a line is short and no sentence."""
    line = text.strip()
    is_short = len(line) <= MAX_EDGE_LINE_CHARACTERS
    is_sentence = line[-1:] in ".!?。"
    return is_short and not is_sentence


def query_from_arguments(arguments: Mapping[str, Any]) -> str:
    """Return the query in a tool call's arguments; ``""`` if there is none.

    An argument with a usual name, or else the first one of several words.
    """
    usual_texts = []
    for name in _QUERY_ARGUMENTS:
        argument = arguments.get(name)
        if isinstance(argument, str):
            usual_texts.append(argument)
    if usual_texts:
        return next(filter(str.strip, usual_texts), "")
    for argument in arguments.values():
        if isinstance(argument, str) and len(argument.split()) > 1:
            return argument
    return ""


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
            json_text = json.dumps(argument, ensure_ascii=False, default=str)
            texts.append(json_text)
    return " ".join(texts)


def build_query(user_message: str, tool_query: str) -> str:
    """Return the query that a tool's result is denoised for.

    The user's last message, and the query of the call if it adds something.
    """
    if user_message and tool_query in user_message:
        return user_message
    query = f"{user_message}\n{tool_query}"
    return query.strip()


def _head_and_tail(
    chunked: ChunkedText, max_characters: int, kept_spans: Ranges
) -> Ranges:
    """Return the first and the last kept chunks that fit into half of the characters."""
    scored_chunks = chunked.scored_chunks
    other_length = len(chunked.text)
    for chunk in scored_chunks:
        other_length -= chunk.length
    remaining_characters = max(0, max_characters - other_length)
    limit = remaining_characters // 2
    kept_chunks = []
    for chunk in scored_chunks:
        if clip_spans(kept_spans, *chunk.span):
            kept_chunks.append(chunk)
    spans: Ranges = []
    for chunks in (kept_chunks, kept_chunks[::-1]):
        length = 0
        for chunk in chunks:
            length += chunk.length
            if length > limit:
                break
            spans.append(chunk.span)
    return spans


def _middle_edit(chunked: ChunkedText, max_characters: int, recall_id: str) -> TextEdit:
    """Return the edit that replaces the middle of a text by a line about it."""
    half = max_characters // 2
    text_length = len(chunked.text)
    tail_start = text_length - half
    omitted_length = tail_start - half
    note = f"{omitted_length} of {text_length} characters left out here"
    if recall_id:
        note += f"; recall({recall_id}) returns the whole text"
    if chunked.text_format not in ("text", "code", "entries"):
        format_name = chunked.text_format.upper()
        note += f"; no complete {format_name}"
    return TextEdit(half, tail_start, f"\n[{note}]\n")


def recall_text(omitted_texts: Mapping[str, str], text_id: str) -> str:
    """Return the omitted text with this id, or a message with the known ids."""
    if text_id in omitted_texts:
        return omitted_texts[text_id]
    known_ids = ", ".join(omitted_texts) or "none"
    return f"There is no part {text_id!r}; there are: {known_ids}"
