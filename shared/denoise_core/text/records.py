"""Records with exact ranges in the raw text: CSV rows, JSON list elements, JSON lines."""

from __future__ import annotations

import csv
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import accumulate, chain, groupby, pairwise
from typing import Any, TypeAlias

from denoise_core.spans import Range, Ranges, RangeTuple
from denoise_core.text.json_spans import (
    ItemList,
    JsonMember,
    JsonPath,
    json_members,
    load_json,
    map_string_offsets,
    skip_space,
)
from denoise_core.text.json_tables import (
    TableRows,
    find_table_rows,
    find_tied_lists,
)
from denoise_core.text.text_chunk import (
    MAX_CHUNK_CHARACTERS,
    TextChunk,
    fill_gaps,
    line_spans,
)

InnerChunker: TypeAlias = Callable[[str], list[TextChunk]]
"""Chunks a string inside JSON: with context as ``header``, and with ``display_text``."""

_MAX_DEPTH = 12  # levels of nesting that are split
_LONG_VALUE = MAX_CHUNK_CHARACTERS // 2  # characters of a value that is its own chunk

# A table with one delimiter a line may be prose, so it needs more lines.
_DETECTION_LINES = 50
_CLEAR_DELIMITERS = 2
_MIN_CLEAR_ROWS = 2
_MIN_ROWS = 4
_MAX_HEADER_CHARACTERS = 60
_MAX_TAIL_CHARACTERS = 20  # after a list that Python printed: ``rows: 3``

# A string, a bracket with the name before it, or a run of anything else. A string
# without an end reaches to the end of the text and sets a group: scanning for its end
# again would be quadratic.
_PYTHON_TOKEN = re.compile(
    r"'(?:[^'\\]|\\.)*+(?:'|(\\?\Z))|\"(?:[^\"\\]|\\.)*+(?:\"|(\\?\Z))"
    r"|[\w.]*+[(\[{]|[\w.]++|[^\"'()\[\]{}\w]++|.",
    re.DOTALL,
)


def detect_record_format(text: str) -> str:
    """Return ``"json"``, ``"jsonl"``, ``"rows"``, ``"csv"``, or ``""`` for none."""
    start = skip_space(text, 0)
    first_character = text[start : start + 1]
    if first_character in ("{", "["):
        if load_json(text) is not None:
            return "json"
        if first_character == "[" and find_python_rows(text) is not None:
            return "rows"
        lines = text[start:].split("\n")
        if {line.lstrip()[:1] for line in lines} <= {"{", ""}:
            return "jsonl"
    if detect_delimiter(text):
        return "csv"
    return ""


# --- Rows as a database client prints them


def find_python_rows(text: str) -> Ranges | None:
    """Return the rows of a list as Python prints it, ``[(1, 'a', Decimal('2')), (2, ...)]``.

    None if brackets or quotation marks do not close, or if the text is no list of at
    least two rows: ``[[a]] met [[b]]`` holds links. A few words may follow it.
    """
    row_spans = []
    depth = 0
    row_start = 0
    list_start = text.find("[") + 1
    list_end = text.rfind("]")
    text_after = text[list_end + 1 :].strip()
    if len(text_after) > _MAX_TAIL_CHARACTERS:
        return None
    for token in _PYTHON_TOKEN.finditer(text, list_start, list_end):
        symbol = token[0]
        if symbol[-1] in "([{":
            if not depth:
                row_start = token.start()
            depth += 1
        elif symbol in ")]}":
            depth -= 1
            if depth < 0:
                return None
            if not depth:
                row_spans.append((row_start, token.end()))
        elif token.lastindex or (not depth and symbol.strip(", \t\r\n")):
            return None
    if len(row_spans) > 1 and not depth:
        return row_spans
    return None


def python_row_chunks(text: str) -> list[TextChunk]:
    """Chunk a list as Python prints it: one chunk a row."""
    row_spans = find_python_rows(text) or []
    rows = [TextChunk(*span, is_atomic=True) for span in row_spans]
    return fill_gaps(text, rows)


# --- CSV


def detect_delimiter(text: str) -> str:
    """Return the delimiter of a CSV text; ``""`` for a text that is no table.

    Every line must have as many cells as the first one.
    """
    text_head = text[:20_000]
    lines = text_head.split("\n", _DETECTION_LINES)
    first_line = lines[0]
    has_inner_quote = '"' in first_line[1:]
    has_open_quote = has_inner_quote and first_line.count('"') % 2
    if len(lines) < 3 or has_open_quote:
        return ""
    for delimiter in ",;\t":
        delimiter_count = first_line.count(delimiter)
        if delimiter_count and _is_table(lines[:-1], delimiter, delimiter_count):
            return delimiter
    return ""


def _is_table(lines: Sequence[str], delimiter: str, delimiter_count: int) -> bool:
    min_rows = _MIN_ROWS
    if delimiter_count >= _CLEAR_DELIMITERS:
        min_rows = _MIN_CLEAR_ROWS
    try:
        filled_lines = filter(str.strip, lines)
        rows = list(csv.reader(filled_lines, delimiter=delimiter))
    except csv.Error:
        return False
    row_lengths = set(map(len, rows))
    if len(rows) < min_rows or len(row_lengths) != 1:
        return False
    return all(map(_is_header_cell, rows[0]))


def _is_header_cell(cell: str) -> bool:
    return len(cell) <= _MAX_HEADER_CHARACTERS and cell[-1:] not in (".", "!", "?")


def csv_chunks(text: str) -> list[TextChunk] | None:
    """Chunk a CSV text: one chunk a row, with the first row as context.

    The first row is scored too unless it is surely a header. None if the `csv` module
    cannot read it.
    """
    lines = [text[start:end] for start, end in line_spans(text)]
    line_offsets = [0, *accumulate(map(len, lines))]
    delimiter = detect_delimiter(text) or ","
    reader = csv.reader(lines, delimiter=delimiter)
    try:
        ended_rows = [(cells, line_offsets[reader.line_num]) for cells in reader]
    except csv.Error:
        return None
    first_cells, _ = ended_rows[0]
    is_header = _is_header_row(first_cells)
    header_cells = first_cells if is_header else []
    may_be_header = is_header or _may_be_header(ended_rows)
    rows: list[TextChunk] = []
    row_start = 0
    for cells, row_end in ended_rows:
        if not rows and is_header:
            rows.append(TextChunk(row_start, row_end, is_structural=True))
        elif not any(cells) and rows:
            rows[-1] = rows[-1]._replace(end=row_end, is_atomic=True)
        else:
            context_spans: RangeTuple = ()
            if rows and may_be_header:
                context_spans = (rows[0].span,)
            named_cells = zip(header_cells, cells, strict=False)
            cell_texts = [f"{name}: {cell}" for name, cell in named_cells if cell]
            row_text = "; ".join(cell_texts)
            row = TextChunk(
                row_start,
                row_end,
                context_spans,
                display_text=row_text,
                is_atomic=True,
            )
            rows.append(row)
        row_start = row_end
    if len(rows) == 1:
        return [TextChunk(0, len(text))]
    return fill_gaps(text, rows)


def _is_header_row(cells: Sequence[str]) -> bool:
    """Whether the cells are surely names: each once, and none begins with a digit."""
    if any(cell[:1].isdigit() for cell in cells):
        return False
    return len(set(cells)) == len(cells)


def _may_be_header(ended_rows: Sequence[tuple[list[str], int]]) -> bool:
    """Whether the first row may hold names: no numbers, or some that count as years do.

    It holds none if another row has one of its values in the same column.
    """
    first_cells, _ = ended_rows[0]
    numbers = [cell for cell in first_cells if cell[:1].isdigit()]
    are_whole = all(map(str.isdecimal, numbers))
    if len(numbers) == len(first_cells) or not are_whole:
        return False
    steps = {abs(int(after) - int(before)) for before, after in pairwise(numbers)}
    if numbers and steps != {1}:
        return False
    names = {(column, name) for column, name in enumerate(first_cells) if name}
    other_rows = ended_rows[1:]
    return all(names.isdisjoint(enumerate(cells)) for cells, _ in other_rows)


# --- JSON


def json_line_chunks(text: str) -> list[TextChunk]:
    """Chunk JSON lines: one chunk a line."""
    rows = []
    for start, end in line_spans(text):
        line = text[start:end]
        if not line.strip():
            continue
        row_text = render_json_value(load_json(line))
        rows.append(TextChunk(start, end, display_text=row_text, is_atomic=True))
    return fill_gaps(text, rows)


def json_chunks(text: str, chunk_string: InnerChunker) -> list[TextChunk]:
    """Chunk a JSON text.

    Each element of a list of records is a chunk, and so are the fields around them
    together. ``chunk_string`` splits long strings.
    """
    return fill_gaps(text, _read_json(text, chunk_string).chunks)


def _read_json(text: str, chunk_string: InnerChunker) -> _JsonChunker:
    chunker = _JsonChunker(text, chunk_string)
    chunker.add_container(skip_space(text, 0), load_json(text), (), ())
    return chunker


@dataclass(slots=True)
class _JsonChunker:
    text: str
    chunk_string: InnerChunker
    chunks: list[TextChunk] = field(default_factory=list)
    tied_paths: set[JsonPath] = field(default_factory=set)
    item_lists: list[ItemList] = field(default_factory=list)
    outer_span: Range | None = None

    def add_container(
        self,
        start: int,
        value: Any,
        path: JsonPath,
        context_spans: RangeTuple,
    ) -> None:
        """Chunk the object or list that begins at ``start``.

        Neighbouring small members are one chunk. In a record the first such chunk is
        context of the rest: it usually names the record.
        """
        table_rows = find_table_rows(value)
        if table_rows is not None:
            self.add_table(start, value, path, table_rows, context_spans)
            return
        is_tied = path in self.tied_paths
        by_element = _is_list_of_items(value) and not is_tied
        for list_name in find_tied_lists(value):
            tied_path = (*path, list_name)
            self.tied_paths.add(tied_path)
        is_record = bool(path) and isinstance(path[-1], int)
        inner_context = context_spans

        def is_separate(member: JsonMember) -> bool:
            return by_element or _is_large(member, len(path))

        members = list(json_members(self.text, start))
        outer_span = self.outer_span
        if by_element:
            spans = [(member.start, member.end) for member in members]
            self.item_lists.append(ItemList(start, [spans], outer_span))
        for has_own_chunk, group in groupby(members, is_separate):
            if not has_own_chunk:
                chunk = self.add_small_members(list(group), path, inner_context)
                is_short = chunk.length <= MAX_CHUNK_CHARACTERS
                if is_record and inner_context == context_spans and is_short:
                    inner_context = (*context_spans, chunk.span)
                continue
            for member in group:
                # A number in a path marks an element that can be dropped.
                step = member.name
                if by_element:
                    self.outer_span = (member.start, member.end)
                else:
                    step = str(step)
                self.add_member(member, (*path, step), inner_context)
        self.outer_span = outer_span

    def add_table(
        self,
        start: int,
        value: Any,
        path: JsonPath,
        table_rows: TableRows,
        context_spans: RangeTuple,
    ) -> None:
        """Add a chunk for each part of each row; only the first part is scored.

        Each part has the others as context, so a row is kept as a whole.
        """
        members = _row_members(self.text, start, table_rows)
        parts = []
        list_spans: dict[JsonPath, Ranges] = {}
        for row_paths in table_rows:
            spans = []
            row_values = {}
            for part_path in row_paths:
                member = members[part_path]
                spans.append((member.start, member.end))
                column_name = str(part_path[0])
                row_values[column_name] = member.value
            row_text = _render_row(value, row_values)
            for n, part_path in enumerate(row_paths):
                other_spans = tuple(span for span in spans if span != spans[n])
                part_start, part_end = spans[n]
                part = TextChunk(
                    part_start,
                    part_end,
                    (*context_spans, *other_spans),
                    _path_header(path),
                    row_text,
                    is_structural=n > 0,
                    is_atomic=True,
                    path=path,
                    is_row_part=True,
                )
                parts.append(part)
                list_spans.setdefault(part_path[:-1], []).append(part.span)
        self.chunks += sorted(parts, key=lambda part: part.start)
        item_spans = list(map(sorted, list_spans.values()))
        table = ItemList(start, item_spans, self.outer_span, is_table=True)
        self.item_lists.append(table)

    def add_small_members(
        self,
        members: list[JsonMember],
        path: JsonPath,
        context_spans: RangeTuple,
    ) -> TextChunk:
        value: Any = {str(member.name): member.value for member in members}
        if isinstance(members[0].name, int):
            value = list(value.values())
        span = members[0].start, members[-1].end
        return self.add_value(span, value, path, context_spans)

    def add_member(
        self,
        member: JsonMember,
        path: JsonPath,
        context_spans: RangeTuple,
    ) -> None:
        value = member.value
        size = member.end - member.value_start
        max_size = 2 * MAX_CHUNK_CHARACTERS
        if isinstance(value, dict) and any(map(_is_record_list, value.values())):
            max_size = MAX_CHUNK_CHARACTERS
        is_element = isinstance(path[-1], int)
        if _is_nested(value, len(path) - 1) and (size > max_size or not is_element):
            self.add_container(member.value_start, value, path, context_spans)
        elif isinstance(value, str) and size > _LONG_VALUE:
            self.add_string(member, path, context_spans)
        else:
            self.add_value((member.start, member.end), value, path, context_spans)

    def add_value(
        self,
        span: Range,
        value: Any,
        path: JsonPath,
        context_spans: RangeTuple,
    ) -> TextChunk:
        chunk = TextChunk(
            *span,
            context_spans,
            _path_header(path),
            render_json_value(value),
            is_atomic=True,
            path=path,
        )
        self.chunks.append(chunk)
        return chunk

    def add_string(
        self,
        member: JsonMember,
        path: JsonPath,
        context_spans: RangeTuple,
    ) -> None:
        """Add the chunks of a long string, at their ranges in the raw JSON."""
        header = _path_header(path)
        string_end = member.end - 1
        raw_offset = map_string_offsets(self.text, member.value_start + 1, string_end)

        def raw_span(span: Range) -> Range:
            return raw_offset(span[0]), raw_offset(span[1])

        for inner_chunk in self.chunk_string(member.value):
            start, end = raw_span(inner_chunk.span)
            inner_spans = map(raw_span, inner_chunk.context_spans)
            chunk = inner_chunk._replace(
                # The first chunk includes the name, the last the closing quote.
                start=start if inner_chunk.start else member.start,
                end=end if end < string_end else member.end,
                context_spans=(*context_spans, *inner_spans),
                header="\n".join(filter(None, (header, inner_chunk.header))),
                is_atomic=True,
                path=path,
                string_span=raw_span(inner_chunk.string_span or inner_chunk.span),
            )
            self.chunks.append(chunk)


def _row_members(
    text: str, start: int, table_rows: TableRows
) -> dict[JsonPath, JsonMember]:
    """Return each part of each row by its path."""
    depths = {len(path) for path in chain.from_iterable(table_rows)}
    row_members = {}
    pending: list[tuple[JsonPath, int]] = [((), start)]
    while pending:
        path, position = pending.pop()
        for member in json_members(text, position):
            member_path = (*path, member.name)
            row_members[member_path] = member
            is_outer = len(member_path) < max(depths)
            if is_outer and isinstance(member.value, dict | list):
                pending.append((member_path, member.value_start))
    return row_members


def _render_row(table: Any, row_values: dict[str, Any]) -> str:
    """Render a row with the names of its columns."""
    columns = table.get("columns")
    cells: Any = row_values.get("data")
    has_lists = isinstance(columns, list) and isinstance(cells, list)
    if has_lists and len(columns) == len(cells):
        column_names = map(str, columns)
        row_values = dict(zip(column_names, cells, strict=True))
    elif len(row_values) == 1:
        (only_value,) = row_values.values()
        return render_json_value(only_value)
    return render_json_value(row_values)


def _is_list_of_items(value: Any) -> bool:
    """Whether this is a list whose elements can be dropped one by one."""
    if not isinstance(value, list) or len(value) < 2:
        return False
    return all(isinstance(item, dict | list | str) for item in value)


def _is_nested(value: Any, depth: int) -> bool:
    return isinstance(value, dict | list) and depth < _MAX_DEPTH


def _is_large(member: JsonMember, depth: int) -> bool:
    """Whether a member of a container at this depth is chunked by itself."""
    value_length = member.end - member.value_start
    is_long = value_length > _LONG_VALUE
    if isinstance(member.value, str):
        return is_long
    if not _is_nested(member.value, depth):
        return False
    return is_long or _is_record_list(member.value)


def _is_record_list(value: Any) -> bool:
    """Whether this is a list of objects, or of rows that each hold a text."""
    if not isinstance(value, list) or len(value) < 2:
        return False
    has_only_objects = all(isinstance(item, dict) for item in value)
    return has_only_objects or all(map(_is_row, value))


def _is_row(value: Any) -> bool:
    if not isinstance(value, list):
        return False
    return any(isinstance(cell, str) for cell in value)


def _path_header(path: JsonPath) -> str:
    """Return the names in a path; numbers say nothing to a reader."""
    names = [step for step in path if isinstance(step, str)]
    return ".".join(name for name in names if not name.isdigit())


def render_json_value(value: Any) -> str:
    """Render the names and values of a JSON value, one a line, without empty ones."""
    return "\n".join(_value_lines(value, ""))


def _value_lines(value: Any, name: str) -> Iterator[str]:
    if isinstance(value, dict):
        prefix = ""
        if name:
            prefix = f"{name}."
        for key, item in value.items():
            yield from _value_lines(item, f"{prefix}{key}")
        return
    if isinstance(value, list):
        if any(isinstance(item, dict | list) for item in value):
            for item in value:
                yield from _value_lines(item, name)
            return
        value = ", ".join(str(item) for item in value if item not in (None, ""))
    if value is not None and value != "":
        if name:
            yield f"{name}: {value}"
        else:
            yield str(value)


# --- What may leave: items of lists, rows of tables


def find_item_lists(text: str) -> list[ItemList]:
    """Return the lists and tables of a JSON text, or the one list that Python printed."""
    if load_json(text) is None:
        row_spans = find_python_rows(text) or []
        return [ItemList(text.find("["), [row_spans])]
    return _read_json(text, lambda string: []).item_lists
