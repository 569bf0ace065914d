"""Rows out: a part file for each piece, written whole and renamed; a lock and a manifest beside them.

``OUT.parts/`` holds what is done, so going on after a kill is listing it. At the end the parts, in the order of
the rows, become ``OUT`` and ``OUT.bad.jsonl``.
"""

from __future__ import annotations

import json
import os
import shutil
import uuid
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import Any, Self

from denoise_core._optional import require
from denoise_core.errors import InputError
from denoise_core.service.bulk.rows import KINDS, Bad, Piece

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

    def begin(self, about: dict[str, Any]) -> None:
        """``about`` are plain values that must be the same when the job is gone on with."""
        self.folder.mkdir(exist_ok=True)
        manifest, head = self.folder / "manifest.json", json.dumps(about, sort_keys=True)
        if not manifest.exists():
            whole(manifest, [head])
        elif manifest.read_text("utf-8").strip() != head:
            raise InputError(
                f"{self.folder} is of another job (another input, question or denoiser): remove it to begin anew, "
                "or take another output"
            )
        for torn in self.folder.glob("*.tmp"):
            torn.unlink(missing_ok=True)

    def remaining(self, pieces: Sequence[Piece]) -> list[Piece]:
        """What no part holds yet, in order."""
        done = [(start, stop) for start, stop, _ in self._listed()]
        out: list[Piece] = []
        for piece in pieces:
            at, end = piece.first, piece.first + piece.count
            for start, stop in done[bisect_left(done, (at, 0)) : bisect_left(done, (end, 0))]:
                out += [piece.cut(at, start)] if at < start else []
                at = stop
            out += [piece.cut(at, end)] if at < end else []
        return out

    def finish(self) -> tuple[int, int]:
        """The parts become the output; rows and bad rows."""
        counts = [0, 0]
        made = self.out.with_name(self.out.name + ".tmp")
        with self.bad_path.open("wb") as refused:

            def good() -> Iterator[bytes]:
                for _, _, path in self._listed():
                    with path.open("rb") as lines:
                        for line in lines:
                            wrong = line.startswith(_BAD)
                            counts[wrong] += 1
                            if wrong:
                                refused.write(b"{" + line[len(_BAD) :])
                            else:
                                yield line

            if self.out.suffix == ".parquet":
                _write_parquet(made, good())
            else:
                with made.open("wb") as file:
                    file.writelines(good())
                    file.flush()
                    os.fsync(file.fileno())
        if not counts[1]:
            self.bad_path.unlink()
        made.replace(self.out)
        shutil.rmtree(self.folder)
        return counts[0], counts[1]

    def _listed(self) -> list[tuple[int, int, Path]]:
        found = sorted(self.folder.glob("*.jsonl"))
        return [(int(p.stem[:12]), int(p.stem[13:]), p) for p in found]


def whole(path: Path, lines: Iterable[str]) -> None:
    """A file that is there with all its lines or not at all, whoever else writes the same one."""
    torn = path.with_name(f"{path.name}.{uuid.uuid4().hex}.tmp")
    with torn.open("wb") as file:
        file.writelines(f"{line}\n".encode() for line in lines)
        file.flush()
        os.fsync(file.fileno())
    torn.replace(path)


_BAD = b'{"bad": true, '


def bad_line(bad: Bad) -> str:
    return json.dumps({"bad": True, "where": bad.where, "id": bad.id, "reason": bad.reason})


def _write_parquet(path: Path, lines: Iterator[bytes]) -> None:
    """Flat columns and the whole record as JSON: nested records of different shapes share no schema."""
    arrow, parquet = require("pyarrow", extra="bulk"), require("pyarrow.parquet", extra="bulk")
    text, texts = arrow.string(), arrow.list_(arrow.string())
    columns = {"id": text, "query": text, "passage_ids": texts, "passages": texts, "record": text}
    schema = arrow.schema(list(columns.items()))
    with parquet.ParquetWriter(path, schema) as writer:
        while group := list(islice(lines, _GROUP)):
            rows = []
            for line in group:
                found = json.loads(line)
                kept = {"passage_ids": "id", "passages": "text"}
                row = {name: [p[field] for p in found["passages"]] for name, field in kept.items()}
                rows.append({**found, **row, "record": line.decode().rstrip("\n")})
            writer.write_table(arrow.Table.from_pylist(rows, schema=schema))
