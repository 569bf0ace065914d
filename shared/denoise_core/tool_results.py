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

import copy
import hashlib
import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeAlias

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
from denoise_core.text.omissions import cut_text, left_out_text, omission_note
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
"""Upper bound of a note about what a cap leaves out: a cap has at least so many."""

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
        "json",
        "resource",
        "resource_link",
        "search_result",
        "text",
        "tool_reference",
        "video",
    )
)
_BLOCK_TEXT_PATHS = (("text",), ("resource", "text"))
_BLOCK_NOTE_CHARACTERS = 80  # about the blocks that are left out
_JSON_TYPES = ("json", "search_result")
_NOTE_MARGIN = (
    32  # of a note in the middle: brackets, the format, counts of more digits
)
_PARSED_FORMATS = ("html", "json", "xml", "yaml")
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
paragraph. A record of JSON or CSV is also read as its fields: ``status: failed``. A row of
any other table or of XML is read as it is written."""


TextEdits: TypeAlias = dict[int, tuple[str, list[TextEdit]]]
"""By the number of a text: the id of what is left out of it, and the edits."""


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
    is_pinned: Callable[[str], Any] | None = None

    @property
    def characters(self) -> int:
        """Characters of all texts together."""
        return sum(len(passage.text) for passage in self.passages)

    def reduce(
        self, result: DenoiseResult, *, has_recall: bool = False
    ) -> ReducedResult:
        """Return the value with what ``result`` kept of its passages.

        Records are whole or left out, and each text that became shorter says what is
        missing. A text that would not become shorter is unchanged. What a model wrote
        replaces a text, and no other value.

        Args:
            result: The result of denoising ``passages``.
            has_recall: Whether the notes name the id of the omitted text.
        """
        source_spans, rewritten_texts = _kept_by_id(result)
        edits = {}
        for n, chunked in enumerate(self.chunked_texts):
            text_id = self.passages[n].id
            text_spans = source_spans.get(text_id, [])
            kept_spans = self._kept_spans(n, text_spans)
            omitted_id = _cut_id(n, chunked.text, kept_spans)
            if text_id not in rewritten_texts:
                recall_id = omitted_id if has_recall else ""
                edits[n] = omitted_id, cut_text(chunked, kept_spans, recall_id)
            elif chunked.source_value is None:
                new_text = "\n\n".join(rewritten_texts[text_id])
                whole_edit = TextEdit(0, len(chunked.text), new_text)
                edits[n] = omitted_id, [whole_edit]
        return self._apply_edits(edits)

    def cap(
        self,
        max_characters: int,
        *,
        has_recall: bool = False,
        result: DenoiseResult | None = None,
    ) -> ReducedResult:
        """Return the value with its head and its tail, in at most so many characters.

        A text keeps its first and last records, whole and in its format. If hardly one
        fits, it keeps its first and last characters, and a note between them says so. Of
        several content blocks those at both ends stay, as many as fit, and a note says
        how many are left out. JSON and search results become texts if they are cut;
        other blocks, such as pictures and files, stay and do not count. What is pinned,
        a value without records that fit and the dict of an MCP result may stay longer
        than the limit, which is logged.

        Args:
            max_characters: At least `MAX_NOTE_CHARACTERS`.
            has_recall: Whether the notes name the id of the omitted text.
            result: What denoising kept of ``passages``: the head and the tail of each
                text are those of its kept records. None, and a text of which nothing is
                kept, means all.
        """
        kept_by_text: dict[str, Ranges] = {}
        if result is not None:
            kept_by_id, _ = _kept_by_id(result)
            for passage in self.passages:
                kept_by_text[passage.text] = kept_by_id.get(passage.id, [])
        if not _is_content(self.value):
            return self._cap_text(max_characters, has_recall, kept_by_text)
        sources = list(map(_block_source, self.value))
        sizes = list(map(len, sources))
        limits = _share_characters(sizes, max_characters)
        new_blocks = []
        omitted_texts: list[OmittedText] = []
        omitted_sources: list[str] = []
        for block, source, limit in zip(self.value, sources, limits, strict=True):
            block_result = read_result(source, must_keep=self.is_pinned)
            if source and not limit and not block_result.has_pin:
                omitted_sources.append(source)
                continue
            reduced = block_result._cap_text(limit, has_recall, kept_by_text)
            new_block = _replace_source(block, reduced)
            new_blocks.append(new_block)
            omitted_texts += reduced.omitted_texts
        if omitted_sources:
            omitted_id = _cut_id(omitted_sources)
            recall_id = omitted_id if has_recall else ""
            note = omission_note(
                len(sources), len(omitted_sources), "blocks", recall_id
            )
            note_block = {"type": "text", "text": f"[{note}]"}
            new_blocks.append(note_block)
            omitted_text = "\n\n".join(omitted_sources)
            omitted_texts.append(OmittedText(omitted_id, omitted_text))
        return ReducedResult(new_blocks, tuple(omitted_texts))

    def _cap_text(
        self,
        max_characters: int,
        has_recall: bool,
        kept_by_text: Mapping[str, Ranges],
    ) -> ReducedResult:
        """Return a value that is one text with the head and the tail of what is kept."""
        if self.characters <= max_characters:
            return ReducedResult(self.value)
        if self.paths[0]:  # the dict of an MCP result
            log_long_blocks([self.value], max_characters)
            return ReducedResult(self.value)
        (chunked,) = self.chunked_texts
        text = chunked.text
        kept_spans = merge_spans(kept_by_text.get(text, []))
        pinned_spans = self._pinned_spans(chunked)
        omitted_id = _cut_id(text, kept_spans, max_characters, pinned_spans)
        recall_id = omitted_id if has_recall else ""
        edits = _cap_records(
            chunked,
            max_characters,
            kept_spans or [(0, len(text))],
            pinned_spans,
            recall_id,
        )
        shown_length = len(apply_edits(text, edits))
        is_empty = not kept_spans and shown_length < max_characters // 3
        can_cut_middle = chunked.source_value is None and not pinned_spans
        if can_cut_middle and (is_empty or shown_length > max_characters):
            edits = [_middle_edit(chunked, max_characters, recall_id)]
        elif shown_length > max_characters:
            log_fallback(
                "ToolResult.cap",
                "an object without a list, or a text with a pinned part",
                "a result stayed longer than its limit",
            )
        return self._apply_edits({0: (omitted_id, edits)})

    def _apply_edits(self, edits: TextEdits) -> ReducedResult:
        """Return the value with the edits of its texts."""
        value = self.value
        omitted_texts = []
        for n, (omitted_id, text_edits) in edits.items():
            if not text_edits:
                continue
            chunked = self.chunked_texts[n]
            new_text = chunked.apply(text_edits)
            value = _replace_at(value, self.paths[n], new_text)
            left_out = left_out_text(chunked, text_edits)
            omitted_texts.append(OmittedText(omitted_id, left_out))
        return ReducedResult(value, tuple(omitted_texts))

    def _kept_spans(self, n: int, source_spans: Ranges) -> Ranges:
        """Return the kept spans of the n-th text, its pins, and its edge lines."""
        chunked = self.chunked_texts[n]
        pinned_spans = self._pinned_spans(chunked)
        kept_spans = pinned_spans + source_spans
        if kept_spans:
            return kept_spans + _edge_lines(chunked)
        last_index = len(self.passages) - 1
        is_edge = last_index > 0 and n in (0, last_index)
        if is_edge and _is_edge_line(chunked.text):
            return [(0, len(chunked.text))]
        return []

    @property
    def has_pin(self) -> bool:
        """Whether a part of a text must stay."""
        return any(map(self._pinned_spans, self.chunked_texts))

    def _pinned_spans(self, chunked: ChunkedText) -> Ranges:
        if self.is_pinned is None:
            return []
        pinned_spans = []
        for chunk in chunked.chunks:
            texts = (chunk.text_of(chunked.text), chunk.display_text)
            if any(map(self.is_pinned, texts)):
                pinned_spans.append(chunk.span)
        return pinned_spans


def read_pin(must_keep: Pin | None) -> Callable[[str], Any] | None:
    """Return a function that is true of a text that must be shown; None if none must.

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
    return partial(re.search, must_keep)


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
    if not isinstance(content, list):
        return False
    has_blocks_only = all(map(_is_typed_object, content))
    return has_blocks_only and (not content or _is_content(content))


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
            value = value.get(key) if isinstance(value, Mapping) else None
        if isinstance(value, str):
            yield path, value


def _replace_source(block: Any, reduced: ReducedResult) -> Any:
    """Return a content block with another text; JSON becomes a text if it was cut."""
    if not reduced.omitted_texts:
        return block
    for path, _ in _block_texts(block):
        return _replace_at(block, path, reduced.value)
    return {"type": "text", "text": reduced.value}


def _block_source(block: Any) -> str:
    """Return the text of a content block, or its JSON; "" if it always stays whole."""
    for _, text in _block_texts(block):
        return text
    if block.get("type") not in _JSON_TYPES:
        return ""
    try:
        return json.dumps(block, ensure_ascii=False)
    except (TypeError, ValueError, RecursionError):
        return ""  # what JSON cannot hold stays whole


def count_characters(content: Any) -> int:
    """Return the characters of a text, or of the content blocks that a cap can cut."""
    blocks = [content] if isinstance(content, str) else content
    return sum(map(len, map(_block_source, blocks)))


def log_long_blocks(content: Any, max_characters: int) -> None:
    """Log that content blocks which hold no text have more characters than this."""
    if isinstance(content, str):
        return
    blocks = [block for block in content if not any(_block_texts(block))]
    if len(str(blocks)) > max_characters:
        log_fallback(
            "ToolResult.cap",
            "its content blocks have more than text",
            "a result stayed longer than its limit",
        )


def _share_characters(sizes: Sequence[int], max_characters: int) -> list[int]:
    """Return the characters that a cap shows of each block: of a short one all or none.

    A long block gets half of the room, and the first of these what is left.
    """
    if sum(sizes) <= max_characters:
        return list(sizes)
    room = max_characters - _BLOCK_NOTE_CHARACTERS
    half = room // 2
    if half < MAX_NOTE_CHARACTERS:
        half = room
    demands = [min(size, half) for size in sizes]
    limits = [0] * len(sizes)
    for index in _fitting_ends(demands, room):
        limits[index] = demands[index]
    rest_length = room - sum(limits)
    for index, limit in enumerate(limits):
        if 0 < limit < sizes[index]:
            limits[index] += rest_length
            break
    return limits


def _fitting_ends(sizes: Sequence[int], room: int) -> list[int]:
    """Return the indices of items that fit together, those nearest to an end first."""
    last_index = len(sizes) - 1
    indices = sorted(
        range(len(sizes)), key=lambda index: min(index, last_index - index)
    )
    fitting = []
    for index in indices:
        if sizes[index] <= room:
            room -= sizes[index]
            fitting.append(index)
    return fitting


def _cut_id(*cut: Any) -> str:
    """Return an id of what a cut leaves out.

    It is made from all that decides what that is, so that equal ids mean equal texts in
    a conversation, whatever the ids of its calls.
    """
    source = repr(cut)
    digest = hashlib.sha256(source.encode("utf-8", "backslashreplace"))
    return digest.hexdigest()[:12]


def _replace_at(value: Any, path: JsonPath, new_value: Any) -> Any:
    """Return a copy of a value with another value at ``path``."""
    if not path:
        return new_value
    key: Any = path[0]
    inner_path = path[1:]
    copied = copy.copy(value)
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
            source_ids.add(passage.id)
            for passage_id in source_ids:
                passage_texts = rewritten_texts.setdefault(passage_id, [])
                passage_texts.append(passage.text)
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
    text = chunked.text
    first_end = text.find("\n") + 1
    last_start = text.rstrip().rfind("\n") + 1
    line_spans = [(0, first_end), (last_start, len(text))]
    return [span for span in line_spans if _is_edge_line(text[slice(*span)])]


def _is_edge_line(text: str) -> bool:
    """Whether a line is short and no sentence."""
    line = text.strip()
    is_short = len(line) <= MAX_EDGE_LINE_CHARACTERS
    is_sentence = line[-1:] in ".!?。"
    return is_short and not is_sentence


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


def build_query(user_message: str, arguments: Mapping[Any, Any]) -> str:
    """Return the query that a tool's result is denoised for.

    The user's last message, and the search text of the call if it adds something: an
    argument with a usual name, or the first one of several words. Without a message all
    arguments: others, such as paths and keys, say little about what is searched.
    """
    search_texts = [arguments.get(name) for name in _QUERY_ARGUMENTS]
    for argument in arguments.values():
        if isinstance(argument, str) and len(argument.split()) > 1:
            search_texts.append(argument)
    if not user_message:
        search_texts.append(arguments_text(arguments))
    search_text = ""
    for text in search_texts:
        if isinstance(text, str) and text.strip():
            search_text = text
            break
    if user_message and search_text in user_message:
        return user_message
    return f"{user_message}\n{search_text}".strip()


def _cap_records(
    chunked: ChunkedText,
    limit: int,
    kept_spans: Ranges,
    pinned_spans: Ranges,
    recall_id: str,
) -> list[TextEdit]:
    """Return the edits that leave the first and last records, and the pins.

    Empty if no record fits.
    """
    kept_chunks = [
        chunk for chunk in chunked.scored_chunks if clip_spans(kept_spans, *chunk.span)
    ]
    sizes = [chunk.length for chunk in kept_chunks]
    room = limit
    while True:
        shown_spans = [kept_chunks[n].span for n in _fitting_ends(sizes, room)]
        spans = shown_spans + pinned_spans
        edits = cut_text(chunked, spans, recall_id)
        excess = len(apply_edits(chunked.text, edits)) - limit
        if excess <= 0 or not shown_spans:
            return edits if spans else []
        # What is around the records counts too: their room is only an estimate, which
        # gets smaller by a share each time, so that few tries are needed.
        room = max(room - excess, room // 2) * 15 // 16


def _middle_edit(
    chunked: ChunkedText,
    max_characters: int,
    recall_id: str,
) -> TextEdit:
    """Return the edit that replaces the middle of a text by a line about it."""
    text_length = len(chunked.text)
    note = omission_note(text_length, text_length, "characters", recall_id)
    room = max_characters - len(note) - _NOTE_MARGIN
    half = max(0, room // 2)
    tail_start = text_length - half
    omitted_length = tail_start - half
    note = omission_note(text_length, omitted_length, "characters", recall_id)
    if chunked.text_format in _PARSED_FORMATS:
        note += f"; no longer {chunked.text_format.upper()}"
    return TextEdit(half, tail_start, f"\n[{note}]\n")


def recall_text(omitted_texts: Mapping[str, str], text_id: str) -> str:
    """Return the omitted text with this id, or a message with the known ids."""
    if text_id in omitted_texts:
        return omitted_texts[text_id]
    known_ids = ", ".join(omitted_texts) or "none"
    return f"There is no part {text_id!r}; there are: {known_ids}"
