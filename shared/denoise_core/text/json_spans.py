"""JSON with the position of every value: one walker for chunking, evidence, answers.

Every position is a character of the raw text. A raw line break in a string is
accepted, because models and logs write it.
"""

from __future__ import annotations

import copy
import json
import re
import sys
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import fields, is_dataclass
from itertools import chain, pairwise
from typing import Any, NamedTuple, TypeAlias

from denoise_core.spans import Range, Ranges, clip_spans, merge_spans

JsonPath: TypeAlias = tuple[str | int, ...]

_DECODER = json.JSONDecoder(strict=False)
_ESCAPE = re.compile(
    r"\\u[dD][89abAB][\da-fA-F]{2}\\u[dD][c-fC-F][\da-fA-F]{2}|\\u[\da-fA-F]{4}|\\."
)
_OPENING = ("{", "[")
BYTE_ORDER_MARK = "\ufeff"
"""Some servers write it before a text."""


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
    while position < len(text) and text[position] in f" \t\n\r{BYTE_ORDER_MARK}":
        position += 1
    return position


def load_json(text: str) -> Any:
    """Return the value of a JSON text; None for any other text.

    Byte order marks before it are ignored, as servers write them.
    """
    try:
        return _DECODER.decode(text.lstrip(BYTE_ORDER_MARK))
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
            colon_position = skip_space(text, position)
            position = skip_space(text, colon_position + 1)
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
        members = list(json_members(text, start))
        for member in reversed(members):
            member_path = (*path, member.name)
            pending.append((member_path, member.value_start, member.end))


def field_ranges(text: str, start: int, end: int) -> Ranges | None:
    """Return ranges that tile the object in ``text[start:end]``, one for each field.

    The object may follow its name. None for anything else and for a single field.
    """
    position = skip_space(text, start)
    if text[position : position + 1] == '"':
        position = text.find("{", start, end)
    if text[position : position + 1] != "{":
        return None
    try:
        field_starts = [member.start for member in json_members(text, position)]
    except (ValueError, IndexError, RecursionError):
        return None
    if len(field_starts) < 2:
        return None
    boundaries = [start, *field_starts[1:], end]
    return list(pairwise(boundaries))


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
        next_offset = value_offsets[-1] + plain_characters + 1
        value_offsets.append(next_offset)
        raw_offsets.append(escape.end())

    def raw_offset(value_offset: int) -> int:
        index = bisect_right(value_offsets, value_offset) - 1
        shift = value_offset - value_offsets[index]
        return raw_offsets[index] + shift

    return raw_offset


class TextEdit(NamedTuple):
    """The range ``[start, end)`` of a text, and what replaces it."""

    start: int
    end: int
    replacement: str = ""


def apply_edits(
    text: str, edits: Iterable[TextEdit], start: int = 0, end: int = sys.maxsize
) -> str:
    """Return ``text[start:end]`` with each edit made.

    The edits are inside it and in order, and do not overlap.
    """
    parts: list[str] = []
    position = start
    for edit in edits:
        parts += (text[position : edit.start], edit.replacement)
        position = edit.end
    return "".join((*parts, text[position:end]))


class ListCut(NamedTuple):
    """Items that leave one list, or rows that leave one table.

    Attributes:
        start: Position of the opening bracket of the list or table.
        removed_spans: Merged ranges, with the commas that would be left over.
        item_count: Items before the cut.
        dropped_count: Items that leave.
        is_table: Whether the items are rows, spread over several lists or objects.
    """

    start: int
    removed_spans: Ranges
    item_count: int
    dropped_count: int
    is_table: bool = False


class ItemList(NamedTuple):
    """A list that may lose items, or a table that may lose rows.

    Attributes:
        start: Position of the opening bracket.
        item_spans: The range of each item; for a table, those of each of its lists.
        outer_span: The item of another list that this one is in.
        is_table: Whether the items are rows, spread over several lists or objects.
    """

    start: int
    item_spans: list[Ranges]
    outer_span: Range | None = None
    is_table: bool = False

    def cut(self, kept_spans: Ranges) -> ListCut:
        """Return the cut of the items without a kept character."""
        removed_items = []
        for items in self.item_spans:
            removed_items.append(_removed_items(items, kept_spans))
        removed_spans = merge_spans(chain.from_iterable(removed_items))
        return ListCut(
            self.start,
            removed_spans,
            len(self.item_spans[0]),
            len(removed_items[0]),
            self.is_table,
        )


def _removed_items(items: Ranges, kept_spans: Ranges) -> Ranges:
    """Return what leaves with the items that have no kept character."""
    removed_spans = []
    last_kept_end: int | None = None
    next_starts = [item_start for item_start, _ in items[1:]]
    for n, (item_start, item_end) in enumerate(items):
        if clip_spans(kept_spans, item_start, item_end):
            last_kept_end = item_end
        elif n < len(next_starts):
            removed_spans.append((item_start, next_starts[n]))
        elif last_kept_end is None:
            removed_spans.append((item_start, item_end))
        else:
            removed_spans.append((last_kept_end, item_end))
    return removed_spans


def object_fields(value: Any) -> dict[str, Any] | None:
    """Return the fields of a dataclass or pydantic object; None for any other value."""
    names: Iterable[str]
    if isinstance(value, type):
        return None
    if is_dataclass(value):
        names = [item.name for item in fields(value)]
    elif hasattr(type(value), "model_fields"):
        names = type(value).model_fields
    else:
        return None
    return {name: getattr(value, name) for name in names}


def _with_fields(value: Any, changed_fields: dict[str, Any]) -> Any:
    """Return a copy of a dataclass or pydantic object with other fields."""
    copied = copy.copy(value)
    for name, item in changed_fields.items():
        object.__setattr__(copied, name, item)
    return copied


def edit_value(value: Any, text: str, edits: Sequence[TextEdit]) -> Any:
    """Return a value with the edits of its JSON.

    Args:
        value: The value whose JSON is ``text``.
        text: The JSON.
        edits: In order, without overlaps: list elements that leave, with an element
            that replaces them; parts of strings; fields that leave or are added.

    Returns:
        A changed copy. Parts without an edit are the same objects, so keys and rows
        keep the types that JSON does not have.
    """
    return _ValueEditor(text, edits).edit_part(value, 0, len(text))


class _ValueEditor:
    """Edits parts of a value; the edits are in order and do not overlap."""

    def __init__(self, text: str, edits: Sequence[TextEdit]) -> None:
        self.text = text
        self.edits = edits

    def edit_part(self, part: Any, start: int, end: int) -> Any:
        start = skip_space(self.text, start)
        inner_edits = self._edits_in(start, end)
        if not inner_edits:
            return part
        if isinstance(part, str):
            edited_text = apply_edits(self.text, inner_edits, start, end)
            return _DECODER.decode(edited_text)
        if isinstance(part, dict):
            return self.edit_fields(part, start, inner_edits[0])
        value_fields = object_fields(part)
        if value_fields is not None:
            edited_fields = self.edit_fields(value_fields, start, inner_edits[0])
            return _with_fields(part, edited_fields)
        if isinstance(part, tuple):
            return tuple(self.edit_elements(part, start))
        if isinstance(part, list):
            return list(self.edit_elements(part, start))
        return part

    def _edits_in(self, start: int, end: int) -> Sequence[TextEdit]:
        """Return the edits that touch this range."""
        first = bisect_right(self.edits, start, key=lambda edit: edit.end)
        after = bisect_left(self.edits, end, key=lambda edit: edit.start)
        return self.edits[first:after]

    def _removing_edit(self, member: JsonMember) -> TextEdit | None:
        for edit in self._edits_in(member.start, member.end):
            if edit.start <= member.start and member.end <= edit.end:
                return edit
        return None

    def edit_fields(
        self, value_fields: dict[Any, Any], start: int, first_edit: TextEdit
    ) -> dict[Any, Any]:
        edited_fields: dict[Any, Any] = {}
        is_addition = first_edit.start == first_edit.end == start + 1
        if is_addition:
            added_members = first_edit.replacement.rstrip(", ")
            added_object = "{" + added_members + "}"
            edited_fields |= load_json(added_object)
        members = json_members(self.text, start)
        for (key, item), member in zip(value_fields.items(), members, strict=True):
            if self._removing_edit(member) is None:
                edited_fields[key] = self.edit_part(
                    item, member.value_start, member.end
                )
        return edited_fields

    def edit_elements(self, elements: Sequence[Any], start: int) -> Iterator[Any]:
        noted_edit: TextEdit | None = None
        members = json_members(self.text, start)
        for element, member in zip(elements, members, strict=True):
            removing_edit = self._removing_edit(member)
            if removing_edit is None:
                yield self.edit_part(element, member.value_start, member.end)
                continue
            replacement = removing_edit.replacement.strip(", \t\r\n")
            if replacement and removing_edit != noted_edit:
                noted_edit = removing_edit
                note = load_json(replacement)
                if isinstance(element, tuple):
                    note = tuple(note)
                yield note
