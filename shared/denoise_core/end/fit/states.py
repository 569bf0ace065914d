"""Hidden states of every labelled passage at every layer, from one pass each.

With a folder a killed run continues where it stopped.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import count
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from denoise_core._files import write_whole
from denoise_core._optional import require
from denoise_core.end.reader import HiddenReader
from denoise_core.errors import InputError
from denoise_core.local.layout import pooling_parts
from denoise_core.question import Question

BATCH_QUESTIONS = 4  # questions read at once: what a killed run can lose

Progress = Callable[[int, int], None]
StatesByLayer: TypeAlias = dict[int, NDArray[Any]]


@dataclass(frozen=True, slots=True, eq=False)
class HiddenStates:
    """States of each passage of each question, in order.

    Attributes:
        by_layer: ``(n, d)`` each.
        labels: bool ``(n,)``, True for relevant passages.
        question_index: ``(n,)``, the position of each row's question.
        sizes: ``(n,)``, characters of each passage.
        pooling: How they were pooled.
        block_cost: What scoring costs in one block, as a share of reading all passages
            in one prompt through all blocks; counted in tokens.
    """

    by_layer: StatesByLayer
    labels: NDArray[np.bool_]
    question_index: NDArray[np.intp]
    sizes: NDArray[np.intp]
    pooling: str
    block_cost: float

    def with_pooling(self, pooling: str) -> HiddenStates:
        """The states of another pooling, whose parts are among those that were read."""
        read_parts = pooling_parts(self.pooling)
        part_index = [read_parts.index(part) for part in pooling_parts(pooling)]
        by_layer = {}
        for layer, rows in self.by_layer.items():
            part_states = rows.reshape(len(rows), len(read_parts), -1)[:, part_index]
            by_layer[layer] = part_states.reshape(len(rows), -1)
        return replace(self, by_layer=by_layer, pooling=pooling)


def capture_states(
    reader: HiddenReader,
    questions: Sequence[Question],
    *,
    layers: Sequence[int] | None = None,
    folder: str | Path | None = None,
    progress: Progress | None = None,
) -> HiddenStates:
    """Read every passage under its question.

    Normed states are kept as float16, others as float32. Of a passage longer than the
    model's window the first part counts.

    Args:
        reader: Reads the states.
        questions: With their passages.
        layers: All but the embeddings when None.
        folder: Keeps what was read; a later call for the same questions, model, layout
            and layers continues there. Other states have other subfolders.
        progress: Called with (questions done, all questions).

    Raises:
        InputError: A file of the folder is damaged, or there is nothing to read.
    """
    passage_counts = [len(question.passages) for question in questions]
    if not sum(passage_counts):
        raise InputError(
            "no question with passages: there is nothing to read states from"
        )
    if layers is None:
        layers = range(1, reader.layer_count + 1)
    layers = tuple(sorted(set(layers)))
    batch_folder = None
    state_batches = []
    if folder is not None:
        batch_folder = Path(folder) / _states_hash(reader, questions, layers)
        state_batches = list(_load_batches(batch_folder))
    state_dtype: type[np.floating] = np.float16
    if reader.norm.kind == "none":
        state_dtype = np.float32
    for batch_start in range(
        BATCH_QUESTIONS * len(state_batches), len(questions), BATCH_QUESTIONS
    ):
        batch_questions = questions[batch_start : batch_start + BATCH_QUESTIONS]
        batch_states = _read_batch(reader, batch_questions, layers, state_dtype)
        if batch_folder is not None:
            safetensors = require("safetensors.numpy", extra="end")
            named_tensors = {str(layer): batch_states[layer] for layer in batch_states}
            batch_folder.mkdir(parents=True, exist_ok=True)
            batch_path = _batch_path(batch_folder, len(state_batches))
            write_whole(batch_path, safetensors.save(named_tensors))
        state_batches.append(batch_states)
        if progress is not None:
            progress(min(batch_start + BATCH_QUESTIONS, len(questions)), len(questions))
    by_layer = {}
    for layer in layers:
        by_layer[layer] = np.concatenate(
            [batch[layer] for batch in state_batches if batch]
        )
    passage_labels: list[bool] = []
    passage_sizes = []
    for question in questions:
        passage_labels += question.labels
        passage_sizes += [len(text) for _, text in text_pairs_of([question])]
    return HiddenStates(
        by_layer,
        np.array(passage_labels, dtype=np.bool_),
        np.repeat(np.arange(len(questions)), passage_counts),
        np.array(passage_sizes, dtype=np.intp),
        reader.pooling,
        _block_cost(reader, questions),
    )


def text_pairs_of(questions: Sequence[Question]) -> list[tuple[str, str]]:
    """Each question's text with the text of each of its passages, as a denoiser scores them."""
    text_pairs = []
    for question in questions:
        text_pairs += [
            (question.text, passage.text_with_header) for passage in question.passages
        ]
    return text_pairs


def _block_cost(reader: HiddenReader, questions: Sequence[Question]) -> float:
    token_prompts, _ = reader.prompts(text_pairs_of(questions))
    scored_tokens = 0
    passage_tokens = 0
    for prompt in token_prompts:
        passage_start, passage_end = prompt.passage_span
        passage_tokens += passage_end - passage_start
        # What all prompts share is run once.
        scored_tokens += len(prompt.ids) - passage_start
    return scored_tokens / max(1, passage_tokens) / reader.backbone.block_count


def _read_batch(
    reader: HiddenReader,
    questions: Sequence[Question],
    layers: tuple[int, ...],
    dtype: type[np.floating[Any]],
) -> StatesByLayer:
    """Read the states of a batch of questions."""
    text_pairs = text_pairs_of(questions)
    if not text_pairs:
        return {}
    layer_states = reader.read(text_pairs, layers)
    first_windows = np.searchsorted(layer_states.text_index, np.arange(len(text_pairs)))
    by_layer = {}
    for layer, batch_states in layer_states.by_layer.items():
        by_layer[layer] = np.asarray(batch_states[first_windows], dtype=dtype)
    return by_layer


def _states_hash(
    reader: HiddenReader, questions: Sequence[Question], layers: Sequence[int]
) -> str:
    """Folder name for states of these questions, read like this."""
    state_spec = reader.reading(max(layers)).to_dict()
    # The model's location does not count: the same weights give the same states.
    for name in ("name", "revision", "layers"):
        state_spec["model"].pop(name, None)
    question_pairs = [text_pairs_of([question]) for question in questions]
    hash_content = json.dumps([list(layers), state_spec, question_pairs])
    return hashlib.sha256(hash_content.encode()).hexdigest()[:24]


def _batch_path(batch_folder: Path, batch_number: int) -> Path:
    return batch_folder / f"{batch_number:06d}.safetensors"


def _load_batches(batch_folder: Path) -> Iterator[StatesByLayer]:
    """The batches that an earlier run has read, in order."""
    safetensors = require("safetensors.numpy", extra="end")
    for batch_number in count():
        batch_path = _batch_path(batch_folder, batch_number)
        if not batch_path.exists():
            return
        try:
            named_tensors = safetensors.load(batch_path.read_bytes())
            yield {
                int(layer): batch_states
                for layer, batch_states in named_tensors.items()
            }
        except Exception as error:  # safetensors raises its own class, not a ValueError
            raise InputError(
                f"{batch_path} is damaged: {error}; delete it and read again"
            ) from error
