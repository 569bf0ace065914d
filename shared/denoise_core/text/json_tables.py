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


def find_table_rows(value: Any) -> TableRows | None:
    """Return the rows of a JSON value that is a table; None for any other value."""
    if not isinstance(value, dict):
        return None
    return _matrix_rows(value) or _parallel_rows(value)


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


def _matrix_rows(value: Mapping[str, Any]) -> TableRows | None:
    """Return the rows of ``orient="columns"`` or ``"index"``.

    Either is an object of objects with the same keys; rows are numbered, or else there
    are more rows than columns.
    """
    members = list(value.values())
    if len(members) < 2 or not isinstance(members[0], dict):
        return None
    outer_names = list(value)
    inner_names = list(members[0])
    if not all(isinstance(m, dict) and list(m) == inner_names for m in members):
        return None
    outer_rank = _are_numbers(outer_names), len(outer_names)
    inner_rank = _are_numbers(inner_names), len(inner_names)
    has_outer_rows = outer_rank > inner_rank
    row_names = inner_names
    if has_outer_rows:
        row_names = outer_names
    if len(row_names) < MIN_TABLE_ROWS:
        return None
    if has_outer_rows:
        return [[(row_name,)] for row_name in outer_names]
    rows: TableRows = []
    for row_name in inner_names:
        rows.append([(outer_name, row_name) for outer_name in outer_names])
    return rows


def _are_numbers(names: Sequence[str]) -> bool:
    return all(name.isdigit() for name in names)


def _parallel_rows(value: Mapping[str, Any]) -> TableRows | None:
    """Return the rows of parallel lists: the longest that share their length.

    ``orient="split"`` and ``"tight"`` are such: the index and the data.
    """
    paths_by_length = _lists_by_length(value)
    for length in sorted(paths_by_length, reverse=True):
        paths = paths_by_length[length]
        if length < MIN_TABLE_ROWS or len(paths) < 2:
            continue
        return [[(*path, n) for path in paths] for n in range(length)]
    return None


def _lists_by_length(value: Mapping[str, Any]) -> dict[int, list[JsonPath]]:
    """Return the paths of an object's lists, by the number of their elements.

    A list of one list counts as the inner one, as in a vector store's answer to one
    query. The names of another list's columns are no rows, so they are left out.
    """
    lists: dict[JsonPath, list[Any]] = {}
    for name, items in value.items():
        if not isinstance(items, list):
            continue
        if len(items) == 1 and isinstance(items[0], list):
            lists[name, 0] = items[0]
        else:
            lists[name,] = items
    widths: set[int] = set()
    for items in lists.values():
        if all(isinstance(item, list) for item in items):
            widths.update(map(len, items))
    paths_by_length: dict[int, list[JsonPath]] = {}
    is_split = {"columns", "index", "data"}.issubset(value)
    for path, items in lists.items():
        length = len(items)
        has_only_names = all(isinstance(item, str) for item in items)
        is_header = has_only_names and length in widths
        if is_split:
            # The index may have the names' length, and names may be numbers.
            is_header = path == ("columns",)
        if not is_header:
            paths_by_length.setdefault(length, []).append(path)
    return paths_by_length
