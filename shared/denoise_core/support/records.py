"""Evidence as records: (record, field, value) of tables, CSV, JSON, rows of a data base, and sibling passages.

A value belongs to its own record. Words that stand near each other in a table need not be said of each other, so a
claim is held against whole records: what it says besides a value must fit the record that the value stands in at
least as well as any other.
"""

from __future__ import annotations

import ast
import csv
import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from html.parser import HTMLParser

from denoise_core.support.layout import cells, in_words, json_at, leaves, line_starts, tokens_of
from denoise_core.text.stems import stem
from denoise_core.text.wordlists import FUNCTION_WORDS
from denoise_core.types import Passage

_ALIKE = 0.4  # share of the shorter one's words that two passages have in common which are records of one kind
_MOST = 400  # records of one passage that are read
_SHORT = 120  # characters of a value of metadata that is read
_FIELDS = 12
_NAME = 4  # words of a column's name, at most
_KEPT = 40_000  # characters of a passage whose records are kept


@dataclass(frozen=True, slots=True)
class Field:
    """One value, characters ``[start, end)`` of the passage's text, under its ``name``: a column, a key."""

    name: str
    value: str
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class Record:
    """Fields that are said of one thing, ``label`` besides: a path in JSON, the header of a passage."""

    passage: int
    fields: tuple[Field, ...]
    label: str = ""

    @property
    def text(self) -> str:
        return "; ".join(f"{f.name}: {f.value}" if f.name else f.value for f in self.fields)


def headline(passage: Passage) -> str:
    """What is read with a passage: its header, or else the short values of its metadata."""
    if passage.header:
        return passage.header
    named = [
        f"{key}: {value}"
        for key, value in passage.metadata.items()
        if isinstance(value, (str, int, float)) and not isinstance(value, bool) and 0 < len(str(value)) <= _SHORT
    ]
    return "; ".join(named[:_FIELDS])


def groups(passages: Sequence[Passage]) -> list[list[Record]]:
    """Records that are siblings of each other: the rows of one table, and passages that say the same of other
    things (with metadata of the same keys beside a title, and many words in common)."""
    out = []
    for n, passage in enumerate(passages):
        rows = (_rows if len(passage.text) <= _KEPT else _rows.__wrapped__)(passage.text)
        if len(rows) > 1:
            out.append([Record(n, fields, label) for label, fields in rows])
    by_keys: dict[tuple[str, ...], list[int]] = {}
    for n, passage in enumerate(passages):
        if keys := tuple(sorted({str(k) for k in passage.metadata} - {"title"})):
            by_keys.setdefault(keys, []).append(n)
    for members in by_keys.values():
        texts = {n: _telling(passages[n].text) for n in members}
        alike = [n for n in members if any(_alike(texts[n], texts[m]) for m in members if m != n)]
        if len(alike) > 1:
            out.append([
                Record(n, (Field("", passages[n].text, 0, len(passages[n].text)),), headline(passages[n]))
                for n in alike
            ])  # fmt: skip
    return out


def keys_of(text: str) -> list[str]:
    """The words, numbers and codes of a text, small ones too, by which records are told apart: ``7b``, ``M``."""
    out = []
    for raw in text.casefold().split():
        word = raw.strip(".,;:!?()[]{}|\"'“”’‘*`<>").removesuffix("'s").removesuffix("’s")
        if word:
            out.append(stem(word) if word.isalpha() and len(word) > 2 else word)
    return out


def _telling(text: str) -> set[str]:
    """Its words that carry content; numbers are what siblings differ in."""
    return {k for k in keys_of(text) if k.isalpha() and k not in FUNCTION_WORDS}


def _alike(one: set[str], two: set[str]) -> bool:
    return len(one & two) > 1 and len(one & two) >= _ALIKE * min(len(one), len(two))


@lru_cache(maxsize=512)
def _rows(text: str) -> tuple[tuple[str, tuple[Field, ...]], ...]:
    """The records of one text, each with its label; none where it is prose."""
    start = len(text) - len(text.lstrip())
    if text[start : start + 1] in ("{", "[") and (tree := json_at(text, start)) and not text[tree[1] :].strip():
        return tuple(_objects(text, start))[:_MOST]
    found: list[list[tuple[int, int]]] = []
    if "<t" in text and "</t" in text:
        found = _html(text)
    elif "|" in text:
        found = _markdown(text)
    if not found and "[(" in text:
        return tuple(_tuples(text))[:_MOST]
    if not found:
        found = _separated(text)
    if len(found) < 2:
        return ()
    head = [text[a:b].strip(" *_`") for a, b in found[0]]
    names = [in_words(h) for h in head]
    return tuple(
        ("", tuple(Field("".join(names[n : n + 1]), text[a:b], a, b) for n, (a, b) in enumerate(row)))
        for row in found[1 : _MOST + 1]
    )


def _objects(text: str, at: int) -> Iterator[tuple[str, tuple[Field, ...]]]:
    """Each object of JSON with the values that stand right in it."""
    rows: dict[tuple[str | int, ...], list[Field]] = {}
    for path, start, end in leaves(text, at):
        name = in_words(str(path[-1])) if path and isinstance(path[-1], str) else ""
        quoted = text[start] == '"'
        field = Field(name, text[start + quoted : end - quoted], start + quoted, end - quoted)
        rows.setdefault(path[:-1], []).append(field)
    for path, fields in rows.items():
        if path:
            yield " ".join(in_words(p) for p in path if isinstance(p, str)), tuple(fields)


def _markdown(text: str) -> list[list[tuple[int, int]]]:
    lines, rows = line_starts(text), []
    for token in tokens_of(text):
        if token.type == "tr_open" and token.map:
            rows.append(list(cells(text, lines[token.map[0]], lines[token.map[1]])))
    return rows


class _Table(HTMLParser):
    """The cells of HTML tables, as characters."""

    def __init__(self, text: str) -> None:
        super().__init__(convert_charrefs=False)
        self.rows: list[list[tuple[int, int]]] = []
        self._lines = line_starts(text)
        self._at = -1
        self.feed(text)

    def _place(self) -> int:
        line, column = self.getpos()
        return self._lines[line - 1] + column

    def handle_starttag(self, tag: str, attrs: object) -> None:
        if tag == "tr":
            self.rows.append([])
        elif tag in ("td", "th"):
            self._close()
            self._at = self._place() + len(self.get_starttag_text() or "")

    def handle_endtag(self, tag: str) -> None:
        if tag in ("td", "th", "tr"):
            self._close()

    def _close(self) -> None:
        if self._at >= 0 and self.rows:
            self.rows[-1].append((self._at, max(self._at, self._place())))
        self._at = -1


def _html(text: str) -> list[list[tuple[int, int]]]:
    return [row for row in _Table(text).rows if row]


def _separated(text: str) -> list[list[tuple[int, int]]]:
    """Lines of comma, semicolon or tab separated values: at least three, of one width above one."""
    lines = line_starts(text)
    for mark in (",", ";", "\t"):
        rows = []
        for first, last in itertools.pairwise(lines):
            line = text[first:last].rstrip("\r\n")
            if not line.strip():
                continue
            at, row = first, []
            for value in _values(line, mark):
                found = text.find(value, at, last) if value else at
                row.append((max(found, at), max(found, at) + len(value)))
                at = max(found, at) + len(value)
            rows.append(row)
        if len(rows) > 2 and len(rows[0]) > 1 and len({len(r) for r in rows}) == 1 and _named(text, rows[0]):
            return rows
    return []


def _values(line: str, mark: str) -> list[str]:
    try:
        return next(csv.reader([line], delimiter=mark), [])
    except csv.Error:  # a line break within it, a field beyond the limit
        return []


def _named(text: str, row: Sequence[tuple[int, int]]) -> bool:
    """The cells of a first line are names of columns: short, each with words, no two alike."""
    names = [text[a:b].strip().casefold() for a, b in row]
    return all(0 < len(n.split()) <= _NAME and n[-1] not in ".!?" for n in names if n) and len(set(names)) == len(
        names
    )


def _tuples(text: str) -> Iterator[tuple[str, tuple[Field, ...]]]:
    """Rows of a data base as they are printed: a list of tuples, its columns named in the line before."""
    start = text.index("[(")
    end = text.rfind(")]") + 2
    try:
        rows = ast.literal_eval(text[start:end])
    except (ValueError, SyntaxError, MemoryError, RecursionError):
        return
    before = text[:start].strip().splitlines()
    named = before[-1] if before else ""
    for word in ("SELECT", "select", "--", "#"):
        named = named.replace(word, " ")
    names = [n.strip(" ;:") for n in named.split(" FROM ")[0].split(" from ")[0].split(",")]
    at = start
    for row in rows if isinstance(rows, list) else ():
        if not isinstance(row, tuple):
            return
        fields = []
        for n, value in enumerate(row):
            written = str(value)
            found = text.find(written, at, end)
            if found < 0:
                continue
            at = found + len(written)
            name = in_words(names[n]) if len(names) == len(row) else ""
            fields.append(Field(name, written, found, at))
        yield "", tuple(fields)
