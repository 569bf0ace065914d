"""Rows in: the input cut into chunks that workers read by themselves, and what is wrong with a bad row.

A chunk is a file of two lines a row: where the row stood and whether its id came before, and the row itself. So no
row crosses a pipe, and whatever the input was, workers read one form.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from hashlib import blake2b, sha256
from itertools import islice
from pathlib import Path
from typing import Any

from denoise_core._files import write_whole
from denoise_core._optional import require
from denoise_core.errors import InputError
from denoise_core.types import Passage, well_formed

KINDS = (".jsonl", ".parquet")
ROWS = 64  # of a chunk at most
BYTES = 1 << 20  # of a chunk at most, unless one row has more


@dataclass(frozen=True, slots=True)
class Row:
    """A question with its passages, or a document with the job's question. ``where`` it stands, and what is
    ``wrong`` with one that cannot be denoised; its ``id`` is None where it has none."""

    where: str
    id: str | None
    query: str = ""
    passages: tuple[Passage, ...] = ()
    wrong: str = ""


@dataclass(frozen=True, slots=True)
class Piece:
    """``count`` rows that go to a worker together: those of the chunk ``file``, or one of them, after ``skip``
    others. ``first`` numbers the rows of the whole input from 0."""

    file: Path
    first: int
    count: int
    skip: int = 0

    @property
    def name(self) -> str:
        return f"{self.first:012d}-{self.first + self.count:012d}"

    def singles(self) -> list[Piece]:
        return [replace(self, first=self.first + n, count=1, skip=self.skip + n) for n in range(self.count)]


def files_of(source: str | Path) -> list[Path]:
    """The file, or the files of a folder by name. Raises `InputError` when there is none to read."""
    path = Path(source)
    found = sorted(p for p in path.iterdir() if p.suffix in KINDS) if path.is_dir() else [path]
    if not found or not all(p.is_file() and p.suffix in KINDS for p in found):
        raise InputError(f"{path}: expected a file, or a folder of files, ending in {' or '.join(KINDS)}")
    return found


def chunks_of(files: Sequence[Path], folder: Path, *, write: bool) -> tuple[list[Piece], str]:
    """The input in chunks of ``folder``, written there if need be, and its sha256. Reads everything once."""
    digest, seen, pieces, lines, size = sha256(), set[bytes](), list[Piece](), list[bytes](), 0

    def close() -> None:
        first = pieces[-1].first + pieces[-1].count if pieces else 0
        piece = Piece(folder, first, len(lines) // 2)
        pieces.append(replace(piece, file=folder / f"{piece.name}.rows"))
        if write:
            write_whole(pieces[-1].file, b"\n".join([*lines, b""]))
        lines.clear()

    for where, raw in (row for file in files for row in _rows(file)):
        digest.update(raw + b"\n")
        if lines and (len(lines) == 2 * ROWS or size + len(raw) > BYTES):
            close()
            size = 0
        name = _name(_parsed(raw))
        key = b"" if name is None else blake2b(name.encode(), digest_size=16).digest()
        lines += [json.dumps([where, key in seen]).encode(), raw]
        size += len(raw)
        seen |= {key} - {b""}
    if lines:
        close()
    return pieces, digest.hexdigest()


def _rows(file: Path) -> Iterator[tuple[str, bytes]]:
    """Of each row its place and its JSON."""
    if file.suffix == ".parquet":
        batches = require("pyarrow.parquet", extra="bulk").ParquetFile(file).iter_batches(ROWS)
        for n, row in enumerate((row for batch in batches for row in batch.to_pylist()), 1):
            yield f"{file.name}, row {n}", json.dumps(row, default=str).encode()
        return
    with file.open("rb") as lines:
        for n, line in enumerate(lines, 1):
            if line := line.strip():
                yield f"{file.name}, line {n}", line


def read(piece: Piece, query: str | None) -> Iterator[Row]:
    """The piece's rows."""
    with piece.file.open("rb") as lines:
        for about, raw in islice(zip(lines, lines), piece.skip, piece.skip + piece.count):
            where, again = json.loads(about)
            found = _parsed(raw)
            row = Row(where, _name(found))
            try:
                if again:
                    raise InputError("a row with this id came before")
                asked, passages = _asked(row.id, found, query)
                yield replace(row, query=asked, passages=passages)
            except (InputError, TypeError) as error:
                yield replace(row, wrong=str(error))


def _parsed(raw: bytes) -> Any:
    try:
        return json.loads(raw)
    except (ValueError, RecursionError) as error:
        return error


def _name(found: Any) -> str | None:
    name = found.get("id") if isinstance(found, dict) else None
    return None if isinstance(name, bool) or not isinstance(name, str | int) else well_formed(str(name))


def _asked(name: str | None, found: Any, query: str | None) -> tuple[str, tuple[Passage, ...]]:
    if isinstance(found, Exception):
        raise InputError(f"not JSON: {found}")
    if not isinstance(found, dict):
        raise InputError("expected an object")
    if name is None:
        raise InputError(f"id: expected a text or a whole number, got {type(found.get('id')).__name__}")
    if isinstance(found.get("text"), str):
        if query is None:
            raise InputError("a row with 'text' is a document: say with --query what it is to answer")
        return query, (Passage(found["text"], name),)
    asked, passages = found.get("query", query), found.get("passages")
    if not isinstance(asked, str) or not isinstance(passages, list):
        raise InputError("expected 'query', a text, and 'passages', a list")
    return asked, tuple(_passage(n, p) for n, p in enumerate(passages))


def _passage(n: int, given: Any) -> Passage:
    about = {"text": given} if isinstance(given, str) else given
    if not isinstance(about, dict) or not isinstance(about.get("text"), str):
        raise InputError(f"passages[{n}]: expected a text or an object with 'text', got {type(given).__name__}")
    title = {"title": about["title"]} if isinstance(about.get("title"), str) else {}
    return Passage(about["text"], str(n if about.get("id") is None else about["id"]), metadata=title)
