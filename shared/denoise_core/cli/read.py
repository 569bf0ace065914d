"""Passages from files: JSON lines, plain text, Markdown, a folder of them, or standard input."""

from __future__ import annotations

import json
import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from denoise_core.chunk import chunks, whole
from denoise_core.errors import InputError
from denoise_core.types import Passage, Span, unique_ids

SUFFIXES = (".jsonl", ".txt", ".md")
_PROSE = "prose"  # metadata["format"] of a passage that is a whole file and is cut into chunks for scoring


@dataclass(frozen=True, slots=True)
class Reading:
    """What was read, and what a person should be told about it (bad lines left out, ids changed)."""

    passages: tuple[Passage, ...]
    warnings: tuple[str, ...] = ()


def read_passages(source: str, *, skip_bad: bool = False) -> Reading:
    """Read ``source``: a file, a folder, or ``-`` for standard input.

    A line of JSON is one passage (``text``, and optionally ``id``, ``title``, ``score``; other fields become
    metadata). A text or Markdown file is one passage, so that spans point into the file. Raises `InputError`
    for what cannot be read, naming file and line; with ``skip_bad`` that is a warning and the rest is read.
    """
    warnings: list[str] = []
    found: list[Passage] = []
    ids: list[str | None] = []
    for name, text in _texts(source, warnings if skip_bad else None):
        for passage, given in _parse(name, text, warnings if skip_bad else None):
            found.append(passage)
            ids.append(given)
    names = unique_ids(ids)
    repeated = sorted(str(i) for i, n in Counter(ids).items() if i is not None and n > 1)
    if repeated:
        warnings.append(f"ids used more than once were numbered: {', '.join(repeated[:5])}")
    return Reading(tuple(replace(p, id=i) for p, i in zip(found, names, strict=True)), tuple(warnings))


def cut(passage: Passage) -> Sequence[Span]:
    """The chunker for what `read_passages` gives: files by sentences of about 1,000 characters, lines whole."""
    return chunks(1000)(passage) if passage.metadata.get("format") == _PROSE and passage.text else whole(passage)


def _texts(source: str, forgive: list[str] | None) -> Iterator[tuple[str, str]]:
    """(name, text) of every file that ``source`` stands for."""
    if source == "-":
        yield "standard input", sys.stdin.read()
        return
    path = Path(source)
    if not path.exists():
        raise InputError(f"cannot read {source!r}: no such file or folder (use - for standard input)")
    files = [path]
    if path.is_dir():
        files = sorted(f for f in path.rglob("*") if f.suffix.lower() in SUFFIXES and f.is_file())
        if not files:
            raise InputError(f"no {', '.join(SUFFIXES)} files in the folder {source!r}")
    for file in files:
        try:
            yield str(file), file.read_text(encoding="utf-8-sig")
        except (OSError, UnicodeDecodeError) as error:
            _bad(f"cannot read {str(file)!r} as UTF-8 text: {error}", forgive)


def _parse(name: str, text: str, forgive: list[str] | None) -> Iterator[tuple[Passage, str | None]]:
    if not (name.lower().endswith(".jsonl") or (name == "standard input" and text.lstrip().startswith("{"))):
        if text.strip():
            short = Path(name).name
            yield Passage(text, short, metadata={"format": _PROSE, "file": name}), short
        return
    for number, record in _records(name, text.split("\n"), forgive):
        try:
            yield _passage(record), None if record.get("id") is None else str(record["id"])
        except InputError as error:
            _bad(f"{name}, line {number}: {error}", forgive)


def _records(name: str, lines: Iterable[str], forgive: list[str] | None) -> Iterator[tuple[int, dict[str, Any]]]:
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        try:
            record = json.loads(line)
        except json.JSONDecodeError as error:
            _bad(f"{name}, line {number}: not JSON ({error.msg} at character {error.pos})", forgive)
            continue
        if isinstance(record, dict):
            yield number, record
        else:
            _bad(f"{name}, line {number}: expected a JSON object, got {type(record).__name__}", forgive)


def _passage(record: dict[str, Any]) -> Passage:
    if "text" not in record:
        raise InputError(f"expected a field 'text', found {', '.join(map(repr, record)) or 'no fields'}")
    score = record.get("score")
    if score is not None and not isinstance(score, int | float):
        raise InputError(f"expected 'score' as a number, got {score!r}")
    metadata = {k: v for k, v in record.items() if k not in ("text", "id", "score")}
    return Passage(record["text"], str(record.get("id")), score, metadata)


def _bad(message: str, forgive: list[str] | None) -> None:
    if forgive is None:
        raise InputError(f"{message} (--skip-bad leaves such parts out)")
    forgive.append(f"left out: {message}")
