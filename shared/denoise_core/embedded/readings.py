"""What was read of texts, kept by their content: in memory up to a limit, and on disk for other processes.

A reading does not depend on a question, so a passage is read once, however many questions are asked about it.
Vectors of word pieces are kept in 8 bit. The file holds numbers and nothing that is executed or unpickled.
"""

from __future__ import annotations

import hashlib
import logging
import struct
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from denoise_core.errors import InputError
from denoise_core.running.caches.bounded import Bounded
from denoise_core.running.caches.stores import SqliteFile

Floats = NDArray[np.float32]

MEMORY = 512 * 2**20  # bytes
FORMAT = 1
FILE = "readings.sqlite"
_HEAD = struct.Struct("<4sIII")  # mark, word pieces, parts, width
_MARK = b"RDR1"

log = logging.getLogger("denoise_core")


@dataclass(frozen=True, slots=True, eq=False)
class Reading:
    """One text, read in one part or more, because a window holds some 510 word pieces.

    ``ids`` ``(n,)`` are its word pieces, ``parts`` how many of them each part has. ``sentence`` ``(parts, width)``
    is each part's embedding, of length 1. ``tokens`` ``(n, width)`` times ``scale`` ``(n, 1)`` are the word
    pieces' vectors, of length 1.
    """

    ids: NDArray[np.int32]
    parts: NDArray[np.int32]
    sentence: Floats
    tokens: NDArray[np.int8]
    scale: Floats

    @property
    def nbytes(self) -> int:
        return sum(a.nbytes for a in (self.ids, self.parts, self.sentence, self.tokens, self.scale))

    def to_bytes(self) -> bytes:
        head = _HEAD.pack(_MARK, len(self.ids), len(self.parts), self.sentence.shape[1])
        arrays = (self.ids, self.parts, self.sentence, self.tokens, self.scale)
        return head + b"".join(np.ascontiguousarray(a).tobytes() for a in arrays)

    @classmethod
    def from_bytes(cls, blob: bytes) -> Reading:
        """Raises `ValueError` for anything but what `to_bytes` gives."""
        if len(blob) < _HEAD.size:
            raise ValueError("too short")
        mark, n, parts, width = _HEAD.unpack_from(blob)
        if mark != _MARK or len(blob) != _HEAD.size + 4 * (n + parts + parts * width + n) + n * width:
            raise ValueError("not a reading, or cut off")
        at = _HEAD.size

        def taken(dtype: type[np.generic], *shape: int) -> NDArray[np.generic]:
            nonlocal at
            count = int(np.prod(shape))
            found = np.frombuffer(blob, dtype=dtype, count=count, offset=at).reshape(shape)
            at += found.nbytes
            return found

        reading = cls(
            taken(np.int32, n),  # type: ignore[arg-type]
            taken(np.int32, parts),  # type: ignore[arg-type]
            taken(np.float32, parts, width),  # type: ignore[arg-type]
            taken(np.int8, n, width),  # type: ignore[arg-type]
            taken(np.float32, n, 1),  # type: ignore[arg-type]
        )
        if int(reading.parts.sum()) != n:
            raise ValueError("its parts do not add up")
        return reading


def eight_bit(vectors: Floats) -> tuple[NDArray[np.int8], Floats]:
    """Vectors of length 1 as 8-bit numbers ``(n, width)`` and the scale ``(n, 1)`` that brings them back."""
    unit = vectors / np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), 1e-12)
    scale = np.maximum(np.abs(unit).max(1, keepdims=True, initial=0), 1e-12) / 127
    return np.rint(unit / scale).astype(np.int8), scale.astype(np.float32)


def key_of(text: str) -> bytes:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).digest()[:16]


class Readings:
    """Readings by text. ``model`` names what read them; ``folder`` also keeps them there, for other processes.

    At most ``memory`` bytes are held in this process. ``read`` counts texts that had to be read. Safe to use from
    several threads. Raises `InputError` for a limit below 0, and when the folder's file holds readings of another
    model or is no such file.
    """

    def __init__(self, model: str, *, memory: int = MEMORY, folder: str | Path | None = None) -> None:
        if memory < 0:
            raise InputError(f"memory={memory}: expected bytes, 0 or more")
        self.model = model
        self.memory = memory
        self.kept: Bounded[bytes, Reading] = Bounded(memory, lambda reading: reading.nbytes)
        self.file = None if folder is None else SqliteFile(Path(folder) / FILE, self._make, timeout=30)
        self.read = 0
        self._lock = threading.Lock()

    def get(self, keys: Sequence[bytes]) -> dict[bytes, Reading]:
        """Those of the keys that are kept."""
        found = {key: kept for key in dict.fromkeys(keys) if (kept := self.kept.get(key)) is not None}
        missing = [(key,) for key in dict.fromkeys(keys) if key not in found]
        for key, blob in self._execute("SELECT key, reading FROM readings WHERE key = ?", missing):
            try:
                found[bytes(key)] = reading = Reading.from_bytes(blob)
            except ValueError as error:
                log.warning("a stored reading is damaged (%s) and is made again", type(error).__name__)
            else:
                self.kept.put(bytes(key), reading)
        return found

    def put(self, readings: Mapping[bytes, Reading]) -> None:
        with self._lock:
            self.read += len(readings)
        for key, reading in readings.items():
            self.kept.put(key, reading)
        rows = [(key, reading.to_bytes()) for key, reading in readings.items()] if self.file else []
        self._execute("INSERT OR REPLACE INTO readings (key, reading) VALUES (?, ?)", rows)

    def _execute(self, sql: str, rows: Sequence[tuple[bytes, ...]]) -> list[tuple[bytes, bytes]]:
        import sqlite3

        try:
            return self.file.execute(sql, rows) if self.file is not None and rows else []
        except sqlite3.DatabaseError as error:
            assert self.file is not None
            raise InputError(f"{self.file.path} is not a file of readings: {error}; delete it") from error

    def _make(self, connection: Any) -> None:
        connection.execute("CREATE TABLE IF NOT EXISTS about (model TEXT NOT NULL)")
        connection.execute("CREATE TABLE IF NOT EXISTS readings (key BLOB PRIMARY KEY, reading BLOB NOT NULL)")
        known = connection.execute("SELECT model FROM about").fetchall()
        own = f"{self.model}, format {FORMAT}"
        if not known:
            connection.execute("INSERT INTO about (model) VALUES (?)", (own,))
        elif known[0][0] != own:
            assert self.file is not None
            raise InputError(
                f"{self.file.path} holds readings of {known[0][0]!r}, not of {own!r}: choose another folder"
            )
