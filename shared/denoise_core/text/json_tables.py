"""Tables in JSON whose rows are spread over several lists or objects.

pandas writes ``orient="split"``, ``"tight"``, ``"columns"`` and ``"index"``; vector
stores and weather services write parallel lists. A row of such a table has several
parts, which are shown together or left out together.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

from denoise_core.text.json_spans import JsonPath

TableRows: TypeAlias = list[list[JsonPath]]
"""For each row the paths of its parts, relative to the table."""

MIN_TABLE_ROWS = 8
"""Shorter lists may have one length by chance, so they are no table."""

_SPLIT_NAMES = frozenset(("columns", "index", "data"))


def find_table_rows(value: Any) -> TableRows | None:
    """Return the rows of a JSON value that is a table; None for any other value."""
    if not isinstance(value, dict):
        return None
    return _split_rows(value) or _matrix_rows(value) or _parallel_rows(value)


def find_tied_lists(value: Any) -> frozenset[str]:
    """Return the names of lists in an object that have the length of another one.

    They may belong together, element by element, so they are not cut alone.
    """
    if not isinstance(value, dict):
        return frozenset()
    tied_names: set[str] = set()
    for length, paths in _lists_by_length(value).items():
        if length > 1 and len(paths) > 1:
            tied_names.update(str(path[0]) for path in paths)
    return frozenset(tied_names)


def _split_rows(value: Mapping[str, Any]) -> TableRows | None:
    """Return the rows of ``orient="split"`` or ``"tight"``."""
    if not _SPLIT_NAMES.issubset(value):
        return None
    index, data = value["index"], value["data"]
    if not isinstance(index, list) or not isinstance(data, list):
        return None
    if len(index) != len(data):
        return None
    return [[("index", n), ("data", n)] for n in range(len(data))]


def _matrix_rows(value: Mapping[str, Any]) -> TableRows | None:
    """Return the rows of ``orient="columns"`` or ``"index"``.

    Either is an object of objects with the same keys; rows are numbered, or else there
    are more rows than columns.
    """
    members = list(value.values())
    if len(members) < 2 or not all(isinstance(member, dict) for member in members):
        return None
    outer_names = list(value)
    inner_names = list(members[0])
    if any(list(member) != inner_names for member in members):
        return None
    numbered = [_are_numbers(outer_names), _are_numbers(inner_names)]
    has_outer_rows = len(outer_names) > len(inner_names)
    if numbered[0] != numbered[1]:
        has_outer_rows = numbered[0]
    if has_outer_rows and len(outer_names) >= MIN_TABLE_ROWS:
        return [[(name,)] for name in outer_names]
    if not has_outer_rows and len(inner_names) >= MIN_TABLE_ROWS:
        return [[(outer, inner) for outer in outer_names] for inner in inner_names]
    return None


def _are_numbers(names: Sequence[str]) -> bool:
    return all(name.isdigit() for name in names)


def _parallel_rows(value: Mapping[str, Any]) -> TableRows | None:
    """Return the rows of parallel lists: the longest that share their length."""
    for length, paths in sorted(_lists_by_length(value).items(), reverse=True):
        if length >= MIN_TABLE_ROWS and len(paths) > 1:
            return [[(*path, n) for path in paths] for n in range(length)]
    return None


def _lists_by_length(value: Mapping[str, Any]) -> dict[int, list[JsonPath]]:
    """Return the paths of an object's lists, by the number of their elements.

    A list of one list counts as the inner one, as in a vector store's answer to one
    query. The names of another list's columns are no rows, so they are left out.
    """
    lists: list[tuple[JsonPath, list[Any]]] = []
    for name, items in value.items():
        path: JsonPath = (name,)
        if isinstance(items, list) and len(items) == 1 and isinstance(items[0], list):
            path = (name, 0)
            items = items[0]
        if isinstance(items, list):
            lists.append((path, items))
    widths: set[int] = set()
    for _, items in lists:
        if items and all(isinstance(item, list) for item in items):
            widths.update(len(item) for item in items)
    paths_by_length: dict[int, list[JsonPath]] = {}
    for path, items in lists:
        is_header = len(items) in widths and all(isinstance(i, str) for i in items)
        if not is_header:
            paths_by_length.setdefault(len(items), []).append(path)
    return paths_by_length
