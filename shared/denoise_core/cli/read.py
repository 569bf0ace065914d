"""Passages from files: text, CSV, JSON, HTML, PDF, docx, a folder, or standard input."""

from __future__ import annotations

import csv
import io
import json
import os
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path, PurePath
from typing import Any

from denoise_core.cli.convert import CONVERTERS, convert_file
from denoise_core.errors import InputError
from denoise_core.evaluate.datasets import numbered_lines
from denoise_core.text.markup import strip_tags
from denoise_core.text.structural import chunk_text
from denoise_core.types import Passage, replace_surrogates, unique_ids

STANDARD_INPUT = "standard input"
_HTML_SUFFIXES = (".html", ".htm")
_MAX_CELL_CHARACTERS = 2**31 - 1  # the most that the csv module takes everywhere
_MAX_NAMED_FILES = 5  # of a folder that cannot be read for one reason
_SUFFIX_BY_START = {"{": ".jsonl", "[": ".json"}  # of standard input

# Where a record is, and its value, or the error of a line that is not JSON.
LocatedRecord = tuple[str, Any]


@dataclass(frozen=True, slots=True)
class LoadedPassages:
    """Passages of files, and what the user should know about them.

    Attributes:
        passages: With unique ids.
        warnings: What was left out and why, and which ids were changed.
    """

    passages: tuple[Passage, ...]
    warnings: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class _SourceFile:
    """A file: its name in messages, its passage's id, its path; None is standard input.

    A ``problem`` is why it cannot be read.
    """

    name: str
    passage_id: str
    path: Path | None
    is_in_folder: bool = False
    problem: str = ""

    @property
    def suffix(self) -> str:
        return PurePath(self.name).suffix.lower()

    def read_bytes(self) -> bytes:
        """Raises `OSError` or `InputError` where the file cannot be read."""
        if self.problem:
            raise InputError(self.problem)
        if self.path is not None:
            return self.path.read_bytes()
        if sys.stdin is None:
            raise InputError("it is closed")
        return sys.stdin.buffer.read()


def read_passages(
    *sources: str, skip_bad: bool = False, visible_text: bool = False
) -> LoadedPassages:
    """Read passages from files, folders or standard input.

    Text is UTF-8 or UTF-16 with a byte order mark; other bytes are read as cp1252
    (Windows' Latin letters) with a warning.

    JSON lines, a JSON array and CSV whose records have a ``text`` give one passage per
    record, with an optional ``id``; other fields become metadata.
    Any other file is one passage, cut by its structure later, so that spans count in
    the file's text; for PDF and docx in the converted text (`convert`).

    Args:
        *sources: Paths, or ``-`` for standard input. Files of a folder that cannot be
            read are left out with a warning.
        skip_bad: Warn about any other part that cannot be read, too, and go on.
        visible_text: Whether HTML becomes the text that its reader sees. Denoising cuts
            it by its blocks; what compares sentences needs the text.

    Raises:
        InputError: A part cannot be read; names file and line.
    """
    reader = _PassageReader(skip_bad, visible_text)
    for source in sources:
        readable_files = [reader.add_file(file) for file in _source_files(source)]
        if not any(readable_files) and os.path.isdir(source):
            reasons = ["it may contain text, HTML, PDF and docx", *reader.warnings[:3]]
            raise InputError(
                f"no files that can be read in the folder {source!r}; {'; '.join(reasons)}"
            )
    return reader.finish()


class _PassageReader:
    """Collects passages and warnings, file by file."""

    def __init__(self, skip_bad: bool, visible_text: bool) -> None:
        self.skip_bad = skip_bad
        self.visible_text = visible_text
        self.warnings: list[str] = []
        self._left_out_count = 0
        self._problem_counts: Counter[str] = Counter()
        self._passages: list[Passage] = []  # of an empty id where none is given

    def add_file(self, file: _SourceFile) -> bool:
        """Read a file; False where it was left out, and said so."""
        name = file.name
        if file.problem:
            self._problem_counts[file.problem] += 1
            if self._problem_counts[file.problem] > _MAX_NAMED_FILES:
                self._left_out_count += 1
                return False
        try:
            text, warning = _file_text(file)
            records = _split_records(file, text)
        except (OSError, UnicodeDecodeError, csv.Error, InputError) as error:
            self._leave_out(f"cannot read {name!r} as text: {error}", file.is_in_folder)
            return False
        if not text.strip():
            warning = "is empty"
        elif records is None:
            if file.suffix == ".json" and isinstance(_try_parse_json(text), InputError):
                warning = "is not JSON; it was read as text"
            passage = Passage(text, file.passage_id, metadata={"file": name})
            self._passages.append(passage)
        if warning:
            self.warnings.append(f"{name} {warning}")
        for location, record in records or ():
            try:
                self._passages.append(_record_passage(record))
            except InputError as error:
                self._leave_out(f"{name}, {location}: {error}")
        return True

    def _leave_out(self, message: str, is_allowed: bool = False) -> None:
        """Count a part that cannot be read, and say why; else raise."""
        if not is_allowed and not self.skip_bad:
            raise InputError(f"{message} (--skip-bad leaves such parts out)")
        self._left_out_count += 1
        self.warnings.append(f"left out: {message}")

    def finish(self) -> LoadedPassages:
        """Return the passages with unique ids and without lone surrogates."""
        for problem, count in self._problem_counts.items():
            unnamed_count = count - _MAX_NAMED_FILES
            if unnamed_count > 0:
                self.warnings.append(f"left out: {unnamed_count:,} more: {problem}")
        if self._left_out_count > 1:
            self.warnings.append(f"{self._left_out_count:,} parts were left out")
        given_ids = [passage.id or None for passage in self._passages]
        id_counts = Counter(filter(None, given_ids))
        repeated_ids = [name for name, count in id_counts.items() if count > 1]
        if repeated_ids:
            shown_ids = ", ".join(sorted(repeated_ids)[:5])
            self.warnings.append(f"ids used more than once were numbered: {shown_ids}")
        passages = []
        has_surrogates = False
        for passage, unique_id in zip(
            self._passages, unique_ids(given_ids), strict=True
        ):
            if self.visible_text:
                passage = to_visible_text(passage)
            text = replace_surrogates(passage.text)
            has_surrogates = has_surrogates or text != passage.text
            passages.append(replace(passage, id=unique_id, text=text))
        if has_surrogates:
            self.warnings.append(
                "half characters (lone surrogates) were replaced by U+FFFD"
            )
        return LoadedPassages(tuple(passages), tuple(self.warnings))


def read_answer(source: str) -> tuple[str, Sequence[str]]:
    """Return the text of an answer, and what the user should know about its file.

    JSON is read whole: an answer may be an object, of which each field is checked.

    Args:
        source: A file, or ``-`` for standard input.

    Raises:
        InputError: It cannot be read.
    """
    path = None
    if source != "-":
        path = Path(source)
    file = _SourceFile(source, source, path)
    try:
        text, warning = _file_text(file)
    except (OSError, ValueError) as error:
        raise InputError(f"cannot read {source!r} as text: {error}") from error
    text = replace_surrogates(text)
    answer = Passage(text, source, metadata={"file": source})
    warnings = []
    if warning:
        warnings = [f"{source} {warning}"]
    return to_visible_text(answer).text, warnings


def read_lines(path: Path) -> list[tuple[int, str]]:
    """Return the lines of a file that are not empty, with their numbers from 1.

    Raises:
        InputError: It is no text in UTF-8.
    """
    try:
        return numbered_lines(path.read_text("utf-8-sig"))
    except (OSError, ValueError) as error:
        raise InputError(
            f"cannot read {str(path)!r}: {error}; expected a file of JSON lines"
        ) from error


def to_visible_text(passage: Passage) -> Passage:
    """Return the passage; of HTML what its reader sees, a line for each row or block."""
    if not is_html(passage):
        return passage
    return replace(passage, text=strip_tags(passage.text))


def is_html(passage: Passage) -> bool:
    """Whether a passage is HTML by its file's name or its text.

    A part of a page may be well-formed XML, too.
    """
    file_name = str(passage.metadata.get("file", ""))  # a record's own may be anything
    suffix = PurePath(file_name).suffix.lower()
    return suffix in _HTML_SUFFIXES or chunk_text(passage.text).text_format == "html"


def _source_files(source: str) -> Iterator[_SourceFile]:
    """The files of a source."""
    if source == "-":
        yield _SourceFile(STANDARD_INPUT, STANDARD_INPUT, None)
        return
    # Unlike those of a Path, these are False for a text that no path can be.
    if not os.path.exists(source):
        raise InputError(
            f"cannot read {source[:200]!r}: no such file or folder (use - for standard "
            "input)"
        )
    path = Path(source)
    if not path.is_dir():
        yield _SourceFile(str(path), path.name, path)
        return
    for file_path, problem in _folder_files(path, path.resolve()):
        file_id = file_path.relative_to(path).as_posix()
        yield _SourceFile(str(file_path), file_id, file_path, True, problem)


def _folder_files(folder: Path, root: Path) -> Iterator[tuple[Path, str]]:
    """What is below a folder and not hidden, each with why it cannot be read, if so.

    In the order of names, and without recursion: a folder may be a thousand deep.
    """
    waiting_paths = [folder]
    while waiting_paths:
        path = waiting_paths.pop()
        is_inside = path != folder
        if is_inside and path.name.startswith("."):
            continue
        is_link = is_inside and path.is_symlink()
        # A link inside the folder may name any file of this machine.
        if is_link and not Path(os.path.realpath(path)).is_relative_to(root):
            yield path, "it is a link out of the folder"
        elif os.path.isfile(path):
            yield path, ""
        elif not os.path.isdir(path):
            yield path, "it is no file that can be opened"
        elif not is_link:
            try:
                waiting_paths += sorted(path.iterdir(), reverse=True)
            except OSError as error:
                yield path, str(error)


def _file_text(file: _SourceFile) -> tuple[str, str]:
    """The text of a file and, if it is not UTF-8, a warning that says so.

    Raises `InputError` for binary content.
    """
    content = file.read_bytes()
    if file.suffix in CONVERTERS:
        return convert_file(file.suffix, content), ""
    if content[:2] in (b"\xff\xfe", b"\xfe\xff"):
        return content.decode("utf-16"), "is not UTF-8; it was read as UTF-16"
    # Decoding alone would accept most binary formats, as cp1252 accepts any byte.
    if b"\0" in content:
        raise InputError("it has a NUL byte, which no text has")
    with suppress(UnicodeDecodeError):
        return content.decode("utf-8-sig"), ""
    return (
        content.decode("cp1252", "replace"),
        "is not UTF-8; it was read as cp1252 (Windows' Latin letters)",
    )


def _split_records(file: _SourceFile, text: str) -> list[LocatedRecord] | None:
    """The records of a file with their locations; None if the file is one passage."""
    suffix = file.suffix
    if file.path is None:
        suffix = _SUFFIX_BY_START.get(text.lstrip()[:1], "")
    records = []
    if suffix == ".csv":
        records = _csv_records(text)
    elif suffix == ".jsonl":
        for line_number, text_line in numbered_lines(text):
            records.append((f"line {line_number}", _try_parse_json(text_line)))
    elif suffix == ".json":
        values = _try_parse_json(text)
        if isinstance(values, list):
            for position, record in enumerate(values, 1):
                records.append((f"record {position}", record))
    objects = [record for _, record in records if isinstance(record, dict)]
    if any("text" in record for record in objects):
        return records
    if file.suffix == ".jsonl" and not objects:
        return records  # each says why it is none; standard input may be anything
    return None


def _csv_records(text: str) -> list[LocatedRecord]:
    """The rows of a table, without empty cells other than ``text``."""
    csv.field_size_limit(_MAX_CELL_CHARACTERS)  # Python's own is 131,072
    # Lines as they are, old Macs' too.
    table = csv.DictReader(io.StringIO(text, newline=""))
    records = []
    for position, csv_row in enumerate(table, 1):
        row_cells = {}
        for column_name, cell in csv_row.items():
            if column_name == "text" or (column_name and cell):
                row_cells[column_name] = cell or ""
        records.append((f"row {position}", row_cells))
    return records


def _try_parse_json(text: str) -> Any:
    """Return the value, or the error; numbers that are not finite are one."""
    try:
        value = json.loads(text)
        json.dumps(value, allow_nan=False)
    except (ValueError, RecursionError) as error:
        return InputError(f"not JSON: {error}")
    return value


def _record_passage(record: Any) -> Passage:
    """The passage of a record; of an empty id where it has none."""
    if isinstance(record, InputError):
        raise record
    if not isinstance(record, dict) or "text" not in record:
        field_names = type(record).__name__
        if isinstance(record, dict):
            field_names = ", ".join(record) or "no fields"
        raise InputError(f"expected an object with a field 'text', found {field_names}")
    metadata = dict(record)
    text = metadata.pop("text")
    record_id = metadata.pop("id", None)
    passage_id = ""
    if record_id is not None:
        passage_id = str(record_id)
    return Passage(text, passage_id, metadata=metadata)
