"""Evidence as records: (record, field, value) of tables, CSV, JSON, rows of a data base, and sibling passages.

A value belongs to its own record. Words that stand near each other in a table need not be said of each other, so a
claim is held against whole records: what it says besides a value must fit the record that the value stands in at
least as well as any other.
"""

from __future__ import annotations

import csv
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache

from denoise_core.support.layout import in_words
from denoise_core.text.cutting import Cut, cut
from denoise_core.text.json_spans import json_at, leaves
from denoise_core.text.piece import Piece
from denoise_core.text.records import separator
from denoise_core.text.stems import stem
from denoise_core.text.wordlists import FUNCTION_WORDS
from denoise_core.types import Passage

_ALIKE = 0.4  # share of the shorter one's words that two passages have in common which are records of one kind
_MOST = 400  # pieces of one passage that are read as records
_SHORT = 120  # characters of a value of metadata that is read
_FIELDS = 12


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
        rows = [Record(n, fields, label) for label, fields in _rows(passage.text)]
        out += [rows] if len(rows) > 1 else []
    by_keys: dict[tuple[str, ...], list[int]] = {}
    for n, passage in enumerate(passages):
        if keys := tuple(sorted({str(k) for k in passage.metadata} - {"title"})):
            by_keys.setdefault(keys, []).append(n)
    for members in by_keys.values():
        texts = {
            n: {k for k in keys_of(passages[n].text) if k.isalpha() and k not in FUNCTION_WORDS} for n in members
        }
        alike = [n for n in members if any(_alike(texts[n], texts[m]) for m in members if m != n)]
        if len(alike) > 1:
            told = [(n, passages[n].text) for n in alike]
            out.append([Record(n, (Field("", t, 0, len(t)),), headline(passages[n])) for n, t in told])
    return out


def keys_of(text: str) -> list[str]:
    """The words, numbers and codes of a text, small ones too, by which records are told apart: ``7b``, ``M``."""
    out = []
    for raw in text.casefold().split():
        word = raw.strip(".,;:!?()[]{}|\"'“”’‘*`<>").removesuffix("'s").removesuffix("’s")
        if word:
            out.append(stem(word) if word.isalpha() and len(word) > 2 else word)
    return out


def _alike(one: set[str], two: set[str]) -> bool:
    return len(one & two) > 1 and len(one & two) >= _ALIKE * min(len(one), len(two))


@lru_cache(maxsize=128)
def _rows(text: str) -> tuple[tuple[str, tuple[Field, ...]], ...]:
    """The records of one text, each with its label; none where it is prose."""
    first = text.find("[(")  # rows of a data base, as they are printed behind their query
    offset = first if first > 0 and cut(text[first:]).kind == "rows" else 0
    own = cut(text[offset:])
    if own.kind in ("json", "jsonl"):
        lines = [0] if own.kind == "json" else [p.start for p in own.pieces[:_MOST]]
        starts = [at + len(text[at:]) - len(text[at:].lstrip()) for at in lines]
        found = [r for at in starts if json_at(text, at) for r in _objects(text, at, own.kind == "jsonl")]
        return tuple(found[:_MOST])
    mark = separator(text) or ","
    rows = [(p, row) for p in own.pieces[: _MOST + 1] if len(row := _cells(own, p, mark)) > 1]
    query = text[:offset].strip().removeprefix("SELECT ").partition(" FROM ")[0]
    names = query.split(",") if own.kind == "rows" else rows.pop(0)[1] if rows else []
    out = []
    for piece, row in rows:
        at, fields = offset + piece.start, []
        for n, value in enumerate(row):
            start = text.find(value, at, offset + piece.end)
            if start >= 0:
                at = start + len(value)
                fields.append(Field(in_words(names[n]) if len(names) == len(row) else "", value, start, at))
        out.append(("", tuple(fields)))
    return tuple(out)


def _cells(own: Cut, piece: Piece, mark: str) -> list[str]:
    """The values of a row; none of what is no row, or the line under a table's head."""
    raw = own.text[piece.start : piece.end].strip()
    if own.kind == "csv":
        return next(csv.reader(raw.splitlines(), delimiter=mark), [])
    if own.kind == "rows":
        return [v.strip("'\"") for v in raw.strip("()[], ").split(", ")]
    if own.kind == "html":
        return own.read(piece)[1].split(" | ")
    row = raw[:1] == "|" and any(c.isalnum() for c in raw)
    return [c.strip(" *_`") for c in raw.strip("|").split("|")] if row else []


def _objects(text: str, at: int, whole: bool) -> Iterator[tuple[str, tuple[Field, ...]]]:
    """Each object in the JSON that begins there, with the values that stand right in it; ``whole``: that, too."""
    rows: dict[tuple[str | int, ...], list[Field]] = {}
    for path, start, end in leaves(text, at):
        name = in_words(str(path[-1])) if path and isinstance(path[-1], str) else ""
        quoted = text[start] == '"'
        field = Field(name, text[start + quoted : end - quoted], start + quoted, end - quoted)
        rows.setdefault(path[:-1], []).append(field)
    for path, fields in rows.items():
        if path or whole:
            yield " ".join(in_words(p) for p in path if isinstance(p, str)), tuple(fields)
