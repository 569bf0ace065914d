"""JSON with the position of every value: one walker for chunking, evidence, answers.

Every position is a character of the raw text. A raw line break in a string is
accepted, because models and logs write it.
"""

from __future__ import annotations

import json
import re
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any, NamedTuple, TypeAlias

from denoise_core.spans import Ranges, clip_spans, complement_spans, join_spans

JsonPath: TypeAlias = tuple[str | int, ...]

_DECODER = json.JSONDecoder(strict=False)
_ESCAPE = re.compile(
    r"\\u[dD][89abAB][\da-fA-F]{2}\\u[dD][c-fC-F][\da-fA-F]{2}|\\u[\da-fA-F]{4}|\\."
)
_OPENING = ("{", "[")


class JsonMember(NamedTuple):
    """A field of an object or an element of a list.

    Attributes:
        name: The field's name or the element's number.
        start: First character of the name, or of the element.
        value_start: First character of the value.
        end: Character after the value.
        value: The parsed value.
    """

    name: str | int
    start: int
    value_start: int
    end: int
    value: Any


def skip_space(text: str, position: int) -> int:
    """Return the first position from ``position`` on that is not white space."""
    while position < len(text) and text[position] in " \t\n\r":
        position += 1
    return position


def load_json(text: str) -> Any:
    """Return the value of a JSON text; None for any other text."""
    try:
        return _DECODER.decode(text)
    except (ValueError, RecursionError):
        return None


def parse_json_at(text: str, position: int) -> tuple[Any, int] | None:
    """Return the JSON value that begins here and its end; None if none does."""
    try:
        return _DECODER.raw_decode(text, position)
    except (ValueError, RecursionError):
        return None


def json_members(text: str, position: int) -> Iterator[JsonMember]:
    """Yield the members of the object or list that begins at ``position``.

    Raises:
        ValueError: The JSON is incomplete or invalid.
        IndexError: The text ends before the JSON does.
        RecursionError: The JSON is nested too deeply.
    """
    is_list = text[position] == "["
    position = skip_space(text, position + 1)
    element_number = 0
    while text[position] not in "]}":
        member_start = position
        member_name: str | int = element_number
        if not is_list:
            member_name, position = _DECODER.raw_decode(text, position)
            position = skip_space(text, skip_space(text, position) + 1)
        value, value_end = _DECODER.raw_decode(text, position)
        yield JsonMember(member_name, member_start, position, value_end, value)
        position = skip_space(text, value_end)
        if text[position] == ",":
            position = skip_space(text, position + 1)
        element_number += 1


def json_leaves(text: str, position: int) -> Iterator[tuple[JsonPath, int, int]]:
    """Yield the path and the range of each value in the valid JSON at ``position``."""
    pending: list[tuple[JsonPath, int, int]] = [((), position, position)]
    while pending:
        path, start, end = pending.pop()
        if text[start] not in _OPENING:
            yield path, start, end
            continue
        for member in reversed(list(json_members(text, start))):
            member_path = (*path, member.name)
            pending.append((member_path, member.value_start, member.end))


def field_ranges(text: str, start: int, end: int) -> Ranges | None:
    """Return ranges that tile the object in ``text[start:end]``, one for each field.

    The object may follow its name. None for anything else and for a single field.
    """
    position = skip_space(text, start)
    if text[position : position + 1] == '"':
        position = text.find("{", start, end)
    if position < 0 or text[position : position + 1] != "{":
        return None
    try:
        field_starts = [member.start for member in json_members(text, position)]
    except (ValueError, IndexError, RecursionError):
        return None
    if len(field_starts) < 2:
        return None
    return list(pairwise([start, *field_starts[1:], end]))


def map_string_offsets(text: str, start: int, end: int) -> Callable[[int], int]:
    """Return a function from an offset in a string's value to one in the raw text.

    Args:
        text: The raw JSON.
        start: First character of the string after its quotation mark.
        end: Position of the closing quotation mark.
    """
    value_offsets = [0]
    raw_offsets = [start]
    for escape in _ESCAPE.finditer(text, start, end):
        plain_characters = escape.start() - raw_offsets[-1]
        value_offsets.append(value_offsets[-1] + plain_characters + 1)
        raw_offsets.append(escape.end())

    def raw_offset(value_offset: int) -> int:
        index = bisect_right(value_offsets, value_offset) - 1
        return raw_offsets[index] + value_offset - value_offsets[index]

    return raw_offset


def remove_items(items: Ranges, kept_spans: Ranges) -> Ranges:
    """Return the ranges of list items without a kept character.

    Each range includes the comma that would be left over.
    """
    removed_spans = []
    last_kept_end: int | None = None
    next_starts = [start for start, _ in items[1:]]
    for n, (start, end) in enumerate(items):
        if clip_spans(kept_spans, start, end):
            last_kept_end = end
        elif n < len(next_starts):
            removed_spans.append((start, next_starts[n]))
        elif last_kept_end is None:
            removed_spans.append((start, end))
        else:
            removed_spans.append((last_kept_end, end))
    return removed_spans


def remove_elements(
    text: str,
    chunks: Sequence[tuple[JsonPath, int]],
    kept_spans: Ranges,
) -> Ranges:
    """Return the ranges of list elements without a kept character.

    Args:
        text: The raw JSON.
        chunks: Path and first character of each chunk, in order. A number in a path
            marks a list that is reduced by elements. One path may lead to several
            lists, because a key may occur twice.
        kept_spans: Merged ranges of the raw text.
    """
    remover = _ElementRemover(text, kept_spans)
    for path, chunk_start in chunks:
        for depth, step in enumerate(path):
            if isinstance(step, int):
                remover.list_chunks.setdefault(path[:depth], []).append(chunk_start)
    for path in remover.list_chunks:
        remover.open_paths.update(path[:depth] for depth in range(len(path) + 1))
    if remover.list_chunks:
        remover.visit(skip_space(text, 0), len(text), ())
    return remover.removed_spans


@dataclass(slots=True)
class _ElementRemover:
    """Walks the JSON along the paths that lead to lists of chunks.

    ``list_chunks`` has the starts of the chunks under each list, in order.
    """

    text: str
    kept_spans: Ranges
    list_chunks: dict[JsonPath, list[int]] = field(default_factory=dict)
    open_paths: set[JsonPath] = field(default_factory=set)
    removed_spans: Ranges = field(default_factory=list)

    def visit(self, start: int, end: int, path: JsonPath) -> None:
        chunk_starts = self.list_chunks.get(path, [])
        first_chunk = bisect_left(chunk_starts, start)
        has_chunks = first_chunk < bisect_left(chunk_starts, end)
        by_element = self.text[start] == "[" and has_chunks
        members = list(json_members(self.text, start))
        if by_element:
            elements = [(member.start, member.end) for member in members]
            self.removed_spans += remove_items(elements, self.kept_spans)
        for member in members:
            step = member.name
            if not by_element:
                step = str(step)
            member_path = (*path, step)
            if by_element:
                kept_parts = clip_spans(self.kept_spans, member.start, member.end)
                if not kept_parts:
                    continue
            is_open = self.text[member.value_start] in _OPENING
            if is_open and member_path in self.open_paths:
                self.visit(member.value_start, member.end, member_path)


def value_without(value: Any, text: str, removed_spans: Ranges) -> Any:
    """Return a value without list elements and parts of strings.

    Args:
        value: The value whose JSON is ``text``.
        text: The JSON.
        removed_spans: Merged ranges of the JSON.

    Returns:
        A reduced copy. Parts from which nothing is removed are the same objects, so
        keys and rows keep the types that JSON does not have.
    """

    def reduce_part(part: Any, start: int, end: int) -> Any:
        inner_spans = clip_spans(removed_spans, start, end)
        if not inner_spans:
            return part
        if isinstance(part, str):
            kept_spans = complement_spans(inner_spans, start, end)
            return _DECODER.decode(join_spans(text, kept_spans))
        value_spans = [
            (member.value_start, member.end) for member in json_members(text, start)
        ]
        if isinstance(part, dict):
            fields = zip(part.items(), value_spans, strict=True)
            return {key: reduce_part(item, *span) for (key, item), span in fields}
        kept_elements = []
        for element, span in zip(part, value_spans, strict=True):
            if clip_spans(removed_spans, *span) != [span]:
                kept_elements.append(reduce_part(element, *span))
        if isinstance(part, tuple):
            return tuple(kept_elements)
        return kept_elements

    return reduce_part(value, 0, len(text))
