"""Rows in: a plan of the input in pieces that workers read by themselves, and what is wrong with a bad row.

Only the plan stands in the driver, and no row ever crosses a pipe: a piece names its file, the place of its first
row there, and how many follow.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from hashlib import blake2b, sha256
from pathlib import Path
from typing import Any

from denoise_core._optional import require
from denoise_core.errors import InputError
from denoise_core.types import Passage, well_formed

KINDS = (".jsonl", ".parquet")
ROWS = 64  # of a piece at most
BYTES = 1 << 20  # of a piece at most, unless one row has more
AGAIN = "a row with this id came before"


@dataclass(frozen=True, slots=True)
class Row:
    """A question with its passages, or a document with the job's question."""

    id: str
    query: str
    passages: tuple[Passage, ...]


@dataclass(frozen=True, slots=True)
class Bad:
    """A row that cannot be denoised: where it stands, its id if it has one, and why."""

    where: str
    id: str | None
    reason: str


@dataclass(frozen=True, slots=True)
class Piece:
    """``count`` rows that go to a worker together; ``first`` numbers the rows of the whole input from 0.

    ``place`` is the byte (JSON Lines) or the row (parquet) of ``file`` at which reading starts, ``line`` the
    number there, ``skip`` how many rows come before the piece's own. ``again`` are rows whose id came before.
    """

    file: Path
    place: int
    line: int
    first: int
    count: int
    skip: int = 0
    again: tuple[int, ...] = ()

    @property
    def name(self) -> str:
        """Of its part file; names sort as the rows do."""
        return f"{self.first:012d}-{self.first + self.count:012d}"

    def cut(self, start: int, end: int) -> Piece:
        """The rows from ``start`` to ``end`` of the whole input."""
        return replace(self, first=start, count=end - start, skip=self.skip + start - self.first)

    def halves(self) -> tuple[Piece, Piece]:
        middle, end = self.first + self.count // 2, self.first + self.count
        return self.cut(self.first, middle), self.cut(middle, end)


def files_of(source: str | Path) -> list[Path]:
    """The file, or the files of a folder by name. Raises `InputError` when there is none to read."""
    path = Path(source)
    found = sorted(p for p in path.iterdir() if p.suffix in KINDS) if path.is_dir() else [path]
    if not found or not all(p.is_file() and p.suffix in KINDS for p in found):
        raise InputError(f"{path}: expected a file, or a folder of files, ending in {' or '.join(KINDS)}")
    return [p.absolute() for p in found]


def plan_of(files: Sequence[Path]) -> tuple[list[Piece], str]:
    """The input in pieces, and its sha256. Reads everything once."""
    digest, seen, pieces, first = sha256(), set[bytes](), list[Piece](), 0
    for file in files:
        again: list[int] = []
        place = line = count = size = 0
        for at, number, name, length in _ids(file, digest):
            if count and (count == ROWS or size + length > BYTES):
                pieces.append(Piece(file, place, line, first, count, again=tuple(again)))
                first, count, size, again = first + count, 0, 0, []
            if not count:
                place, line = at, number
            if name is not None:
                key = blake2b(name.encode(), digest_size=16).digest()
                again += [first + count] if key in seen else []
                seen.add(key)
            count, size = count + 1, size + length
        if count:
            pieces.append(Piece(file, place, line, first, count, again=tuple(again)))
            first += count
    return pieces, digest.hexdigest()


def _ids(file: Path, digest: Any) -> Iterator[tuple[int, int, str | None, int]]:
    """Of each row its place, its number, its id if it has one, and its bytes."""
    if file.suffix == ".parquet":
        with file.open("rb") as whole:
            while block := whole.read(1 << 20):
                digest.update(block)
        table = require("pyarrow.parquet", extra="bulk").ParquetFile(file)
        about, at = table.metadata, 0
        each = sum(about.row_group(g).total_byte_size for g in range(about.num_row_groups)) // max(
            1, about.num_rows
        )
        columns = ["id"] if "id" in table.schema_arrow.names else []
        for batch in table.iter_batches(columns=columns):
            for row in batch.to_pylist() if columns else [{}] * batch.num_rows:
                yield at, at + 1, _name(row), each
                at += 1
        return
    at = 0
    with file.open("rb") as lines:
        for number, line in enumerate(lines, 1):
            digest.update(line)
            if line.strip():
                yield at, number, _name(_parsed(line)), len(line)
            at += len(line)


def read(piece: Piece, query: str | None) -> Iterator[Row | Bad]:
    """The piece's rows."""
    given = _parquet(piece) if piece.file.suffix == ".parquet" else _lines(piece)
    for n, (where, found) in enumerate(given, piece.first):
        where = f"{piece.file.name}, {where}"
        if isinstance(found, ValueError | RecursionError):
            yield Bad(where, None, f"not JSON: {found}")
        elif n in piece.again:
            yield Bad(where, _name(found), AGAIN)
        else:
            yield _row(where, found, query)


def _lines(piece: Piece) -> Iterator[tuple[str, Any]]:
    left, skip = piece.count, piece.skip
    with piece.file.open("rb") as lines:
        lines.seek(piece.place)
        for number, line in enumerate(lines, piece.line):
            if not left:
                return
            if not line.strip():
                continue
            if skip:
                skip -= 1
                continue
            left -= 1
            yield f"line {number}", _parsed(line)


def _parquet(piece: Piece) -> Iterator[tuple[str, Any]]:
    at, table = piece.place + piece.skip, require("pyarrow.parquet", extra="bulk").ParquetFile(piece.file)
    start, left = 0, piece.count
    for group in range(table.metadata.num_row_groups):
        size = table.metadata.row_group(group).num_rows
        while left and start <= at < start + size:
            count = min(left, start + size - at)
            for n, row in enumerate(_group(piece.file, group).slice(at - start, count).to_pylist(), at + 1):
                yield f"row {n}", row
            at, left = at + count, left - count
        start += size


@lru_cache(maxsize=1)
def _group(file: Path, group: int) -> Any:
    return require("pyarrow.parquet", extra="bulk").ParquetFile(file).read_row_group(group)


def _parsed(line: bytes) -> Any:
    try:
        return json.loads(line)
    except (ValueError, RecursionError) as error:
        return error


def _name(found: Any) -> str | None:
    name = found.get("id") if isinstance(found, dict) else None
    return None if isinstance(name, bool) or not isinstance(name, str | int) else well_formed(str(name))


def _row(where: str, found: Any, query: str | None) -> Row | Bad:
    if not isinstance(found, dict):
        return Bad(where, None, "expected an object")
    name = _name(found)
    if name is None:
        return Bad(where, None, f"id: expected a text or a whole number, got {type(found.get('id')).__name__}")
    try:
        if isinstance(found.get("text"), str):
            if query is None:
                raise InputError("a row with 'text' is a document: say with --query what it is to answer")
            return Row(name, query, (Passage(found["text"], name),))
        asked = found.get("query", query)
        if not isinstance(asked, str):
            raise InputError(f"query: expected a text, got {type(asked).__name__}")
        return Row(name, asked, _passages(found.get("passages")))
    except (InputError, TypeError) as error:
        return Bad(where, name, str(error))


def _passages(found: Any) -> tuple[Passage, ...]:
    if not isinstance(found, list):
        raise InputError(f"passages: expected a list of texts or objects with 'text', got {type(found).__name__}")
    out = []
    for n, p in enumerate(found):
        if isinstance(p, dict) and isinstance(p.get("text"), str):
            title = {"title": p["title"]} if isinstance(p.get("title"), str) else {}
            out.append(Passage(p["text"], str(n if p.get("id") is None else p["id"]), metadata=title))
        elif isinstance(p, str):
            out.append(Passage(p, str(n)))
        else:
            raise InputError(f"passages[{n}]: expected a text or an object with 'text', got {type(p).__name__}")
    return tuple(out)
