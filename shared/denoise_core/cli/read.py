"""Passages from files: JSON lines, a JSON array, text, Markdown, HTML, PDF, docx, a folder, or standard input."""

from __future__ import annotations

import json
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path, PurePath
from typing import Any, NoReturn

from denoise_core.cli.convert import CONVERTERS, converted
from denoise_core.errors import InputError
from denoise_core.text.chunk import chunks, whole
from denoise_core.types import Passage, Span, unique_ids, well_formed

SUFFIXES = (".jsonl", ".json", ".txt", ".md", *CONVERTERS)  # what is looked for in a folder
STANDARD_INPUT = "standard input"


@dataclass(frozen=True, slots=True)
class Reading:
    """What was read, and what a person should be told about it (bad lines left out, ids changed).

    ``prose`` are the ids of passages that are a whole file; they are cut into chunks to be scored.
    """

    passages: tuple[Passage, ...]
    warnings: tuple[str, ...] = ()
    prose: frozenset[str] = frozenset()

    def cut(self, passage: Passage) -> Sequence[Span]:
        """The chunker for these passages: files by sentences, to about 1,000 characters; records whole."""
        return chunks(1000)(passage) if passage.id in self.prose and passage.text else whole(passage)


@dataclass(frozen=True, slots=True)
class _Found:
    passage: Passage
    id: str | None
    prose: bool = False


def read_passages(*sources: str, skip_bad: bool = False) -> Reading:
    """Read each source: a file, a folder, or ``-`` for standard input.

    Text is UTF-8, with or without a mark at its start, or UTF-16 with one; else it is taken for Windows' Latin
    letters (cp1252), with a warning.

    A line of JSON is one passage (``text``, and optionally ``id``, ``title``, ``score``; other fields become
    metadata), and so is an object in a JSON array. Any other file is one passage, so that spans point into
    the file's text (after the mark, line ends as they are); of HTML, PDF and docx into the text that a converter
    made of it (`convert`; extra ``documents``). Raises `InputError` for what cannot be read,
    naming file and line; with ``skip_bad`` that is a warning and the rest is read.
    """
    warnings: list[str] = []
    reader = _Reader(warnings if skip_bad else None, warnings)
    found = [f for s in sources for name, short, blob in _files(s) for f in reader.parse(name, short, blob)]
    names = unique_ids([f.id for f in found])
    repeated = sorted(i for i, n in Counter(f.id for f in found if f.id is not None).items() if n > 1)
    if repeated:
        warnings.append(f"ids used more than once were numbered: {', '.join(repeated[:5])}")
    passages = tuple(replace(f.passage, id=i) for f, i in zip(found, names, strict=True))
    if any(well_formed(p.text) != p.text for p in passages):
        warnings.append("half characters (lone surrogates) were replaced by U+FFFD")
        passages = tuple(replace(p, text=well_formed(p.text)) for p in passages)
    prose = frozenset(i for f, i in zip(found, names, strict=True) if f.prose)
    return Reading(passages, tuple(warnings), prose)


def _files(source: str) -> Iterator[tuple[str, str, bytes | OSError]]:
    """(name for messages, id, content) of every file that ``source`` stands for."""
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
    files = [path]
    if is_folder:
        home = path.resolve()  # a link inside may name any file of this machine
        inside = (f for f in path.rglob("*") if f.suffix.lower() in SUFFIXES and f.is_file())
        files = sorted(f for f in inside if f.resolve().is_relative_to(home))
        if not files:
            raise InputError(f"no {', '.join(SUFFIXES)} files in the folder {source!r}")
    for file in files:
        short = file.relative_to(path).as_posix() if is_folder else file.name
        try:
            yield str(file), short, file.read_bytes()
        except OSError as error:
            yield str(file), short, error


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
            text, guessed = (converted(suffix, blob), False) if suffix in CONVERTERS else _decoded(blob)
        except (OSError, UnicodeDecodeError, InputError) as error:
            self.bad(f"cannot read {name!r} as text: {error}")
            return
        if guessed:
            self.notes.append(f"{name} is not UTF-8; it was read as cp1252 (Windows' Latin letters)")
        start = text.lstrip()[:1]
        given = name == STANDARD_INPUT
        if name.lower().endswith(".jsonl") or (given and start == "{"):
            for number, line in enumerate(text.split("\n"), 1):
                if line.strip():
                    yield from self.record(f"{name}, line {number}", line)
        elif name.lower().endswith(".json") or (given and start == "["):
            yield from self.array(name, text)
        elif text.strip():
            yield _Found(Passage(text, short, metadata={"file": name}), short, prose=True)

    def array(self, name: str, text: str) -> Iterator[_Found]:
        try:
            records = _json(text)
            if not isinstance(records, list):
                raise InputError(f"expected a JSON array of objects with 'text', got {type(records).__name__}")
        except InputError as error:
            self.bad(f"{name}: {error}")
            return
        for number, record in enumerate(records, 1):
            yield from self.record(f"{name}, record {number}", record)

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


def _decoded(blob: bytes) -> tuple[str, bool]:
    """The text, and whether its coding was guessed. Raises `UnicodeDecodeError` for what is no text."""
    if blob[:2] in (b"\xff\xfe", b"\xfe\xff"):
        return blob.decode("utf-16"), False
    try:
        return blob.decode("utf-8-sig"), False
    except UnicodeDecodeError:
        if b"\0" in blob:  # no text has one
            raise
        return blob.decode("cp1252", "replace"), True


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
