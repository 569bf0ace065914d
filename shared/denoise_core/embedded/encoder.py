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
from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from denoise_core.embedded.minilm import MiniLM, load, tokenizer_of
from denoise_core.local.batching import split_windows
from denoise_core.runtime.caches import (
    FailSafeStore,
    SingleLoadCache,
    SqliteStore,
    WeightedLRUCache,
)
from denoise_core.types import replace_surrogates

Floats = NDArray[np.float32]

MEMORY = 512 * 2**20  # bytes
FORMAT = 2  # of safetensors, over the weights in 16 bit
FILE = "readings.sqlite"

log = logging.getLogger("denoise_core")

MAX_QUERY = 128  # word pieces; longer questions are cut for these two signals
AT_ONCE = 64  # texts read before what was read of them is kept
LOOKED, BEHIND = (
    2,
    1.5,
)  # of a second look: best texts, and how far below them what it finds stands at most


class SentenceEncoder:
    """The encoder in ``folder``, of BERT's or RoBERTa's shape; loads at first use, once for all, without torch.

    What is read of a text is kept (`Readings`): `MEMORY` bytes of it here, and all in the folder ``keep`` where
    one is given, for other processes. ``name`` is what the model goes by.
    """

    names = ("cosine", "maxsim", "rest")
    listwise = True  # the weights of maxsim and rest come from the list

    def __init__(
        self,
        folder: Path,
        *,
        name: str | None = None,
        cache_folder: str | Path | None = None,
    ) -> None:
        self.folder = folder
        self.name = name
        self.cache_folder = cache_folder
        self.embedding_cache = EmbeddingCache(name or str(folder), folder=cache_folder)

    def signals(self, query: str, texts: Sequence[str]) -> Floats:
        """float32 ``(len(texts), 3)``: cosine, maxsim and rest, all -1 to 1.

        A text longer than the model's window is read in parts, and each signal is its best part's.
        """
        return self.signals_with_windows(query, texts)[0]

    def signals_with_windows(
        self, query: str, texts: Sequence[str]
    ) -> tuple[Floats, tuple[int, ...]]:
        """`signals`, and in how many windows each text was read."""
        if not texts:
            return np.zeros((0, 3), dtype=np.float32), ()
        read = self._read(texts)
        sentence, tokens, asked = self._question(query)
        windows_read = tuple(len(reading.parts) for reading in read)
        owner = np.repeat(np.arange(len(texts)), windows_read)
        cosine = np.concatenate([r.sentence for r in read]) @ sentence
        near, rarity = _nearest(read, tokens), token_idf(asked, [r.ids for r in read])
        maxsim = _weighted(near, rarity)
        left = 1 - np.clip(near[maxsim.argmax()], 0, 1) if len(near) else rarity
        rest = _weighted(near, rarity * left, rarity)
        out = np.full((len(texts), 3), -np.inf, dtype=np.float32)
        for column, values in enumerate((cosine, maxsim, rest)):
            np.maximum.at(out[:, column], owner, values)
        return out, windows_read

    def boost_multi_hop(
        self, query: str, texts: Sequence[str], scores: Floats
    ) -> Floats:
        """``scores`` ``(n,)`` in which what belongs to the `LOOKED` best texts is raised, to `BEHIND` below them.

        A word piece of a best text counts by how far the question leaves it unsaid and by how rare it is in the
        list, if another text has it too. Nothing is read again or lowered, and the best text stays the best.
        """
        read, asked, out = self._read(texts), self._question(query)[1], scores.copy()
        for best in (
            np.argsort(-scores, kind="stable")[:LOOKED]
            if len(texts) > 2 and len(asked)
            else ()
        ):
            others = np.delete(np.arange(len(texts)), best)
            ids, vectors = (
                [read[i].ids for i in others],
                read[best].tokens * read[best].scale,
            )
            weight = token_idf(read[best].ids, ids) * np.isin(
                read[best].ids, np.concatenate(ids)
            )
            weight *= 1 - np.clip((vectors @ asked.T).max(1), 0, 1)
            near = np.array(
                [_weighted(_nearest([read[i]], vectors), weight).max() for i in others]
            )
            if near.std() > 0:
                below = (near - near.max()) / near.std() * scores[others].std() - BEHIND
                out[others] = np.maximum(out[others], scores[best] + below)
        return out

    def embed_texts(self, texts: Sequence[str]) -> Floats:
        """The model's own embeddings: mean-pooled, of length 1, float32 ``(len(texts), width)``.

        A text longer than the window is embedded by its beginning.
        """
        if not texts:
            return np.zeros((0, len(self._load()[0].norm[0])), dtype=np.float32)
        return np.stack([r.sentence[0] for r in self._read(texts)])

    def precompute(self, texts: Sequence[str]) -> int:
        """Read texts before any question, such as at indexing time; returns how many had to be read."""
        before = self.embedding_cache.read
        for start in range(0, len(texts), AT_ONCE):
            self._read(texts[start : start + AT_ONCE])
        return self.embedding_cache.read - before

    def count_tokens(self, text: str) -> int:
        """Word pieces of a text, without the special ones."""
        return len(self._pieces([text])[0]) if text else 0

    def _load(self) -> tuple[MiniLM, Any]:
        return load_encoder(self.folder)

    def _question(self, query: str) -> tuple[Floats, Floats, list[int]]:
        """The question's embedding, its word pieces' vectors ``(n, width)``, all of length 1, and their ids."""
        network, tokenizer = self._load()
        asked = self._pieces([query])[0][:MAX_QUERY]
        states = network.hidden_states([_framed(asked, tokenizer)])[0]
        return _unit(states.mean(0, keepdims=True))[0], _unit(states[1:-1]), asked

    def _read(self, texts: Sequence[str]) -> list[TokenEmbeddings]:
        return self.embedding_cache.of(texts, self._fresh)

    def _fresh(self, texts: Sequence[str]) -> list[TokenEmbeddings]:
        network, tokenizer = self._load()
        cut = [split_windows(ids, network.room) for ids in self._pieces(texts)]
        states = iter(
            network.hidden_states(
                [_framed(part, tokenizer) for parts in cut for part in parts]
            )
        )
        out = []
        for parts in cut:
            own = [next(states) for _ in parts]
            unit = _unit(np.concatenate([s[1:-1] for s in own]))
            scale = np.maximum(
                np.abs(unit).max(1, keepdims=True, initial=0), 1e-12
            ) / np.float32(127)
            out.append(
                TokenEmbeddings(
                    np.array([i for part in parts for i in part], dtype=np.int32),
                    np.array([len(part) for part in parts], dtype=np.int32),
                    _unit(np.stack([s.mean(0) for s in own])),
                    np.rint(unit / scale).astype(np.int8),
                    scale,
                )
            )
        return out

    def _pieces(self, texts: Sequence[str]) -> list[list[int]]:
        """Ids without special ones."""
        tokenizer = self._load()[1]
        found = tokenizer.encode_batch(
            [replace_surrogates(t) for t in texts], add_special_tokens=False
        )
        return [list(row.ids) for row in found]


_loaded: SingleLoadCache[tuple[MiniLM, Any]] = SingleLoadCache(keep_recent=None)


def load_encoder(folder: Path) -> tuple[MiniLM, Any]:
    """Network and tokenizer of a folder, loaded once in a process, whoever asks first."""
    return _loaded(folder, lambda: (load(folder), tokenizer_of(folder)))


def _framed(ids: Sequence[int], tokenizer: Any) -> list[int]:
    first, last = tokenizer.encode("").ids
    return [first, *ids, last]


def token_idf(
    asked: Sequence[int], pieces: Sequence[Sequence[int] | NDArray[np.int32]]
) -> Floats:
    """How rare each piece of the question is among the texts, as in BM25; shape ``(len(asked),)``."""
    wanted = np.array(asked, dtype=np.int64)
    found = np.zeros(len(wanted), dtype=np.float32)
    for own in pieces:
        found += np.isin(wanted, np.asarray(own))
    return np.asarray(
        np.log(1 + (len(pieces) - found + 0.5) / (found + 0.5)), dtype=np.float32
    )


def _nearest(read: Sequence[TokenEmbeddings], asked: Floats) -> Floats:
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
class TokenEmbeddings:
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
        return sum(
            a.nbytes
            for a in (self.ids, self.parts, self.sentence, self.tokens, self.scale)
        )

    def to_bytes(self) -> bytes:
        from safetensors.numpy import save

        return save(
            {f.name: np.ascontiguousarray(getattr(self, f.name)) for f in fields(self)}
        )

    @classmethod
    def from_bytes(cls, blob: bytes) -> TokenEmbeddings:
        """Raises `ValueError` for anything but what `to_bytes` gives."""
        from safetensors import SafetensorError
        from safetensors.numpy import load

        try:
            reading = cls(**load(blob))
        except (SafetensorError, TypeError) as error:
            raise ValueError("not a reading, or cut off") from error
        n, parts = int(reading.parts.sum()), len(reading.parts)
        shapes = (
            (n,),
            (parts,),
            (parts, *reading.sentence.shape[1:]),
            (n, *reading.sentence.shape[1:]),
            (n, 1),
        )
        if shapes != tuple(getattr(reading, f.name).shape for f in fields(cls)):
            raise ValueError("its parts do not add up")
        return reading


class EmbeddingCache:
    """Readings by text. ``model`` names what read them; ``folder`` also keeps them there, for other processes.

    At most ``memory`` bytes are held in this process. ``read`` counts texts that had to be read. Safe to use from
    several threads. A folder that cannot be read or written is logged and left alone for a minute: texts are read
    again, and nothing fails.
    """

    def __init__(
        self, model: str, *, memory: int = MEMORY, folder: str | Path | None = None
    ) -> None:
        self.model = model
        self.kept: WeightedLRUCache[bytes, TokenEmbeddings] = WeightedLRUCache(
            memory, lambda reading: reading.nbytes
        )
        self.file: SqliteStore | None = None
        if folder is not None:
            path = Path(folder) / FILE
            self.file = SqliteStore(
                path, max_entries=None, table="readings", column="reading", timeout=30
            )
        self.read = 0
        self._bypass = FailSafeStore(f"readings in {folder}")
        self._lock = threading.Lock()

    def of(
        self, texts: Sequence[str], read: Callable[[list[str]], list[TokenEmbeddings]]
    ) -> list[TokenEmbeddings]:
        """The texts' readings; ``read`` makes those that are not kept."""
        own = f"{self.model}, format {FORMAT}\0"  # of another model nothing is found
        keys = [
            hashlib.sha256((own + t).encode("utf-8", "surrogatepass")).digest()[:16]
            for t in texts
        ]
        by_key = dict(zip(keys, texts, strict=True))
        found = {
            key: kept for key in by_key if (kept := self.kept.get(key)) is not None
        }
        found |= self._stored([key for key in by_key if key not in found])
        new = [key for key in by_key if key not in found]
        for key, reading in zip(
            new, read([by_key[key] for key in new]) if new else (), strict=True
        ):
            found[key] = reading
            self.kept.put(key, reading)
        with self._lock:
            self.read += len(new)
        self._store({key: found[key] for key in new})
        return [found[key] for key in keys]

    def _stored(self, keys: list[bytes]) -> dict[bytes, TokenEmbeddings]:
        """What the folder holds of ``keys``; a damaged reading is left out, and so made again."""
        readings: dict[bytes, TokenEmbeddings] = {}
        blobs: dict[bytes, bytes] = {}
        file = self.file
        if file is not None:
            blobs = self._bypass.attempt(lambda: file.get_many(keys), blobs)
        for key, blob in blobs.items():
            try:
                readings[key] = TokenEmbeddings.from_bytes(blob)
            except ValueError as error:
                log.warning(
                    "a stored reading is damaged (%s) and is made again",
                    type(error).__name__,
                )
                continue
            self.kept.put(key, readings[key])
        return readings

    def _store(self, readings: dict[bytes, TokenEmbeddings]) -> None:
        file = self.file
        if file is not None:
            self._bypass.attempt(
                lambda: file.put_many(
                    {key: reading.to_bytes() for key, reading in readings.items()}
                ),
                None,
            )
