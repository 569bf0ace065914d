"""JSON with the places of its values: one walker for cutting, for evidence and for answers.

Every place is a character of the raw text. A raw line break in a string is taken, as models and logs write it.
"""

from __future__ import annotations

import json
import re
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise
from typing import Any, NamedTuple, TypeAlias

from denoise_core.spans import Range, clip_spans, complement_spans, join_spans

JsonPath: TypeAlias = tuple[str | int, ...]

_DECODER = json.JSONDecoder(strict=False)
_ESCAPE = re.compile(
    r"\\u[dD][89abAB][\da-fA-F]{2}\\u[dD][c-fC-F][\da-fA-F]{2}|\\u[\da-fA-F]{4}|\\."
)


class JsonMember(NamedTuple):
    """A field of an object or an element of a list, under its name or number. The characters ``[start, end)`` are
    its own with its name, ``[value_start, end)`` those of the value."""

    name: str | int
    start: int
    value_start: int
    end: int
    value: Any


def skip_space(text: str, at: int) -> int:
    """The next place from ``at`` on that is no white space."""
    while at < len(text) and text[at] in " \t\n\r":
        at += 1
    return at


def load_json(text: str) -> Any:
    """The value of a JSON text; None for any other text."""
    try:
        return _DECODER.decode(text)
    except (ValueError, RecursionError):
        return None


def parse_json_at(text: str, at: int) -> tuple[Any, int] | None:
    """The JSON value that begins at ``at``, and where it ends; None where none begins."""
    try:
        return _DECODER.raw_decode(text, at)
    except (ValueError, RecursionError):
        return None


def json_members(text: str, at: int) -> Iterator[JsonMember]:
    """The members of the object or list that begins at ``at``.

    Raises `ValueError`, `IndexError` or `RecursionError` where it is no whole JSON.
    """
    is_list = text[at] == "["
    at = skip_space(text, at + 1)
    number = 0
    while text[at] not in "]}":
        start = at
        name: str | int = number
        if not is_list:
            name, at = _DECODER.raw_decode(text, at)
            at = skip_space(text, skip_space(text, at) + 1)
        value, end = _DECODER.raw_decode(text, at)
        yield JsonMember(name, start, at, end, value)
        at = skip_space(text, end)
        if text[at] == ",":
            at = skip_space(text, at + 1)
        number += 1


def json_leaves(text: str, at: int) -> Iterator[tuple[JsonPath, int, int]]:
    """The path and the characters of each value in the JSON that begins at ``at``, which is known to be whole."""
    todo: list[tuple[JsonPath, int, int]] = [((), at, at)]
    while todo:
        path, start, end = todo.pop()
        if text[start] in "{[":
            inside = [
                ((*path, m.name), m.value_start, m.end)
                for m in json_members(text, start)
            ]
            todo += reversed(inside)
        else:
            yield path, start, end


def field_ranges(text: str, start: int, end: int) -> list[Range] | None:
    """The fields of the object at ``[start, end)``, behind its name or not, as ranges that tile it; None for
    anything else, and for one field."""
    at = skip_space(text, start)
    if text[at : at + 1] == '"':
        at = text.find("{", start, end)
    if at < 0 or text[at : at + 1] != "{":
        return None
    try:
        starts = [m.start for m in json_members(text, at)]
    except (ValueError, IndexError, RecursionError):
        return None
    return list(pairwise([start, *starts[1:], end])) if len(starts) > 1 else None


def map_string_offsets(text: str, start: int, end: int) -> Callable[[int], int]:
    """From a character of a string's value to its place in the raw text, where the string is ``[start, end)``."""
    value_places, raw_places = [0], [start]
    for escape in _ESCAPE.finditer(text, start, end):
        value_places.append(value_places[-1] + escape.start() - raw_places[-1] + 1)
        raw_places.append(escape.end())

    def place(at: int) -> int:
        last = bisect_right(value_places, at) - 1
        return raw_places[last] + at - value_places[last]

    return place


def remove_items(items: Sequence[Range], kept: Sequence[Range]) -> list[Range]:
    """The ranges of a list's items of which nothing is kept, with the commas that would be too many then."""
    removed: list[Range] = []
    last_kept_end: int | None = None
    next_starts = [start for start, _ in items[1:]]
    for n, (start, end) in enumerate(items):
        if clip_spans(kept, start, end):
            last_kept_end = end
        elif n < len(next_starts):
            removed.append((start, next_starts[n]))
        else:
            removed.append((start if last_kept_end is None else last_kept_end, end))
    return removed


def remove_elements(
    text: str, pieces: Sequence[tuple[JsonPath, int]], kept: Sequence[Range]
) -> list[Range]:
    """The ranges of list elements of which nothing is kept.

    ``pieces`` are paths, each with the place where its piece begins, in order; a list goes by elements where a
    path through it has a number for its step. A path may lead to several lists, since a key may come twice.
    ``kept`` is apart.
    """
    lists: dict[JsonPath, list[int]] = {}
    for path, start in pieces:
        for n, step in enumerate(path):
            if isinstance(step, int):
                lists.setdefault(path[:n], []).append(start)
    reached = {path[:n] for path in lists for n in range(len(path) + 1)}
    removed: list[Range] = []

    def walk(at: int, end: int, path: JsonPath) -> None:
        starts = lists.get(path, [])
        by_element = text[at] == "[" and bisect_left(starts, at) < bisect_left(
            starts, end
        )
        inside = list(json_members(text, at))
        if by_element:
            removed.extend(remove_items([(m.start, m.end) for m in inside], kept))
            inside = [m for m in inside if clip_spans(kept, m.start, m.end)]
        for member in inside:
            step = (*path, member.name if by_element else str(member.name))
            if step in reached and text[member.value_start] in "{[":
                walk(member.value_start, member.end, step)

    if lists:
        walk(skip_space(text, 0), len(text), ())
    return removed


def value_without(value: Any, text: str, removed: Sequence[Range]) -> Any:
    """The value of which ``text`` is the JSON, without ranges that are apart: elements, and parts of strings.

    What nothing is removed from is the same object, so keys and rows keep the types that JSON does not have.
    """

    def walk(part: Any, start: int, end: int) -> Any:
        here = clip_spans(removed, start, end)
        if not here:
            return part
        if isinstance(part, str):
            return _DECODER.decode(join_spans(text, complement_spans(here, start, end)))
        inside = [(m.value_start, m.end) for m in json_members(text, start)]
        if isinstance(part, dict):
            return {
                key: walk(part[key], *place)
                for key, place in zip(part, inside, strict=True)
            }
        left = [
            walk(element, *place)
            for element, place in zip(part, inside, strict=True)
            if clip_spans(removed, *place) != [place]
        ]
        return tuple(left) if isinstance(part, tuple) else left

    return walk(value, 0, len(text))
