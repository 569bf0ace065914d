"""Rows in: from JSON Lines or parquet, one at a time, with what is wrong with a bad one."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from denoise_core._optional import require
from denoise_core.errors import InputError
from denoise_core.types import Passage, well_formed

KINDS = (".jsonl", ".parquet")
_AT_ONCE = 1000  # rows of a parquet file in memory


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


def files_of(source: str | Path) -> list[Path]:
    """The file, or the files of a folder by name. Raises `InputError` when there is none to read."""
    path = Path(source)
    found = sorted(p for p in path.iterdir() if p.suffix in KINDS) if path.is_dir() else [path]
    if not found or not all(p.is_file() and p.suffix in KINDS for p in found):
        raise InputError(f"{path}: expected a file, or a folder of files, ending in {' or '.join(KINDS)}")
    return found


def read_rows(files: Sequence[Path], query: str | None) -> Iterator[tuple[float, Row | Bad]]:
    """Each row with the share of the input, 0 to 1, that has been read up to it."""
    sizes = [max(1, f.stat().st_size) for f in files]
    whole, before = sum(sizes), 0
    for file, size in zip(files, sizes, strict=True):
        for share, where, found in _parquet(file) if file.suffix == ".parquet" else _lines(file):
            row = found if isinstance(found, Bad) else _row(f"{file.name}, {where}", found, query)
            yield (before + share * size) / whole, row
        before += size


def _lines(file: Path) -> Iterator[tuple[float, str, Any]]:
    size, at = max(1, file.stat().st_size), 0
    with file.open("rb") as lines:
        for number, line in enumerate(lines, 1):
            at += len(line)
            where = f"line {number}"
            if not line.strip():
                continue
            try:
                yield at / size, where, json.loads(line)
            except (ValueError, RecursionError) as error:
                yield at / size, where, Bad(f"{file.name}, {where}", None, f"not JSON: {error}")


def _parquet(file: Path) -> Iterator[tuple[float, str, Any]]:
    table = require("pyarrow.parquet", extra="bulk").ParquetFile(file)
    count, number = max(1, table.metadata.num_rows), 0
    for batch in table.iter_batches(batch_size=_AT_ONCE):
        for row in batch.to_pylist():
            number += 1
            yield number / count, f"row {number}", row


def _row(where: str, found: Any, query: str | None) -> Row | Bad:
    if not isinstance(found, dict):
        return Bad(where, None, "expected an object")
    name = found.get("id")
    if isinstance(name, bool) or not isinstance(name, str | int):
        return Bad(where, None, f"id: expected a text or a whole number, got {type(name).__name__}")
    name = well_formed(str(name))
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
