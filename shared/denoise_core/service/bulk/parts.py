"""Rows in and out: the input in chunks that workers read by themselves, a part file for what became of each.

``OUT.parts/`` holds both, so no row crosses a pipe and going on after a kill is listing what is there. A chunk
is a file of two lines a row: where the row stood and whether its id came before, and the row itself. Parts are
written whole and renamed; at the end they become ``OUT`` and ``OUT.bad.jsonl``, in the order of the rows.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from hashlib import blake2b, sha256
from itertools import islice
from pathlib import Path
from typing import Any, Self

from denoise_core._files import write_whole
from denoise_core._optional import require
from denoise_core.errors import InputError
from denoise_core.types import Passage, well_formed

KINDS = (".jsonl", ".parquet")
ROWS = 64  # of a chunk at most
BYTES = 1 << 20  # of a chunk at most, unless one row has more
_GROUP = 2000  # rows of a parquet row group


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


class Parts:
    """The output of one job. Raises `InputError` for an output that is there already or that another process
    writes; `begin` raises it for parts of another job."""

    def __init__(self, out: Path) -> None:
        if out.suffix not in KINDS:
            raise InputError(f"{out}: expected a name ending in {' or '.join(KINDS)}")
        if out.suffix == ".parquet":
            require("pyarrow", extra="bulk")
        self.out = out.absolute()
        self.folder = self.out.with_name(out.name + ".parts")
        self.bad_path = self.out.with_name(out.name + ".bad.jsonl")
        self._lock = require("filelock", extra="bulk").FileLock(self.out.with_name(out.name + ".lock"), timeout=0)

    def __enter__(self) -> Self:
        self.out.parent.mkdir(parents=True, exist_ok=True)
        try:
            self._lock.acquire()
        except TimeoutError as error:
            raise InputError(f"{self.out} is being written by another process; wait for it, or end it") from error
        if self.out.exists():
            self.__exit__()
            raise InputError(f"{self.out} is there already; take another name, or remove it")
        return self

    def __exit__(self, *_: object) -> None:
        if self.out.exists():
            Path(self._lock.lock_file).unlink(missing_ok=True)  # nobody begins this job again
        self._lock.release()

    def begin(self, files: Sequence[Path], about: dict[str, Any]) -> list[Piece]:
        """The input in pieces. ``about`` are plain values that must be the same when the job is gone on with."""
        self.folder.mkdir(exist_ok=True)
        manifest = self.folder / "manifest.json"
        new = not manifest.exists()
        for torn in self.folder.glob("[0-9]*") if new else ():
            torn.unlink()
        pieces, digest = chunks_of(files, self.folder, write=new)
        head = json.dumps({**about, "sha256": digest}, sort_keys=True)
        if new:
            write_whole(manifest, head)
        elif manifest.read_text("utf-8") != head:
            raise InputError(
                f"{self.folder} is of another job (another input, question or denoiser): remove it to begin anew, "
                "or take another output"
            )
        return pieces

    def remaining(self, pieces: Iterable[Piece]) -> list[Piece]:
        """What no part holds yet, in order."""
        done = {path.stem for path in self.folder.glob("*.jsonl")}
        left: list[Piece] = []
        for piece in pieces:
            if piece.name not in done:
                ones = [one for one in piece.singles() if one.name not in done]
                left += ones if len(ones) < piece.count else [piece]
        return left

    def finish(self) -> tuple[int, int]:
        """The parts become the output; rows and bad rows."""
        bad = _joined(self.bad_path, self._lines(".bad"))
        if not bad:
            self.bad_path.unlink()
        made = self.out.with_name(self.out.name + ".tmp")
        rows = (_as_parquet if self.out.suffix == ".parquet" else _joined)(made, self._lines(".jsonl"))
        made.replace(self.out)
        shutil.rmtree(self.folder)
        return rows, bad

    def _lines(self, suffix: str) -> Iterator[bytes]:
        at = 0
        parts = [(int(p.stem[:12]), -int(p.stem[13:]), p) for p in self.folder.glob("*.jsonl")]
        for start, stop, path in sorted(parts):  # the whole of a piece before a row of it that was done again
            if start >= at and (file := path.with_suffix(suffix)).exists():
                with file.open("rb") as lines:
                    yield from lines
            at = max(at, -stop)


def write_part(folder: Path, piece: Piece, rows: Sequence[dict[str, Any]], bad: Sequence[Row]) -> None:
    """What became of a piece. A part whose rows are there is done, so those come last."""
    if bad:
        told = ({"where": b.where, "id": b.id, "reason": b.wrong} for b in bad)
        write_whole(folder / f"{piece.name}.bad", "".join(f"{json.dumps(each)}\n" for each in told))
    write_whole(folder / f"{piece.name}.jsonl", "".join(f"{json.dumps(row)}\n" for row in rows))


def _joined(path: Path, lines: Iterator[bytes]) -> int:
    """How many there are."""
    with path.open("wb") as file:
        return sum(file.write(line) > 0 for line in lines)


def _as_parquet(path: Path, lines: Iterator[bytes]) -> int:
    """Flat columns and the whole record as JSON: nested records of different shapes share no schema."""
    arrow, parquet = require("pyarrow", extra="bulk"), require("pyarrow.parquet", extra="bulk")
    text, texts, count = arrow.string(), arrow.list_(arrow.string()), 0
    schema = arrow.schema({"id": text, "query": text, "passage_ids": texts, "passages": texts, "record": text})
    with parquet.ParquetWriter(path, schema) as writer:
        while group := [line.decode().rstrip("\n") for line in islice(lines, _GROUP)]:
            rows = [json.loads(line) for line in group]
            columns: dict[str, list[Any]] = {name: [r[name] for r in rows] for name in ("id", "query")}
            for name, field in (("passage_ids", "id"), ("passages", "text")):
                columns[name] = [[p[field] for p in r["passages"]] for r in rows]
            writer.write_table(arrow.table({**columns, "record": group}, schema=schema))
            count += len(group)
    return count


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
