"""States of every labelled passage at every layer, from one pass each; in a folder a killed run goes on."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from denoise_core._files import write_whole
from denoise_core._optional import require
from denoise_core.end.reader import HiddenReader
from denoise_core.errors import InputError
from denoise_core.question import Question

BLOCK = 16  # questions read at once; what a kill can lose

Progress = Callable[[int, int], None]
MapFunction = Callable[[Callable[[Any], Any], Iterable[Any]], Iterator[Any]]
"""What `map` does; another one may have it done by other processes or machines, and gives results in order."""


@dataclass(frozen=True, slots=True, eq=False)
class HiddenStates:
    """States by layer, ``(n, d)``, one row for each passage of each question, in order.

    ``labels`` is True for relevant passages, ``groups`` the position of each row's question.
    """

    by_layer: dict[int, NDArray[Any]]
    labels: NDArray[np.bool_]
    question_index: NDArray[np.intp]


def capture_states(
    reader: HiddenReader,
    questions: Sequence[Question],
    *,
    layers: Sequence[int] | None = None,
    folder: str | Path | None = None,
    progress: Progress | None = None,
    map_blocks: MapFunction = map,
) -> HiddenStates:
    """Read every passage under its question at ``layers`` (all but the embeddings when None).

    ``folder`` keeps what has been read, and a later call for the same questions, model, layout and layers goes on
    there; others stand beside it. Normed states are kept as float16, others as float32. A passage longer
    than the model's window counts with its first part. ``progress`` is told (questions done, of how many).
    ``each`` in the place of `map` has blocks of questions read on other threads, in order.

    Raises `InputError` when a file of the folder is damaged, or when there is nothing to read.
    """
    rows = [len(q.passages) for q in questions]
    if not sum(rows):
        raise InputError(
            "no question with passages: there is nothing to read states from"
        )
    chosen = tuple(
        sorted(set(range(1, reader.layers + 1) if layers is None else layers))
    )
    store = (
        None if folder is None else Path(folder) / _identity(reader, questions, chosen)
    )
    blocks = [] if store is None else list(_held(store))
    kind = np.float32 if reader.norm.kind == "none" else np.float16
    starts = range(BLOCK * len(blocks), len(questions), BLOCK)
    pairs = (
        [(q.text, p.text) for q in questions[n : n + BLOCK] for p in q.passages]
        for n in starts
    )
    for start, states in zip(
        starts, map_blocks(_Reads(reader, chosen, kind), pairs), strict=True
    ):
        if store is not None:
            _keep(store, len(blocks), states)
        blocks.append(states)
        if progress is not None:
            progress(min(start + BLOCK, len(questions)), len(questions))
    by_layer = {
        layer: np.concatenate([states[layer] for states in blocks if states])
        for layer in chosen
    }
    labels = np.array([label for q in questions for label in q.labels], dtype=np.bool_)
    return HiddenStates(by_layer, labels, np.repeat(np.arange(len(questions)), rows))


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
        first = np.searchsorted(found.text_index, np.arange(len(pairs)))
        return {
            layer: np.asarray(states[first], dtype=self.kind)
            for layer, states in found.by_layer.items()
        }


def _identity(
    reader: HiddenReader, questions: Sequence[Question], layers: Sequence[int]
) -> str:
    """The name of a folder for states of these questions, read like this."""
    reading = reader.reading(max(layers)).to_dict()
    # Where the model lies decides nothing: the same weights in another folder give the same states.
    model = {
        k: v
        for k, v in reading["model"].items()
        if k not in ("name", "revision", "layers")
    }
    asked = [[q.text, [p.text for p in q.passages]] for q in questions]
    whole = json.dumps([list(layers), reading | {"model": model}, asked])
    return hashlib.sha256(whole.encode()).hexdigest()[:24]


def _path(store: Path, block: int) -> Path:
    return store / f"{block:06d}.safetensors"


def _keep(store: Path, block: int, states: dict[int, NDArray[Any]]) -> None:
    tensors = require("safetensors.numpy", extra="end").save(
        {str(k): v for k, v in states.items()}
    )
    store.mkdir(parents=True, exist_ok=True)
    write_whole(_path(store, block), tensors)


def _held(store: Path) -> Iterator[dict[int, NDArray[Any]]]:
    """The blocks that an earlier run has read, in order."""
    load = require("safetensors.numpy", extra="end").load
    for path in iter(_path(store, n) for n in count()):
        if not path.exists():
            return
        try:
            yield {
                int(layer): states for layer, states in load(path.read_bytes()).items()
            }
        except (
            Exception
        ) as error:  # safetensors raises its own class, which is no ValueError
            raise InputError(
                f"{path} is damaged: {error}; delete it and read again"
            ) from error
