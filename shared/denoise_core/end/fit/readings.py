"""States of every labelled passage at every layer, from one pass each, kept on disk and taken up again.

The folder holds one array for each layer and how many questions are done. A run that was killed goes on
where it stopped; a folder of other questions, another model or another layout is refused.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from denoise_core._files import write_whole
from denoise_core.end.reader import HiddenReader
from denoise_core.errors import InputError
from denoise_core.question import Question

BLOCK = 16  # questions read at once; what a kill can lose
MANIFEST, DONE = "states.json", "done.json"

Progress = Callable[[int, int], None]
Each = Callable[[Callable[[Any], Any], Iterable[Any]], Iterator[Any]]
"""What `map` does; another one may have it done by other processes or machines, and gives results in order."""


@dataclass(frozen=True, slots=True, eq=False)
class Capture:
    """States by layer, ``(n, d)``, one row for each passage of each question, in order.

    ``labels`` is True for relevant passages, ``groups`` the position of each row's question.
    """

    by_layer: dict[int, NDArray[Any]]
    labels: NDArray[np.bool_]
    groups: NDArray[np.intp]


def capture(
    reader: HiddenReader,
    questions: Sequence[Question],
    *,
    layers: Sequence[int] | None = None,
    folder: str | Path | None = None,
    progress: Progress | None = None,
    each: Each = map,
) -> Capture:
    """Read every passage under its question at ``layers`` (all but the embeddings when None).

    With ``folder`` the arrays are memory-mapped there and a later call goes on where this one was stopped;
    without, they stay in memory. Normed states are kept as float16, others as float32. A passage longer
    than the model's window counts with its first part. ``progress`` is told (questions done, of how many).
    ``each`` in the place of `map` has blocks of questions read elsewhere; the reader travels there as a recipe.

    Raises `InputError` when the folder holds something else, or when there is nothing to read.
    """
    rows = [len(q.passages) for q in questions]
    if not sum(rows):
        raise InputError("no question with passages: there is nothing to read states from")
    chosen = tuple(sorted(set(range(1, reader.layers + 1) if layers is None else layers)))
    store = _Store(chosen, None if folder is None else Path(folder))
    if folder is not None:
        store.claim(_identity(reader, questions, chosen))
    kind = np.float32 if reader.norm.kind == "none" else np.float16
    ends = np.cumsum([0, *rows])
    done = store.done()
    blocks = [questions[n : n + BLOCK] for n in range(done, len(questions), BLOCK)]
    pairs = ([(q.text, p.text) for q in block for p in q.passages] for block in blocks)
    for block, states in zip(blocks, each(_Reads(reader, chosen, kind), pairs), strict=True):
        if states:
            store.open((int(ends[-1]), states[chosen[0]].shape[1]), kind)
            store.write(int(ends[done]), states)
        done += len(block)
        store.mark(done)
        if progress is not None:
            progress(done, len(questions))
    labels = np.array([label for q in questions for label in q.labels], dtype=np.bool_)
    return Capture(store.arrays(), labels, np.repeat(np.arange(len(questions)), rows))


@dataclass(frozen=True, slots=True)
class _Reads:
    """Pairs of question and text to their states by layer, ``(len(pairs), d)``; wherever this is called."""

    reader: HiddenReader
    layers: tuple[int, ...]
    kind: type[np.floating[Any]]

    def __call__(self, pairs: list[tuple[str, str]]) -> dict[int, NDArray[Any]]:
        if not pairs:
            return {}
        found = self.reader.read(pairs, self.layers)
        first = np.searchsorted(found.owner, np.arange(len(pairs)))
        return {layer: np.asarray(states[first], dtype=self.kind) for layer, states in found.by_layer.items()}


class _Store:
    """States by layer, in memory, or in ``folder`` as ``layer-NN.npy`` files; ``done.json`` is written after them,
    so it never promises too much."""

    def __init__(self, layers: Sequence[int], folder: Path | None) -> None:
        self.layers = layers
        self.folder = folder
        self._arrays: dict[int, NDArray[Any]] = {}

    def claim(self, identity: dict[str, Any]) -> None:
        """Take the folder for these states. Raises `InputError` when it holds anything else."""
        assert self.folder is not None
        self.folder.mkdir(parents=True, exist_ok=True)
        manifest = self.folder / MANIFEST
        if manifest.exists():
            held = _json(manifest)
            differs = [k for k in identity if held.get(k) != identity[k]]
            if differs:
                raise InputError(
                    f"{self.folder} holds states of something else (other {', '.join(differs)}): "
                    "choose another folder"
                )
        elif any(self.folder.iterdir()):
            raise InputError(f"{self.folder} is not empty and holds no states: choose another folder")
        else:
            write_whole(manifest, json.dumps(identity))

    def done(self) -> int:
        """How many questions are in the folder already."""
        if self.folder is None or not (self.folder / DONE).exists():
            return 0
        self._arrays = {layer: self._map(layer, "r+") for layer in self.layers}
        return int(_json(self.folder / DONE).get("questions", 0))

    def open(self, shape: tuple[int, int], kind: type[np.floating[Any]]) -> None:
        for layer in () if self._arrays else self.layers:
            if self.folder is not None:
                np.lib.format.open_memmap(self._path(layer), mode="w+", dtype=kind, shape=shape).flush()
            self._arrays[layer] = np.empty(shape, dtype=kind) if self.folder is None else self._map(layer, "r+")

    def write(self, start: int, states: dict[int, NDArray[Any]]) -> None:
        for layer, rows in states.items():
            self._arrays[layer][start : start + len(rows)] = rows

    def mark(self, done: int) -> None:
        for array in self._arrays.values():
            if isinstance(array, np.memmap):
                array.flush()
        if self.folder is not None:
            write_whole(self.folder / DONE, json.dumps({"questions": done}))

    def arrays(self) -> dict[int, NDArray[Any]]:
        return self._arrays if self.folder is None else {layer: self._map(layer, "r") for layer in self.layers}

    def _path(self, layer: int) -> Path:
        assert self.folder is not None
        return self.folder / f"layer-{layer:03d}.npy"

    def _map(self, layer: int, mode: Any) -> NDArray[Any]:
        try:
            found: NDArray[Any] = np.load(self._path(layer), mmap_mode=mode, allow_pickle=False)
            return found
        except (OSError, ValueError, EOFError) as error:
            raise InputError(
                f"{self._path(layer)} is damaged: {error}; delete the folder and read again"
            ) from error


def _identity(reader: HiddenReader, questions: Sequence[Question], layers: Sequence[int]) -> dict[str, Any]:
    digest = hashlib.sha256()
    for q in questions:
        digest.update(json.dumps([q.text, [p.text for p in q.passages]]).encode())
    reading = reader.reading(max(layers)).to_dict()
    # Where the model lies decides nothing: the same weights in another folder give the same states.
    model = {k: v for k, v in reading["model"].items() if k not in ("name", "revision", "layers")}
    return {"layers": list(layers), "questions": digest.hexdigest(), "reading": reading | {"model": model}}


def _json(path: Path) -> dict[str, Any]:
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise InputError(f"{path} is damaged: {error}; delete the folder and read again") from error
    return found if isinstance(found, dict) else {}
