"""Passages from files: text of any kind, CSV, JSON, HTML, PDF, docx, a folder, or standard input."""

from __future__ import annotations

import csv
import io
import json
import sys
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path, PurePath
from typing import Any, NoReturn

from denoise_core.cli.convert import CONVERTERS, convert_file
from denoise_core.errors import InputError
from denoise_core.types import Passage, replace_surrogates, unique_ids

STANDARD_INPUT = "standard input"


@dataclass(frozen=True, slots=True)
class LoadedPassages:
    """What was read, and what a person should be told about it (what was left out and why, ids changed)."""

    passages: tuple[Passage, ...]
    warnings: tuple[str, ...] = ()


def read_passages(*sources: str, skip_bad: bool = False) -> LoadedPassages:
    """Read each source: a file, a folder, or ``-`` for standard input.

    Text is UTF-8, with or without a mark at its start, or UTF-16 with one; else it is taken for Windows' Latin
    letters (cp1252). What is not UTF-8 is told.

    JSON lines, a JSON array and CSV whose records have a ``text`` are passages, one a record (optionally with
    ``id``, ``title``, ``score``; other fields become metadata). Any other file is one passage, to be cut by its
    structure, so that spans point into the file's text (after the mark, line ends as they are); of PDF and docx
    into the text that a converter made of it (`convert`; extra ``documents``). What in a folder is no text is left
    out with a warning. Raises `InputError` for what cannot be read, naming file and line; with ``skip_bad`` that
    is a warning too and the rest is read.
    """
    found: list[tuple[str | None, Passage]] = []
    warnings: list[str] = []

    def bad(message: str) -> None:
        if not skip_bad:
            raise InputError(f"{message} (--skip-bad leaves such parts out)")
        warnings.append(f"left out: {message}")

    for name, short, blob in (
        file for source in sources for file in _files(source, warnings)
    ):
        try:
            if isinstance(blob, OSError):
                raise blob
            suffix = PurePath(name).suffix.lower()
            text, coding = (
                (convert_file(suffix, blob), "UTF-8")
                if suffix in CONVERTERS
                else _decoded(blob)
            )
        except (OSError, UnicodeDecodeError, InputError) as error:
            bad(f"cannot read {name!r} as text: {error}")
            continue
        if coding != "UTF-8":
            warnings.append(f"{name} is not UTF-8; it was read as {coding}")
        records = _records(name, suffix, text)
        if not text.strip():
            warnings.append(f"{name} is empty")
        elif records is None:
            found.append((short, Passage(text, short, metadata={"file": name})))
        for where, record in records or ():
            try:
                found.append(
                    _passage(_json(record) if isinstance(record, str) else record)
                )
            except InputError as error:
                bad(f"{name}, {where}: {error}")
    repeated = sorted(
        i for i, n in Counter(i for i, _ in found if i is not None).items() if n > 1
    )
    if repeated:
        warnings.append(
            f"ids used more than once were numbered: {', '.join(repeated[:5])}"
        )
    if any(replace_surrogates(p.text) != p.text for _, p in found):
        warnings.append("half characters (lone surrogates) were replaced by U+FFFD")
    names = unique_ids([i for i, _ in found])
    passages = (
        replace(p, id=i, text=replace_surrogates(p.text))
        for (_, p), i in zip(found, names, strict=True)
    )
    return LoadedPassages(tuple(passages), tuple(warnings))


def _files(
    source: str, left_out: list[str]
) -> Iterator[tuple[str, str, bytes | OSError]]:
    """(name for messages, id, content) of every file that ``source`` stands for; of a folder those that are
    text."""
    if source == "-":
        stream = getattr(sys.stdin, "buffer", None)
        yield (
            STANDARD_INPUT,
            STANDARD_INPUT,
            stream.read() if stream else sys.stdin.read().encode(),
        )
        return
    path = Path(source)
    try:
        is_folder, is_there = path.is_dir(), path.exists()
    except (
        OSError,
        ValueError,
    ):  # a text given in the place of a path: too long, or with a NUL
        is_folder = is_there = False
    if not is_there:
        raise InputError(
            f"cannot read {source[:200]!r}: no such file or folder (use - for standard input)"
        )
    home = path.resolve()  # a link inside a folder may name any file of this machine
    some = False
    for file in (
        sorted(f for f in path.rglob("*") if f.is_file()) if is_folder else [path]
    ):
        short = file.relative_to(path).as_posix() if is_folder else path.name
        if (
            not file.resolve().is_relative_to(home)
            or (is_folder and short.startswith("."))
            or "/." in short
        ):
            continue
        try:
            blob = file.read_bytes()
            if is_folder and file.suffix.lower() not in CONVERTERS:
                _decoded(blob)
            yield str(file), short, blob
        except UnicodeDecodeError:
            left_out.append(f"left out: {file}: no text that can be read")
            continue
        except OSError as error:
            yield str(file), short, error
        some = True
    if not some:
        raise InputError(
            f"no files that can be read in the folder {source!r}; it may hold text, HTML, PDF and docx"
        )


def _records(name: str, suffix: str, text: str) -> list[tuple[str, Any]] | None:
    """The records of a file with their places; None for a file that holds none, which is one passage."""
    begins = text.lstrip()[:1] if name == STANDARD_INPUT else ""
    if suffix in (".csv", ".tsv"):
        return _rows(
            csv.DictReader(
                io.StringIO(text), delimiter="\t" if suffix == ".tsv" else ","
            )
        )
    if suffix == ".jsonl" or begins == "{":
        lines = [
            (f"line {n}", line)
            for n, line in enumerate(text.split("\n"), 1)
            if line.strip()
        ]
        known = [value for _, line in lines if isinstance(value := _tried(line), dict)]
        return lines if _any_text(known) or not known else None
    value = _tried(text) if suffix == ".json" or begins == "[" else None
    found = (
        [(f"record {n}", r) for n, r in enumerate(value, 1)]
        if isinstance(value, list)
        else []
    )
    return found if _any_text(r for _, r in found) else None


def _rows(table: csv.DictReader[str]) -> list[tuple[str, Any]] | None:
    """Empty cells are left out."""
    rows = [
        {k: v or "" for k, v in row.items() if k and (v or k == "text")}
        for row in table
    ]
    return (
        [(f"row {n}", row) for n, row in enumerate(rows, 1)]
        if "text" in (table.fieldnames or ())
        else None
    )


def _any_text(records: Iterable[Any]) -> bool:
    return any(isinstance(r, dict) and "text" in r for r in records)


def _decoded(blob: bytes) -> tuple[str, str]:
    """The text, and its coding. Raises `UnicodeDecodeError` for what is no text."""
    if blob[:2] in (b"\xff\xfe", b"\xfe\xff"):
        return blob.decode("utf-16"), "UTF-16"
    if b"\0" in blob:
        raise UnicodeDecodeError("utf-8", blob[:0], 0, 0, "a NUL, which no text has")
    try:
        return blob.decode("utf-8-sig"), "UTF-8"
    except UnicodeDecodeError:
        return blob.decode("cp1252", "replace"), "cp1252 (Windows' Latin letters)"


def _tried(text: str) -> Any:
    try:
        return _json(text)
    except InputError:
        return None


def _json(text: str) -> Any:
    try:
        return json.loads(text, parse_constant=_no_number)
    except json.JSONDecodeError as error:
        raise InputError(f"not JSON ({error.msg} at character {error.pos})") from error
    except RecursionError as error:
        raise InputError("not usable JSON: nested too deeply") from error


def _no_number(name: str) -> NoReturn:
    raise InputError(f"not JSON: {name} is no number there")


def _passage(record: Any) -> tuple[str | None, Passage]:
    """A record's id, where it has one, and the passage."""
    if not isinstance(record, dict):
        raise InputError(f"expected a JSON object, got {type(record).__name__}")
    if "text" not in record:
        raise InputError(
            f"expected a field 'text', found {', '.join(map(repr, record)) or 'no fields'}"
        )
    score, name = record.get("score"), record.get("id")
    try:
        score = None if score is None else float(score)
    except (TypeError, ValueError):
        raise InputError(f"expected 'score' as a number, got {score!r}") from None
    metadata = {k: v for k, v in record.items() if k not in ("text", "id", "score")}
    return None if name is None else str(name), Passage(
        record["text"], str(name), score, metadata
    )
