"""Passages from files: text of any kind, CSV, JSON, HTML, PDF, docx, a folder, or standard input."""

from __future__ import annotations

import csv
import io
import json
import sys
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path, PurePath
from typing import Any, NoReturn

from denoise_core.cli.convert import CONVERTERS, converted, declared
from denoise_core.errors import InputError
from denoise_core.types import Passage, unique_ids, well_formed

STANDARD_INPUT = "standard input"
TABLES = (".csv", ".tsv")


@dataclass(frozen=True, slots=True)
class Reading:
    """What was read, and what a person should be told about it (what was left out and why, ids changed)."""

    passages: tuple[Passage, ...]
    warnings: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class _Found:
    passage: Passage
    id: str | None


def read_passages(*sources: str, skip_bad: bool = False) -> Reading:
    """Read each source: a file, a folder, or ``-`` for standard input.

    Text is UTF-8, with or without a mark at its start, or UTF-16; else it is taken for Windows' Latin letters
    (cp1252). What is not UTF-8 is told.

    JSON lines, a JSON array and CSV whose records have a ``text`` are passages, one a record (optionally with
    ``id``, ``title``, ``score``; other fields become metadata). Any other file is one passage, to be cut by its
    structure, so that spans point into the file's text (after the mark, line ends as they are); of PDF and docx
    into the text that a converter made of it (`convert`; extra ``documents``). What in a folder is no text is left
    out with a warning. Raises `InputError` for what cannot be read, naming file and line; with ``skip_bad`` that
    is a warning too and the rest is read.
    """
    warnings: list[str] = []
    reader = _Reader(warnings if skip_bad else None, warnings)
    found = [
        f for s in sources for name, short, blob in _files(s, warnings) for f in reader.parse(name, short, blob)
    ]
    names = unique_ids([f.id for f in found])
    repeated = sorted(i for i, n in Counter(f.id for f in found if f.id is not None).items() if n > 1)
    if repeated:
        warnings.append(f"ids used more than once were numbered: {', '.join(repeated[:5])}")
    passages = tuple(replace(f.passage, id=i) for f, i in zip(found, names, strict=True))
    if any(well_formed(p.text) != p.text for p in passages):
        warnings.append("half characters (lone surrogates) were replaced by U+FFFD")
        passages = tuple(replace(p, text=well_formed(p.text)) for p in passages)
    return Reading(passages, tuple(warnings))


def _files(source: str, left_out: list[str]) -> Iterator[tuple[str, str, bytes | OSError]]:
    """(name for messages, id, content) of every file that ``source`` stands for; of a folder those that are
    text."""
    if source == "-":
        stream = getattr(sys.stdin, "buffer", None)
        yield STANDARD_INPUT, STANDARD_INPUT, stream.read() if stream else sys.stdin.read().encode()
        return
    path = Path(source)
    try:
        is_folder, is_there = path.is_dir(), path.exists()
    except (OSError, ValueError):  # a text given in the place of a path: too long, or with a NUL
        is_folder = is_there = False
    if not is_there:
        raise InputError(f"cannot read {source[:200]!r}: no such file or folder (use - for standard input)")
    if not is_folder:
        yield str(path), path.name, _content(path)
        return
    home = path.resolve()  # a link inside may name any file of this machine
    some = False
    for file in sorted(f for f in path.rglob("*") if f.is_file()):
        short = file.relative_to(path).as_posix()
        if not file.resolve().is_relative_to(home) or any(part.startswith(".") for part in PurePath(short).parts):
            continue
        blob = _content(file)
        if isinstance(blob, bytes) and file.suffix.lower() not in CONVERTERS and not _is_text(blob):
            left_out.append(f"left out: {file}: no text that can be read")
            continue
        some = True
        yield str(file), short, blob
    if not some:
        raise InputError(
            f"no files that can be read in the folder {source!r}; it may hold text, HTML, PDF and docx"
        )


def _content(file: Path) -> bytes | OSError:
    try:
        return file.read_bytes()
    except OSError as error:
        return error


def _is_text(blob: bytes) -> bool:
    try:
        _decoded(blob)
    except UnicodeDecodeError:
        return False
    return True


class _Reader:
    """Turns contents into passages.

    ``forgive`` collects what was left out, None raises it; ``notes`` collects what should be known.
    """

    def __init__(self, forgive: list[str] | None, notes: list[str]) -> None:
        self.forgive = forgive
        self.notes = notes

    def parse(self, name: str, short: str, blob: bytes | OSError) -> Iterator[_Found]:
        try:
            if isinstance(blob, OSError):
                raise blob
            suffix = PurePath(name).suffix.lower()
            text, coding = (converted(suffix, blob), "UTF-8") if suffix in CONVERTERS else _decoded(blob)
        except (OSError, UnicodeDecodeError, InputError) as error:
            self.bad(f"cannot read {name!r} as text: {error}")
            return
        if coding != "UTF-8":
            self.notes.append(f"{name} is not UTF-8; it was read as {coding}")
        if not text.strip():
            self.notes.append(f"{name} is empty")
            return
        records = self.records(name, suffix, text)
        if records is None:
            yield _Found(Passage(text, short, metadata={"file": name}), short)
            return
        for where, record in records:
            yield from self.record(where, record)

    def records(self, name: str, suffix: str, text: str) -> list[tuple[str, Any]] | None:
        """The records of a file with their places; None for a file that holds none, which is one passage."""
        given = name == STANDARD_INPUT
        if suffix == ".jsonl" or (given and text.lstrip().startswith("{")):
            rows = [(n, line) for n, line in enumerate(text.split("\n"), 1) if line.strip()]
            known = [r for _, line in rows if isinstance(r := _tried(line), dict)]
            if known and not any("text" in r for r in known):
                return None
            return [(f"{name}, line {n}", line) for n, line in rows]
        if suffix == ".json" or (given and text.lstrip().startswith("[")):
            value = _tried(text)
            if isinstance(value, list) and any(isinstance(r, Mapping) and "text" in r for r in value):
                return [(f"{name}, record {n}", r) for n, r in enumerate(value, 1)]
            return None
        if suffix in TABLES:
            table = csv.DictReader(io.StringIO(text), delimiter="\t" if suffix == ".tsv" else ",")
            if "text" in (table.fieldnames or ()):
                return [(f"{name}, row {n}", _cells(row)) for n, row in enumerate(table, 1)]
        return None

    def record(self, where: str, record: Any) -> Iterator[_Found]:
        try:
            record = _json(record) if isinstance(record, str) else record
            passage = _passage(record)
        except InputError as error:
            self.bad(f"{where}: {error}")
            return
        yield _Found(passage, None if record.get("id") is None else str(record["id"]))

    def bad(self, message: str) -> None:
        if self.forgive is None:
            raise InputError(f"{message} (--skip-bad leaves such parts out)")
        self.forgive.append(f"left out: {message}")


def _decoded(blob: bytes) -> tuple[str, str]:
    """The text, and its coding. Raises `UnicodeDecodeError` for what is no text."""
    if blob[:2] in (b"\xff\xfe", b"\xfe\xff"):
        return blob.decode("utf-16"), "UTF-16"
    odd, even = blob[1:2000:2].count(0), blob[:2000:2].count(0)
    if max(odd, even) > 0.4 * len(blob[:2000:2]) and not min(odd, even):  # UTF-16 without its mark
        return blob.decode("utf-16-le" if odd else "utf-16-be"), "UTF-16"
    try:
        if b"\0" not in blob:
            return blob.decode("utf-8-sig"), "UTF-8"
    except UnicodeDecodeError:
        said = declared(blob)
        if said is not None:
            return blob.decode(said, "replace"), said
        return blob.decode("cp1252", "replace"), "cp1252 (Windows' Latin letters)"
    blob.decode("utf-8")
    raise UnicodeDecodeError("utf-8", blob[:0], 0, 0, "a NUL, which no text has")


def _cells(row: Mapping[str | None, Any]) -> dict[str, Any]:
    """A row of CSV as a record: empty cells are left out, a score is a number."""
    out: dict[str, Any] = {k: v for k, v in row.items() if k and v not in (None, "")}
    try:
        return {**out, "text": out.get("text", ""), **({"score": float(out["score"])} if "score" in out else {})}
    except ValueError:
        return out


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


def _passage(record: Any) -> Passage:
    if not isinstance(record, dict):
        raise InputError(f"expected a JSON object, got {type(record).__name__}")
    if "text" not in record:
        raise InputError(f"expected a field 'text', found {', '.join(map(repr, record)) or 'no fields'}")
    score = record.get("score")
    if score is not None and (not isinstance(score, int | float) or isinstance(score, bool)):
        raise InputError(f"expected 'score' as a number, got {score!r}")
    metadata = {k: v for k, v in record.items() if k not in ("text", "id", "score")}
    return Passage(record["text"], str(record.get("id")), score, metadata)
