"""Question and passages read apart by a sentence encoder: cosine of the whole, and of the best-matching words.

One reading gives all signals. ``cosine`` is that of the mean-pooled last layer, the model's own embedding.
``maxsim`` is late interaction (Khattab and Zaharia, ColBERT, section 3): for each word piece of the question
the best cosine among those of the passage, averaged with the weight of how rare the piece is in the list.
``rest`` is the same with each piece weighted once more, by how far the best passage leaves it uncovered: what
answers the other part of a question in two parts ranks high there, what repeats the best passage does not.

What was read of a text does not depend on a question and is kept by its content (`Readings`): in memory up to a
limit, and on disk for other processes, word pieces in 8 bit. The file holds numbers and nothing that is executed.
"""

from __future__ import annotations

import hashlib
import logging
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from denoise_core.embedded.minilm import MiniLM, load, tokenizer_of
from denoise_core.errors import InputError
from denoise_core.local.batching import windows
from denoise_core.running.caches.stores import Bounded, Once, SqliteFile
from denoise_core.running.recipes import Travels
from denoise_core.types import well_formed

Floats = NDArray[np.float32]

MEMORY = 512 * 2**20  # bytes
FORMAT = 2  # of safetensors, over the weights in 16 bit
FILE = "readings.sqlite"

log = logging.getLogger("denoise_core")

MAX_QUERY = 128  # word pieces; longer questions are cut for these two signals
AT_ONCE = 64  # texts read before what was read of them is kept
LOOKED, BEHIND = 2, 1.5  # of a second look: best texts, and how far below them what it finds stands at most


class SentenceEncoder(Travels):
    """The encoder in ``folder``, of BERT's or RoBERTa's shape; loads at first use, once for all, without torch.

    What is read of a text is kept (`Readings`): ``memory`` bytes of it here, and all in the folder ``keep`` where
    one is given, for other processes. ``name`` is what the model goes by. ``network`` is another network with its
    tokenizer, such as one of random weights to compare with.
    """

    named = ("folder",)
    names = ("cosine", "maxsim", "rest")
    listwise = True  # the weights of maxsim and rest come from the list

    def __init__(
        self,
        folder: Path,
        *,
        name: str | None = None,
        memory: int = MEMORY,
        keep: str | Path | None = None,
        network: tuple[MiniLM, Any] | None = None,
    ) -> None:
        self._network = network
        self.folder = folder
        self.name = name
        self.memory = memory
        self.keep = keep
        self.readings = Readings(name or str(folder), memory=memory, folder=keep)

    def recipe(self) -> dict[str, Any]:
        if self._network is not None:
            raise InputError("a SentenceEncoder of a loaded network does not travel: give it a folder alone")
        return super().recipe()

    def signals(self, query: str, texts: Sequence[str]) -> Floats:
        """float32 ``(len(texts), 3)``: cosine, maxsim and rest, all -1 to 1.

        A text longer than the model's window is read in parts, and each signal is its best part's.
        """
        if not texts:
            return np.zeros((0, 3), dtype=np.float32)
        read = self._read(texts)
        sentence, tokens, asked = self._question(query)
        owner = np.repeat(np.arange(len(texts)), [len(r.parts) for r in read])
        cosine = np.concatenate([r.sentence for r in read]) @ sentence
        near, rarity = _nearest(read, tokens), idf(asked, [r.ids for r in read])
        maxsim = _weighted(near, rarity)
        left = 1 - np.clip(near[maxsim.argmax()], 0, 1) if len(near) else rarity
        rest = _weighted(near, rarity * left, rarity)
        out = np.full((len(texts), 3), -np.inf, dtype=np.float32)
        for column, values in enumerate((cosine, maxsim, rest)):
            np.maximum.at(out[:, column], owner, values)
        return out

    def second_look(self, query: str, texts: Sequence[str], scores: Floats) -> Floats:
        """``scores`` ``(n,)`` in which what belongs to the `LOOKED` best texts is raised, to `BEHIND` below them.

        A word piece of a best text counts by how far the question leaves it unsaid and by how rare it is in the
        list, if another text has it too. Nothing is read again or lowered, and the best text stays the best.
        """
        read, asked, out = self._read(texts), self._question(query)[1], scores.copy()
        for best in np.argsort(-scores, kind="stable")[:LOOKED] if len(texts) > 2 and len(asked) else ():
            others = np.delete(np.arange(len(texts)), best)
            ids, vectors = [read[i].ids for i in others], read[best].tokens * read[best].scale
            weight = idf(read[best].ids, ids) * np.isin(read[best].ids, np.concatenate(ids))
            weight *= 1 - np.clip((vectors @ asked.T).max(1), 0, 1)
            near = np.array([_weighted(_nearest([read[i]], vectors), weight).max() for i in others])
            if near.std() > 0:
                below = (near - near.max()) / near.std() * scores[others].std() - BEHIND
                out[others] = np.maximum(out[others], scores[best] + below)
        return out

    def vectors(self, texts: Sequence[str]) -> Floats:
        """The model's own embeddings: mean-pooled, of length 1, float32 ``(len(texts), width)``.

        A text longer than the window is embedded by its beginning.
        """
        if not texts:
            return np.zeros((0, len(self._load()[0].norm[0])), dtype=np.float32)
        return np.stack([r.sentence[0] for r in self._read(texts)])

    def parts(self, texts: Sequence[str]) -> tuple[int, ...]:
        """In how many windows each text is read."""
        return tuple(len(r.parts) for r in self._read(texts))

    def warm(self, texts: Sequence[str]) -> int:
        """Read texts before any question, such as at indexing time; returns how many had to be read."""
        before = self.readings.read
        for start in range(0, len(texts), AT_ONCE):
            self._read(texts[start : start + AT_ONCE])
        return self.readings.read - before

    def count(self, text: str) -> int:
        """Word pieces of a text, without the special ones."""
        return len(self._pieces([text])[0]) if text else 0

    def _load(self) -> tuple[MiniLM, Any]:
        return self._network or loaded(self.folder)

    def _question(self, query: str) -> tuple[Floats, Floats, list[int]]:
        """The question's embedding, its word pieces' vectors ``(n, width)``, all of length 1, and their ids."""
        network, tokenizer = self._load()
        asked = self._pieces([query])[0][:MAX_QUERY]
        states = network.states([_framed(asked, tokenizer)])[0]
        return _unit(states.mean(0, keepdims=True))[0], _unit(states[1:-1]), asked

    def _read(self, texts: Sequence[str]) -> list[Reading]:
        keys = [key_of(t) for t in texts]
        found = self.readings.get(keys)
        new = {key: text for key, text in zip(keys, texts, strict=True) if key not in found}
        if new:
            fresh = dict(zip(new, self._fresh(list(new.values())), strict=True))
            self.readings.put(fresh)
            found |= fresh
        return [found[key] for key in keys]

    def _fresh(self, texts: Sequence[str]) -> list[Reading]:
        network, tokenizer = self._load()
        cut = [windows(ids, network.room) for ids in self._pieces(texts)]
        states = iter(network.states([_framed(part, tokenizer) for parts in cut for part in parts]))
        out = []
        for parts in cut:
            own = [next(states) for _ in parts]
            tokens, scale = eight_bit(np.concatenate([s[1:-1] for s in own]))
            out.append(
                Reading(
                    np.array([i for part in parts for i in part], dtype=np.int32),
                    np.array([len(part) for part in parts], dtype=np.int32),
                    _unit(np.stack([s.mean(0) for s in own])),
                    tokens,
                    scale,
                )
            )
        return out

    def _pieces(self, texts: Sequence[str]) -> list[list[int]]:
        """Ids without special ones."""
        tokenizer = self._load()[1]
        found = tokenizer.encode_batch([well_formed(t) for t in texts], add_special_tokens=False)
        return [list(row.ids) for row in found]


_loaded: Once[tuple[MiniLM, Any]] = Once(keep=None)


def loaded(folder: Path) -> tuple[MiniLM, Any]:
    """Network and tokenizer of a folder, loaded once in a process, whoever asks first."""
    return _loaded(folder, lambda: (load(folder), tokenizer_of(folder)))


def _framed(ids: Sequence[int], tokenizer: Any) -> list[int]:
    first, last = tokenizer.encode("").ids
    return [first, *ids, last]


def idf(asked: Sequence[int], pieces: Sequence[Sequence[int] | NDArray[np.int32]]) -> Floats:
    """How rare each piece of the question is among the texts, as in BM25; shape ``(len(asked),)``."""
    wanted = np.array(asked, dtype=np.int64)
    found = np.zeros(len(wanted), dtype=np.float32)
    for own in pieces:
        found += np.isin(wanted, np.asarray(own))
    return np.asarray(np.log(1 + (len(pieces) - found + 0.5) / (found + 0.5)), dtype=np.float32)


def _nearest(read: Sequence[Reading], asked: Floats) -> Floats:
    """For each part of each reading and each piece of the question the best cosine, 0 without word pieces."""
    sizes = np.concatenate([r.parts for r in read])
    out = np.zeros((len(sizes), len(asked)), dtype=np.float32)
    full = np.flatnonzero(sizes)
    if len(full) and len(asked):
        tokens = np.concatenate([r.tokens for r in read]).astype(np.float32)
        near = (tokens @ asked.T) * np.concatenate([r.scale for r in read])
        starts = np.concatenate([[0], np.cumsum(sizes[full])[:-1]])
        out[full] = np.maximum.reduceat(near, starts, axis=0)
    return out


def _weighted(near: Floats, weight: Floats, of: Floats | None = None) -> Floats:
    """Sums over the question's pieces, weighted; over the whole weight, or that in ``of``."""
    whole = float((weight if of is None else of).sum())
    return np.asarray(near @ weight / max(whole, 1e-6), dtype=np.float32)


def _unit(vectors: Floats) -> Floats:
    length = np.maximum(np.linalg.norm(vectors, axis=-1, keepdims=True), 1e-12)
    return np.asarray(vectors / length, dtype=np.float32)


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
        from safetensors.numpy import save

        return save({f.name: np.ascontiguousarray(getattr(self, f.name)) for f in fields(self)})

    @classmethod
    def from_bytes(cls, blob: bytes) -> Reading:
        """Raises `ValueError` for anything but what `to_bytes` gives."""
        from safetensors import SafetensorError
        from safetensors.numpy import load

        try:
            reading = cls(**load(blob))
        except (SafetensorError, TypeError) as error:
            raise ValueError("not a reading, or cut off") from error
        n, parts = int(reading.parts.sum()), len(reading.parts)
        shapes = (n,), (parts,), (parts, *reading.sentence.shape[1:]), (n, *reading.sentence.shape[1:]), (n, 1)
        if shapes != tuple(getattr(reading, f.name).shape for f in fields(cls)):
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
