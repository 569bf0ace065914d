"""Records with exact ranges in the raw text: the rows of CSV, the elements of JSON's lists, lines of JSON."""

from __future__ import annotations

import csv
import json
import re
from bisect import bisect_left
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any, TypeAlias

from denoise_core.spans import clip_spans, complement_spans, join_spans
from denoise_core.text.piece import LONG, Piece, Range, tiled

Path: TypeAlias = tuple[str | int, ...]
Inner: TypeAlias = Callable[[str], Sequence[tuple[Piece, str, str]] | None]
"""Cuts a text that stands in JSON: each piece, what is read above it, and its own words; None for one piece."""

_DEEP = 12  # levels of nesting that are looked into
_SNIFFED = 50  # lines of a text that tell whether it is a table
_CSV_LIMIT = 2  # separators in each line, at least; with fewer, `_LEAST` lines
_LEAST = 4
_DECODER = json.JSONDecoder(strict=False)
_SPACE = re.compile(r"[ \t\n\r]*")
_ESCAPE = re.compile(r"\\u[dD][89abAB][\da-fA-F]{2}\\u[dD][c-fC-F][\da-fA-F]{2}|\\u[\da-fA-F]{4}|\\.")


def kind_of(text: str) -> str:
    """``"json"``, ``"jsonl"``, ``"rows"``, ``"csv"``, or ``""`` for a text that is none of them."""
    first = text[_skip(text, 0) :][:1]
    if first in ("{", "["):
        if _loaded(text) is not None:
            return "json"
        if first == "[" and literal_rows(text) is not None:
            return "rows"
        if first == "{" and all(line.lstrip()[:1] == "{" for line in text.split("\n") if line.strip()):
            return "jsonl"
    return "csv" if separator(text) else ""


# --- rows as a database's client prints them


def literal_rows(text: str) -> list[Piece] | None:
    """The tuples or records of a list as Python prints it, ``[(1, 'a', Decimal('2')), (2, ...)]``: a piece each.

    None where brackets and quotes do not close, or where it is no list of these.
    """
    start, end = text.find("["), text.rstrip().rfind("]")
    made: list[Piece] = []
    depth, quote, at, begun = 0, "", start + 1, -1
    while at < end:
        sign = text[at]
        if quote:
            at += sign == "\\"
            quote = "" if sign == quote else quote
        elif sign in "\"'" and depth:
            quote = sign
        elif sign in "([{":
            begun, depth = (at if not depth else begun), depth + 1
        elif sign in ")]}":
            depth -= 1
            if not depth:
                made.append(Piece(begun, at + 1, whole=True))
        elif not depth and sign not in ", \t\r\n":
            return None
        at += 1
    return tiled(text, made) if len(made) > 1 and not depth and not quote else None


# --- CSV


def separator(text: str) -> str:
    """What parts the cells of a table without bars: the sign of which each line has as many; "" for no table."""
    lines = text[:20_000].split("\n")[: _SNIFFED + 1]
    if len(lines) < 3 or ('"' in lines[0][1:] and lines[0].count('"') % 2):
        return ""
    for mark in ",;\t":
        wanted = lines[0].count(mark)
        if not wanted:
            continue
        try:
            rows = list(csv.reader((line for line in lines[:-1] if line.strip()), delimiter=mark))
        except csv.Error:
            continue
        if len(rows) < (2 if wanted >= _CSV_LIMIT else _LEAST) or len({len(r) for r in rows}) != 1:
            continue
        if all(len(cell) <= 60 and cell[-1:] not in (".", "!", "?") for cell in rows[0]):
            return mark
    return ""


def csv_rows(text: str) -> list[Piece] | None:
    """A piece for each row, under the header row; None where csv cannot read it."""
    mark = separator(text) or ","
    lines = text.splitlines(keepends=True) if "\x0b" not in text and "\x0c" not in text else text.split("\n")
    starts = [0]
    for line in lines:
        starts.append(starts[-1] + len(line))
    if starts[-1] != len(text):
        return None
    out: list[Piece] = []
    head: list[str] = []
    reader = csv.reader(lines, delimiter=mark)
    at = 0
    try:
        for row in reader:
            start, end = starts[at], starts[reader.line_num]
            at = reader.line_num
            if not out and not any(c.isdigit() for cell in row for c in cell[:1]) and len(set(row)) == len(row):
                head = row
                out.append(Piece(start, end, frame=True))
            elif not any(row) and out:
                out[-1] = Piece(
                    out[-1].start, end, out[-1].above, said=out[-1].said, frame=out[-1].frame, whole=True
                )
            else:
                above = ((out[0].start, out[0].end),) if head else ()
                said = "; ".join(f"{h}: {c}" for h, c in zip(head, row, strict=False) if c) if head else ""
                out.append(Piece(start, end, above, said=said, whole=True))
    except csv.Error:
        return None
    if len(out) == 1:
        return [Piece(0, len(text))]
    return tiled(text, out)


# --- JSON


def _loaded(text: str) -> Any:
    try:
        return json.loads(text, strict=False)
    except (ValueError, RecursionError):
        return None


def json_lines(text: str) -> list[Piece] | None:
    """A piece for each line."""
    out: list[Piece] = []
    at = 0
    for line in text.split("\n"):
        end = min(len(text), at + len(line) + 1)
        if line.strip():
            value = _loaded(line)
            out.append(Piece(at, end, said="" if value is None else said_of(value), whole=True))
        at = end
    return tiled(text, out)


def json_pieces(text: str, inner: Inner) -> list[Piece] | None:
    """Each element of a list of records is a piece, the fields around them another; long texts in it are cut by
    ``inner``."""
    value = _loaded(text)
    if not isinstance(value, dict | list):
        return None
    walk = _Walk(text, inner)
    try:
        walk.container(_skip(text, 0), value, (), ())
    except (RecursionError, IndexError, ValueError):
        return None
    return tiled(text, walk.made)


@dataclass(slots=True)
class _Walk:
    text: str
    inner: Inner
    made: list[Piece] = field(default_factory=list)

    def container(self, start: int, value: Any, path: Path, above: tuple[Range, ...]) -> None:
        """The members of the object or list that begins at ``start``: what is small goes together."""
        as_list = isinstance(value, list)
        apart = as_list and len(value) > 1 and all(isinstance(v, dict | list | str) for v in value)
        record = bool(path) and isinstance(path[-1], int)
        run: list[tuple[str | int, int, int, Any]] = []
        first = above

        def flush() -> None:
            """Small members side by side are one piece; in a record, the first of them stands above the rest."""
            nonlocal first
            if run:
                own = run[0][1], run[-1][2]
                values = [m for *_, m in run] if as_list else {str(n): m for n, *_, m in run}
                self.made.append(Piece(*own, first, _named(path), said_of(values), whole=True, path=path))
                run.clear()
                first = (*above, own) if record and first == above and own[1] - own[0] <= LONG else first

        for name, begun, at, stop, member in members(self.text, start, as_list):
            size = stop - at
            here = (*path, name if apart else str(name))  # a number leads to a record that may go
            nested = isinstance(member, dict | list) and len(path) < _DEEP
            long = isinstance(member, str) and size > LONG // 2
            if not (apart or long or (nested and (size > LONG // 2 or _records(member)))):
                run.append((name, begun, stop, member))
                continue
            flush()
            listed = isinstance(member, dict) and any(map(_records, member.values()))
            if nested and (size > (2 - listed) * LONG or not apart):
                self.container(at, member, here, first)
            elif long:
                self.string(begun, at, stop, member, here, first)  # pyright: ignore
            else:
                self.made.append(Piece(begun, stop, first, _named(here), said_of(member), whole=True, path=here))
        flush()

    def string(self, begun: int, at: int, stop: int, said: str, path: Path, above: tuple[Range, ...]) -> None:
        """A long text, cut in its turn."""
        parts = self.inner(said)
        if parts is None:
            inside = at + 1, stop - 1
            self.made.append(Piece(begun, stop, above, _named(path), said, whole=True, path=path, inside=inside))
            return
        raw = _places(self.text, at + 1, stop - 1)
        for n, (part, over, own) in enumerate(parts):
            start = begun if n == 0 else raw(part.start)
            end = stop if n == len(parts) - 1 else raw(part.end)
            tops = (*above, *((raw(a), raw(b)) for a, b in part.above))
            header = "\n".join(s for s in (_named(path), over) if s)
            inside = raw(part.start), raw(part.end)
            self.made.append(Piece(start, end, tops, header, own, part.frame, True, path, inside))


def members(text: str, at: int, as_list: bool) -> Iterator[tuple[str | int, int, int, int, Any]]:
    """Of the object or list that begins at ``at``: name or number, where it begins with its name, range of the
    value, and the value."""
    at = _skip(text, at + 1)
    n = 0
    while text[at] not in "]}":
        begun = at
        name: str | int = n
        if not as_list:
            name, at = _DECODER.raw_decode(text, at)
            at = _skip(text, _skip(text, at) + 1)
        value, stop = _DECODER.raw_decode(text, at)
        yield name, begun, at, stop, value
        at = _skip(text, stop)
        if text[at] == ",":
            at = _skip(text, at + 1)
        n += 1


def _skip(text: str, at: int) -> int:
    return _SPACE.match(text, at).end()  # type: ignore[union-attr]  # it matches nothing, too


def _records(value: Any) -> bool:
    """Whether it is a list of objects, or of rows with a text in each."""

    def row(cells: Any) -> bool:
        return isinstance(cells, list) and any(isinstance(cell, str) for cell in cells)

    return (
        isinstance(value, list)
        and len(value) > 1
        and (all(isinstance(v, dict) for v in value) or all(map(row, value)))
    )


def _named(path: Path) -> str:
    return ".".join(p for p in path if isinstance(p, str) and not p.isdigit())


def said_of(value: Any, name: str = "") -> str:
    """The names and values of a JSON value, a line each; nothing empty."""
    if isinstance(value, dict):
        return "\n".join(s for k, v in value.items() if (s := said_of(v, f"{name}.{k}" if name else str(k))))
    if isinstance(value, list):
        if all(not isinstance(v, dict | list) for v in value):
            shown = ", ".join(str(v) for v in value if v not in (None, ""))
            return (f"{name}: {shown}" if name else shown) if shown else ""
        return "\n".join(s for v in value if (s := said_of(v, name)))
    if value is None or value == "":
        return ""
    return f"{name}: {value}" if name else str(value)


def _places(text: str, start: int, end: int) -> Callable[[int], int]:
    """From a character of a JSON string's value to its place in the raw text ``[start, end)``."""
    if "\\" not in text[start:end]:
        return lambda at: start + at
    at_value, shift = [0], [0]
    lost = 0
    for found in _ESCAPE.finditer(text, start, end):
        lost += len(found[0]) - 1
        at_value.append(found.end() - start - lost)
        shift.append(lost)

    def raw(at: int) -> int:
        n = bisect_left(at_value, at + 1) - 1
        return start + at + shift[n]

    return raw


def members_of(text: str, start: int, end: int) -> list[Range] | None:
    """The members of the object at ``[start, end)``, which tile it with what is around; None for no object."""
    at = _skip(text, start)
    if text[at : at + 1] != "{":
        at = text.find("{", start, end) if text[at : at + 1] == '"' else -1
    if at < 0:
        return None
    try:
        begins = [begun for _, begun, *_ in members(text, at, False)]
    except (ValueError, IndexError, RecursionError):
        return None
    return list(pairwise([start, *begins[1:], end])) if len(begins) > 1 else None


# --- What goes out of a list or a text


def removed_rows(text: str, pieces: Sequence[Piece], kept: Sequence[Range]) -> list[Range]:
    """The ranges of a list as Python prints it that go: rows of which nothing is kept, each with its comma.

    ``kept`` is in order, and no two of it overlap.
    """
    rows = [(p.start, p.start + len(text[p.start : p.end].rstrip(", \t\r\n"))) for p in pieces if not p.frame]
    return _removed_items(rows, kept)


def removed_json(text: str, pieces: Sequence[Piece], kept: Sequence[Range]) -> list[Range]:
    """The ranges of a JSON text that go: elements of lists and parts of strings of which nothing is kept.

    What is left is JSON again, and every character of it that is kept stands as it did. ``kept`` is in order, and
    no two of it overlap.
    """
    strings = [p.inside for p in pieces if p.inside is not None]
    removed = [inside for inside in strings if not clip_spans(kept, *inside)]
    lists: set[Path] = set()
    for piece in pieces:
        lists.update(piece.path[:n] for n, step in enumerate(piece.path) if isinstance(step, int))
    reached = {path[:n] for path in lists for n in range(len(path) + 1)}

    def walk(at: int, path: Path) -> None:
        as_list = text[at] == "["
        has_records = as_list and path in lists
        items = list(members(text, at, as_list))
        if has_records:
            removed.extend(_removed_items([(begun, stop) for _, begun, _, stop, _ in items], kept))
        for name, begun, start, stop, value in items:
            step = (*path, name if has_records else str(name))
            is_left = not has_records or bool(clip_spans(kept, begun, stop))
            if is_left and step in reached and isinstance(value, dict | list):
                walk(start, step)

    if lists:
        walk(_skip(text, 0), ())
    return removed


def _removed_items(items: Sequence[Range], kept: Sequence[Range]) -> list[Range]:
    """The items of a list that go, and the commas that would be too many then."""
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


def without(value: Any, text: str, removed: Sequence[Range]) -> Any:
    """The value of which ``text`` is the JSON, without the ranges that `removed_json` gives, in order and apart.

    What nothing is removed from is the same object, so keys and rows keep the types that JSON does not have.
    """

    def walk(part: Any, start: int, stop: int) -> Any:
        here = clip_spans(removed, start, stop)
        if not here:
            return part
        if isinstance(part, str):
            return _DECODER.decode(join_spans(text, complement_spans(here, start, stop)))
        if isinstance(part, dict):
            inside = members(text, start, False)
            pairs = zip(part.items(), inside, strict=True)
            return {key: walk(member, at, end) for (key, member), (_, _, at, end, _) in pairs}
        left: list[Any] = []
        for member, (_, _, at, end, _) in zip(part, members(text, start, True), strict=True):
            if clip_spans(removed, at, end) != [(at, end)]:
                left.append(walk(member, at, end))
        return tuple(left) if isinstance(part, tuple) else left

    return walk(value, _skip(text, 0), len(text.rstrip(" \t\r\n")))
