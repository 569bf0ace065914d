"""Rows out: a part file for each piece, written whole and renamed; a lock and a manifest beside them.

``OUT.parts/`` holds the input in chunks and what is done of it, so going on after a kill is listing it. At the end
the parts, in the order of the rows, become ``OUT`` and ``OUT.bad.jsonl``.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import Any, Self

from denoise_core._files import write_whole
from denoise_core._optional import require
from denoise_core.errors import InputError
from denoise_core.service.bulk.rows import KINDS, Piece, Row, chunks_of

_GROUP = 2000  # rows of a parquet row group


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
    columns = {"id": text, "query": text, "passage_ids": texts, "passages": texts, "record": text}
    schema = arrow.schema(list(columns.items()))
    with parquet.ParquetWriter(path, schema) as writer:
        while group := list(islice(lines, _GROUP)):
            rows = []
            for line in group:
                found, count = json.loads(line), count + 1
                kept = {"passage_ids": "id", "passages": "text"}
                row = {name: [p[field] for p in found["passages"]] for name, field in kept.items()}
                rows.append({**found, **row, "record": line.decode().rstrip("\n")})
            writer.write_table(arrow.Table.from_pylist(rows, schema=schema))
    return count
