"""Rows out: one line each in a journal beside the output, so that a killed job knows what it has done.

The journal is ``OUT.journal``: JSON Lines, appended to. A kill can leave at most the last line torn, which the
next run cuts off. At the end it becomes the output, in one move.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable
from hashlib import blake2b
from pathlib import Path
from typing import Any

from denoise_core._optional import require
from denoise_core.errors import InputError
from denoise_core.service.bulk.rows import KINDS, Bad

_GROUP = 2000  # rows of a parquet row group


class Journal:
    """What is done of the job ``about`` (plain values that must be the same when it is gone on with).

    Raises `InputError` for an output that is there already, and for a journal of another job.
    """

    def __init__(self, out: Path, about: dict[str, Any]) -> None:
        if out.suffix not in KINDS:
            raise InputError(f"{out}: expected a name ending in {' or '.join(KINDS)}")
        if out.exists():
            raise InputError(f"{out} is there already; take another name, or remove it")
        if out.suffix == ".parquet":
            require("pyarrow", extra="bulk")
        self.out = out
        self.path = out.with_name(out.name + ".journal")
        self.bad_path = out.with_name(out.name + ".bad.jsonl")
        self.done: set[bytes] = set()
        self.bad = 0
        head = json.dumps(about, sort_keys=True)
        out.parent.mkdir(parents=True, exist_ok=True)
        if self.path.exists():
            self._go_on(head)
        else:
            with self.path.open("xb") as file:
                file.write(head.encode() + b"\n")
        self.known = len(self.done)  # rows of an earlier run
        self._file = self.path.open("ab")
        self._bad_file = self.bad_path.open("wb")  # what failed is tried again, and found wrong again

    def add(self, rows: Iterable[tuple[str, str]]) -> None:
        """Ids with their lines, which are JSON objects."""
        lines = []
        for name, line in rows:
            self.done.add(key(name))
            lines.append(line)
        self._file.write("".join(f"{line}\n" for line in lines).encode())
        self._file.flush()

    def refuse(self, bad: Bad) -> None:
        self.bad += 1
        row = {"where": bad.where, "id": bad.id, "reason": bad.reason}
        self._bad_file.write(json.dumps(row).encode() + b"\n")
        self._bad_file.flush()

    def close(self) -> None:
        self._file.close()
        self._bad_file.close()

    def finish(self) -> None:
        """Make the journal the output."""
        self.close()
        part = self.out.with_name(self.out.name + ".part")
        with self.path.open("rb") as lines:
            next(lines)
            if self.out.suffix == ".parquet":
                _write_parquet(part, lines)
            else:
                with part.open("wb") as file:
                    for line in lines:
                        file.write(line)
                    file.flush()
                    os.fsync(file.fileno())
        part.replace(self.out)
        self.path.unlink()
        if not self.bad:
            self.bad_path.unlink()

    def _go_on(self, head: str) -> None:
        end = 0
        with self.path.open("rb") as lines:
            for line in lines:
                if not line.endswith(b"\n"):
                    break  # torn by a kill
                if not end and line.strip() != head.encode():
                    raise InputError(
                        f"{self.path} is of another job (another input, question or denoiser): remove it to begin "
                        "anew, or take another output"
                    )
                if end:
                    self.done.add(key(json.loads(line)["id"]))
                end += len(line)
        with self.path.open("r+b") as file:
            file.truncate(end)
            if not end:
                file.write(head.encode() + b"\n")


def key(name: str) -> bytes:
    """Of an id: 16 bytes, whatever its length."""
    return blake2b(name.encode(), digest_size=16).digest()


def _write_parquet(path: Path, lines: Iterable[bytes]) -> None:
    """Flat columns and the whole record as JSON: nested records of different shapes share no schema."""
    arrow, parquet = require("pyarrow", extra="bulk"), require("pyarrow.parquet", extra="bulk")
    text, texts = arrow.string(), arrow.list_(arrow.string())
    columns = {"id": text, "query": text, "passage_ids": texts, "passages": texts, "record": text}
    schema = arrow.schema(list(columns.items()))
    rows: list[dict[str, Any]] = []
    with parquet.ParquetWriter(path, schema) as writer:

        def write() -> None:
            if rows:
                writer.write_table(arrow.Table.from_pylist(rows, schema=schema))
                rows.clear()

        for line in lines:
            found = json.loads(line)
            kept = found["passages"]
            rows.append(
                {
                    "id": found["id"],
                    "query": found["query"],
                    "passage_ids": [p["id"] for p in kept],
                    "passages": [p["text"] for p in kept],
                    "record": line.decode().rstrip("\n"),
                }
            )
            if len(rows) >= _GROUP:
                write()
        write()
