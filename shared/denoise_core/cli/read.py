"""Passages from files: text, CSV, JSON, HTML, PDF, docx, a folder, or standard input."""

from __future__ import annotations

import csv
import io
import json
import math
import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path, PurePath
from typing import Any, NoReturn

from denoise_core.cli.convert import CONVERTERS, convert_file
from denoise_core.errors import InputError
from denoise_core.text.markup import strip_tags
from denoise_core.text.structural import chunk_text
from denoise_core.types import Passage, replace_surrogates, unique_ids

STANDARD_INPUT = "standard input"
NOT_JSON = object()  # `None` is a JSON value
_RECORD_SUFFIXES = (".csv", ".tsv", ".jsonl")
_HTML_SUFFIXES = (".html", ".htm")
_MAX_CELL_CHARACTERS = 2**31 - 1  # the most that the csv module takes everywhere


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
    """A file: its name in messages, its passage's id, its path; None is standard input."""

    name: str
    passage_id: str
    path: Path | None
    is_in_folder: bool = False

    @property
    def suffix(self) -> str:
        return PurePath(self.name).suffix.lower()

    def read_bytes(self) -> bytes:
        """Raises `OSError` where the file cannot be read."""
        if self.path is not None:
            return self.path.read_bytes()
        stream = getattr(sys.stdin, "buffer", None)
        return stream.read() if stream else sys.stdin.read().encode()


def read_passages(
    *sources: str, skip_bad: bool = False, visible_text: bool = False
) -> LoadedPassages:
    """Read passages from files, folders or standard input.

    Text is UTF-8 or UTF-16 with a byte order mark; other bytes are read as cp1252
    (Windows' Latin letters) with a warning.

    JSON lines, a JSON array and CSV whose records have a ``text`` give one passage per
    record, with optional ``id``, ``title`` and ``score``; other fields become metadata.
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
        if not any(readable_files) and Path(source).is_dir():
            reasons = "".join(f"; {warning}" for warning in reader.warnings[:3])
            raise InputError(
                f"no files that can be read in the folder {source!r}; it may contain "
                f"text, HTML, PDF and docx{reasons}"
            )
    return reader.finish()


class _PassageReader:
    """Collects passages and warnings, file by file."""

    def __init__(
        self, skip_bad: bool, visible_text: bool, *, keeps_json: bool = False
    ) -> None:
        self.skip_bad = skip_bad
        self.keeps_json = keeps_json
        self.visible_text = visible_text
        self.warnings: list[str] = []
        self._left_out_count = 0
        self._found_ids: list[str | None] = []
        self._found_passages: list[Passage] = []

    def add_file(self, file: _SourceFile) -> bool:
        """Read a file; False where it was left out, and said so."""
        name = file.name
        try:
            text, encoding = _file_text(file)
            records = self._records(file, text)
        except (OSError, UnicodeDecodeError, csv.Error, InputError) as error:
            message = f"cannot read {name!r} as text: {error}"
            if file.is_in_folder:
                self.leave_out(message)
            else:
                self._reject(message)
            return False
        if encoding != "UTF-8":
            self.warnings.append(f"{name} is not UTF-8; it was read as {encoding}")
        if not text.strip():
            self.warnings.append(f"{name} is empty")
        elif records is None:
            if file.suffix == ".json" and _try_parse_json(text, NOT_JSON) is NOT_JSON:
                self.warnings.append(f"{name} is not JSON; it was read as text")
            passage = Passage(text, file.passage_id, metadata={"file": name})
            self._add(file.passage_id, passage)
        for record_location, record in records or ():
            try:
                if isinstance(record, str):
                    record = _parse_json_file(record)
                passage_id, passage = _record_passage(record)
                self._add(passage_id, passage)
            except InputError as error:
                self._reject(f"{name}, {record_location}: {error}")
        return True

    def _records(self, file: _SourceFile, text: str) -> list[tuple[str, Any]] | None:
        if self.keeps_json and file.suffix not in _RECORD_SUFFIXES:
            return None
        return _split_records(file, text)

    def _add(self, passage_id: str | None, passage: Passage) -> None:
        if self.visible_text:
            passage = to_visible_text(passage)
        self._found_ids.append(passage_id)
        self._found_passages.append(passage)

    def _reject(self, message: str) -> None:
        if not self.skip_bad:
            raise InputError(f"{message} (--skip-bad leaves such parts out)")
        self.leave_out(message)

    def leave_out(self, message: str) -> None:
        """Count a part that cannot be read, and say why."""
        self._left_out_count += 1
        self.warnings.append(f"left out: {message}")

    def finish(self) -> LoadedPassages:
        """Return the passages with unique ids and without lone surrogates."""
        if self._left_out_count > 1:
            self.warnings.append(f"{self._left_out_count:,} parts were left out")
        id_counts = Counter(self._found_ids)
        repeated_ids = []
        for passage_id, count in id_counts.items():
            if passage_id is not None and count > 1:
                repeated_ids.append(passage_id)
        if repeated_ids:
            shown_ids = ", ".join(sorted(repeated_ids)[:5])
            self.warnings.append(f"ids used more than once were numbered: {shown_ids}")
        passages = []
        has_surrogates = False
        ids = unique_ids(self._found_ids)
        for passage, unique_id in zip(self._found_passages, ids, strict=True):
            text = replace_surrogates(passage.text)
            if text != passage.text:
                has_surrogates = True
            unique_passage = replace(passage, id=unique_id, text=text)
            passages.append(unique_passage)
        if has_surrogates:
            self.warnings.append(
                "half characters (lone surrogates) were replaced by U+FFFD"
            )
        return LoadedPassages(tuple(passages), tuple(self.warnings))


def read_answer(source: str) -> tuple[str, Sequence[str]]:
    """Return the text of an answer, and what the user should know about its file.

    JSON is read whole, except for JSON lines: an answer may be an object, of which each
    field is checked.

    Args:
        source: A file, or ``-`` for standard input.

    Raises:
        InputError: It cannot be read, or has several texts.
    """
    reader = _PassageReader(skip_bad=False, visible_text=True, keeps_json=True)
    for file in _source_files(source):
        reader.add_file(file)
    loaded = reader.finish()
    if len(loaded.passages) > 1:
        raise InputError(
            f"--answer {source}: expected one text, got {len(loaded.passages)}; the "
            "texts to check it by are --passages"
        )
    texts = [passage.text for passage in loaded.passages]
    return "".join(texts), loaded.warnings


def read_lines(path: Path) -> list[tuple[int, str]]:
    """Return the lines of a file that are not empty, with their numbers from 1.

    Raises:
        InputError: It is no text in UTF-8.
    """
    try:
        # Ids may hold characters that splitlines would split at.
        lines = path.read_text("utf-8").split("\n")
    except (OSError, ValueError) as error:
        raise InputError(
            f"cannot read {str(path)!r}: {error}; expected a file of JSON lines"
        ) from error
    return [(number, line) for number, line in enumerate(lines, 1) if line.strip()]


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
    path = Path(source)
    try:
        is_folder = path.is_dir()
        exists = path.exists()
    except (OSError, ValueError):  # a text instead of a path: too long, or with a NUL
        is_folder = exists = False
    if not exists:
        raise InputError(
            f"cannot read {source[:200]!r}: no such file or folder (use - for standard "
            "input)"
        )
    if not is_folder:
        yield _SourceFile(str(path), path.name, path)
        return
    for file_path in _folder_files(path):
        file_id = file_path.relative_to(path).as_posix()
        yield _SourceFile(str(file_path), file_id, file_path, is_in_folder=True)


def _folder_files(folder: Path) -> Iterator[Path]:
    """The files below a folder, without hidden ones."""
    root = folder.resolve()
    for file_path in sorted(folder.rglob("*")):
        relative_path = file_path.relative_to(folder)
        is_hidden = any(part.startswith(".") for part in relative_path.parts)
        if is_hidden or not file_path.is_file():
            continue
        # A link inside the folder may name any file of this machine.
        real_path = file_path.resolve()
        if real_path.is_relative_to(root):
            yield file_path


def _file_text(source_file: _SourceFile) -> tuple[str, str]:
    """The text of a file and its encoding."""
    content = source_file.read_bytes()
    if source_file.suffix in CONVERTERS:
        return convert_file(source_file.suffix, content), "UTF-8"
    return _decode_text(content)


def _split_records(source_file: _SourceFile, text: str) -> list[tuple[str, Any]] | None:
    """The records of a file with their locations; None if the file is one passage."""
    first_character = ""
    if source_file.name == STANDARD_INPUT:  # there is no suffix that names the format
        first_character = text.lstrip()[:1]
    if source_file.suffix in (".csv", ".tsv"):
        delimiter = "\t" if source_file.suffix == ".tsv" else ","
        csv.field_size_limit(_MAX_CELL_CHARACTERS)  # Python's own is 131,072
        table_file = io.StringIO(text, newline="")  # lines as they are, old Macs' too
        table = csv.DictReader(table_file, delimiter=delimiter)
        return _table_records(table)
    if source_file.suffix == ".jsonl" or first_character == "{":
        lines: list[tuple[str, Any]] = []
        for line_number, text_line in enumerate(text.split("\n"), 1):
            if text_line.strip():
                lines.append((f"line {line_number}", text_line))
        values = [_try_parse_json(text_line) for _, text_line in lines]
        objects = [value for value in values if isinstance(value, dict)]
        has_records = _any_record_has_text(objects) or not objects
        return lines if has_records else None
    if source_file.suffix == ".json" or first_character == "[":
        value = _try_parse_json(text)
        if isinstance(value, list) and _any_record_has_text(value):
            return _numbered("record", value)
    return None


def _table_records(table: csv.DictReader[str]) -> list[tuple[str, Any]] | None:
    """The rows of a table with a column ``text``, without empty cells."""
    if "text" not in (table.fieldnames or ()):
        return None
    csv_rows = []
    for csv_row in table:
        row_cells = {"text": ""}
        for key, value in csv_row.items():
            if key and value:
                row_cells[key] = value
        csv_rows.append(row_cells)
    return _numbered("row", csv_rows)


def _numbered(kind: str, records: Sequence[Any]) -> list[tuple[str, Any]]:
    numbered_records = []
    for position, record in enumerate(records, 1):
        location = f"{kind} {position}"
        numbered_records.append((location, record))
    return numbered_records


def _any_record_has_text(records: Iterable[Any]) -> bool:
    return any(isinstance(record, dict) and "text" in record for record in records)


def _decode_text(content: bytes) -> tuple[str, str]:
    """The text and its encoding; raises `InputError` for binary content."""
    if content[:2] in (b"\xff\xfe", b"\xfe\xff"):
        return content.decode("utf-16"), "UTF-16"
    # Decoding alone would accept most binary formats, as cp1252 accepts any byte.
    if b"\0" in content:
        raise InputError("it has a NUL byte, which no text has")
    try:
        return content.decode("utf-8-sig"), "UTF-8"
    except UnicodeDecodeError:
        return content.decode("cp1252", "replace"), "cp1252 (Windows' Latin letters)"


def _try_parse_json(text: str, default: Any = None) -> Any:
    try:
        return _parse_json_file(text)
    except InputError:
        return default


def _parse_json_file(text: str) -> Any:
    try:
        return json.loads(
            text, parse_constant=_reject_constant, parse_float=_parse_finite
        )
    except json.JSONDecodeError as error:
        raise InputError(f"not JSON ({error.msg} at character {error.pos})") from error
    except RecursionError as error:
        raise InputError("not usable JSON: nested too deeply") from error
    except InputError:
        raise
    except ValueError as error:  # a whole number of thousands of digits
        raise InputError(f"not usable JSON: {error}") from error


def _parse_finite(digits: str) -> float:
    number = float(digits)
    if math.isinf(number):
        raise InputError(f"not usable JSON: {digits[:40]} is too large a number")
    return number


def _reject_constant(name: str) -> NoReturn:
    raise InputError(f"not JSON: {name} is no number there")


def _record_passage(record: Any) -> tuple[str | None, Passage]:
    """The record's id, if it has one, and its passage."""
    if not isinstance(record, dict):
        raise InputError(f"expected a JSON object, got {type(record).__name__}")
    if "text" not in record:
        names = ", ".join(map(repr, record)) or "no fields"
        raise InputError(f"expected a field 'text', found {names}")
    metadata = dict(record)
    text = metadata.pop("text")
    score_value = metadata.pop("score", None)
    record_id = metadata.pop("id", None)
    passage_score = None
    try:
        if score_value is not None:
            passage_score = float(score_value)
    except (TypeError, ValueError):
        passage_score = math.nan
    if passage_score is not None and not math.isfinite(passage_score):
        raise InputError(f"expected 'score' as a number, got {score_value!r}") from None
    passage = Passage(text, str(record_id), passage_score, metadata)
    return None if record_id is None else str(record_id), passage
