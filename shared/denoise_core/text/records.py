"""Records with exact ranges in the raw text: the rows of CSV, the elements of JSON's lists, lines of JSON."""

from __future__ import annotations

import csv
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import accumulate
from typing import Any, TypeAlias

from denoise_core.spans import Range, clip_spans, merge_spans
from denoise_core.text.json_spans import (
    JsonMember,
    JsonPath,
    json_members,
    load_json,
    map_string_offsets,
    remove_elements,
    remove_items,
    skip_space,
)
from denoise_core.text.text_chunk import (
    MAX_CHUNK_CHARACTERS,
    TextChunk,
    fill_gaps,
    line_spans,
)

InnerChunker: TypeAlias = Callable[[str], Sequence[tuple[TextChunk, str, str]] | None]
"""Cuts a text that stands in JSON: each piece, what is read above it, and its own words; None for one piece."""

_DEEP = 12  # levels of nesting that are looked into
_SNIFFED = 50  # lines of a text that tell whether it is a table
_CSV_LIMIT = 2  # separators in each line, at least; with fewer, `_LEAST` lines
_LEAST = 4


def detect_record_format(text: str) -> str:
    """``"json"``, ``"jsonl"``, ``"rows"``, ``"csv"``, or ``""`` for a text that is none of them."""
    first = text[skip_space(text, 0) :][:1]
    if first in ("{", "["):
        if load_json(text) is not None:
            return "json"
        if first == "[" and parse_python_rows(text) is not None:
            return "rows"
        if first == "{" and all(
            line.lstrip()[:1] == "{" for line in text.split("\n") if line.strip()
        ):
            return "jsonl"
    return "csv" if detect_delimiter(text) else ""


# --- rows as a database's client prints them


def parse_python_rows(text: str) -> list[TextChunk] | None:
    """The tuples or records of a list as Python prints it, ``[(1, 'a', Decimal('2')), (2, ...)]``: a piece each.

    None where brackets and quotes do not close, or where it is no list of these.
    """
    start, end = text.find("["), text.rstrip().rfind("]")
    made: list[TextChunk] = []
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
                made.append(TextChunk(begun, at + 1, is_atomic=True))
        elif not depth and sign not in ", \t\r\n":
            return None
        at += 1
    return fill_gaps(text, made) if len(made) > 1 and not depth and not quote else None


# --- CSV


def detect_delimiter(text: str) -> str:
    """What parts the cells of a table without bars: the sign of which each line has as many; "" for no table."""
    lines = text[:20_000].split("\n")[: _SNIFFED + 1]
    if len(lines) < 3 or ('"' in lines[0][1:] and lines[0].count('"') % 2):
        return ""
    for mark in ",;\t":
        wanted = lines[0].count(mark)
        if not wanted:
            continue
        try:
            rows = list(
                csv.reader(
                    (line for line in lines[:-1] if line.strip()), delimiter=mark
                )
            )
        except csv.Error:
            continue
        if (
            len(rows) < (2 if wanted >= _CSV_LIMIT else _LEAST)
            or len({len(r) for r in rows}) != 1
        ):
            continue
        if all(
            len(cell) <= 60 and cell[-1:] not in (".", "!", "?") for cell in rows[0]
        ):
            return mark
    return ""


def csv_chunks(text: str) -> list[TextChunk] | None:
    """A piece for each row, under the header row; None where csv cannot read it."""
    lines = [text[start:end] for start, end in line_spans(text)]
    line_starts = [0, *accumulate(map(len, lines))]
    rows: list[TextChunk] = []
    header: list[str] = []
    reader = csv.reader(lines, delimiter=detect_delimiter(text) or ",")
    start = 0
    try:
        for row in reader:
            end = line_starts[reader.line_num]
            has_numbers = any(cell[:1].isdigit() for cell in row)
            if not rows and not has_numbers and len(set(row)) == len(row):
                header = row
                rows.append(TextChunk(start, end, is_structural=True))
            elif not any(row) and rows:
                rows[-1] = rows[-1]._replace(end=end, is_atomic=True)
            else:
                above = ((rows[0].start, rows[0].end),) if header else ()
                said = "; ".join(
                    f"{name}: {cell}"
                    for name, cell in zip(header, row, strict=False)
                    if cell
                )
                rows.append(
                    TextChunk(start, end, above, display_text=said, is_atomic=True)
                )
            start = end
    except csv.Error:
        return None
    return fill_gaps(text, rows) if len(rows) != 1 else [TextChunk(0, len(text))]


# --- JSON


def json_line_chunks(text: str) -> list[TextChunk]:
    """A piece for each line."""
    rows: list[TextChunk] = []
    for start, end in line_spans(text):
        line = text[start:end]
        if line.strip():
            value = load_json(line)
            rows.append(
                TextChunk(
                    start,
                    end,
                    display_text="" if value is None else render_json_value(value),
                    is_atomic=True,
                )
            )
    return fill_gaps(text, rows)


def json_chunks(text: str, inner: InnerChunker) -> list[TextChunk] | None:
    """Each element of a list of records is a piece, the fields around them another; long texts in it are cut by
    ``inner``."""
    value = load_json(text)
    if not isinstance(value, dict | list):
        return None
    walk = _Walk(text, inner)
    try:
        walk.container(skip_space(text, 0), value, (), ())
    except (RecursionError, IndexError, ValueError):
        return None
    return fill_gaps(text, walk.made)


@dataclass(slots=True)
class _Walk:
    text: str
    inner: InnerChunker
    made: list[TextChunk] = field(default_factory=list)

    def container(
        self, start: int, value: Any, path: JsonPath, above: tuple[Range, ...]
    ) -> None:
        """The members of the object or list that begins at ``start``: what is small goes together."""
        is_list = isinstance(value, list)
        by_element = (
            is_list
            and len(value) > 1
            and all(isinstance(v, dict | list | str) for v in value)
        )
        is_record = bool(path) and isinstance(path[-1], int)
        run: list[JsonMember] = []
        first = above

        def flush() -> None:
            """Small members side by side are one piece; in a record, the first of them stands above the rest."""
            nonlocal first
            if run:
                own = run[0].start, run[-1].end
                values = (
                    [m.value for m in run]
                    if is_list
                    else {str(m.name): m.value for m in run}
                )
                self.made.append(
                    TextChunk(
                        *own,
                        first,
                        _named(path),
                        render_json_value(values),
                        is_atomic=True,
                        path=path,
                    )
                )
                run.clear()
                if (
                    is_record
                    and first == above
                    and own[1] - own[0] <= MAX_CHUNK_CHARACTERS
                ):
                    first = (*above, own)

        for member in json_members(self.text, start):
            inner, size = member.value, member.end - member.value_start
            here = (
                *path,
                member.name if by_element else str(member.name),
            )  # a number leads to what may go
            nested = isinstance(inner, dict | list) and len(path) < _DEEP
            is_long = isinstance(inner, str) and size > MAX_CHUNK_CHARACTERS // 2
            if not (
                by_element
                or is_long
                or (nested and (size > MAX_CHUNK_CHARACTERS // 2 or _records(inner)))
            ):
                run.append(member)
                continue
            flush()
            holds_records = isinstance(inner, dict) and any(
                map(_records, inner.values())
            )
            if nested and (
                size > (2 - holds_records) * MAX_CHUNK_CHARACTERS or not by_element
            ):
                self.container(member.value_start, inner, here, first)
            elif is_long:
                self.string(member, here, first)
            else:
                name, said = _named(here), render_json_value(inner)
                self.made.append(
                    TextChunk(
                        member.start,
                        member.end,
                        first,
                        name,
                        said,
                        is_atomic=True,
                        path=here,
                    )
                )
        flush()

    def string(
        self, member: JsonMember, path: JsonPath, above: tuple[Range, ...]
    ) -> None:
        """A long text, cut in its turn."""
        name, inside = _named(path), (member.value_start + 1, member.end - 1)
        whole = TextChunk(
            member.start,
            member.end,
            above,
            name,
            member.value,
            is_atomic=True,
            path=path,
            string_span=inside,
        )
        parts = self.inner(member.value) or [
            (TextChunk(0, len(member.value)), "", member.value)
        ]
        place = map_string_offsets(self.text, *inside)
        for n, (part, over, said) in enumerate(parts):
            start, end = place(part.start), place(part.end)
            tops = (*above, *((place(a), place(b)) for a, b in part.context_spans))
            self.made.append(
                whole._replace(
                    start=member.start if n == 0 else start,
                    end=member.end if n == len(parts) - 1 else end,
                    context_spans=tops,
                    header="\n".join(s for s in (name, over) if s),
                    display_text=said,
                    is_structural=part.is_structural,
                    string_span=(start, end),
                )
            )


def _records(value: Any) -> bool:
    """Whether it is a list of objects, or of rows with a text in each."""

    def row(cells: Any) -> bool:
        return isinstance(cells, list) and any(isinstance(cell, str) for cell in cells)

    return (
        isinstance(value, list)
        and len(value) > 1
        and (all(isinstance(v, dict) for v in value) or all(map(row, value)))
    )


def _named(path: JsonPath) -> str:
    return ".".join(p for p in path if isinstance(p, str) and not p.isdigit())


def render_json_value(value: Any, name: str = "") -> str:
    """The names and values of a JSON value, a line each; nothing empty."""
    if isinstance(value, dict):
        return "\n".join(
            s
            for k, v in value.items()
            if (s := render_json_value(v, f"{name}.{k}" if name else str(k)))
        )
    if isinstance(value, list):
        if all(not isinstance(v, dict | list) for v in value):
            shown = ", ".join(str(v) for v in value if v not in (None, ""))
            return (f"{name}: {shown}" if name else shown) if shown else ""
        return "\n".join(s for v in value if (s := render_json_value(v, name)))
    if value is None or value == "":
        return ""
    return f"{name}: {value}" if name else str(value)


# --- What goes out of a list or a text


def removed_row_spans(
    text: str, pieces: Sequence[TextChunk], kept: Sequence[Range]
) -> list[Range]:
    """The ranges of a list as Python prints it that go: rows of which nothing is kept. ``kept`` is apart."""
    rows = [
        (p.start, p.start + len(text[p.start : p.end].rstrip(", \t\r\n")))
        for p in pieces
        if not p.is_structural
    ]
    return merge_spans(remove_items(rows, kept))


def removed_json_spans(
    text: str, pieces: Sequence[TextChunk], kept: Sequence[Range]
) -> list[Range]:
    """The ranges of a JSON text that go: elements of lists and parts of strings of which nothing is kept.

    What is left is JSON again, and every character of it that is kept stands as it did. ``kept`` is apart.
    """
    parts = [
        p.string_span
        for p in pieces
        if p.string_span is not None and not clip_spans(kept, *p.string_span)
    ]
    return merge_spans(
        [*parts, *remove_elements(text, [(p.path, p.start) for p in pieces], kept)]
    )
