"""Keys and values of a prompt's beginning: recorded in one pass, put back in front of the rest in another.

Exact, because prompts are concatenated token ids and attention is causal. Rows are padded on the left:
window and ALiBi models count positions by the place in the cache, and on the right they would count wrong.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from transformers.cache_utils import DynamicCache, DynamicLayer

from denoise_core.local.blocks import KeyValuePair
from denoise_core.local.layout import TokenPrompt
from denoise_core.local.partial_forward import PartialForward, model_inputs

KeyValuePairs = list[KeyValuePair]


class PlaceholderCache(DynamicLayer):
    """A cache layer of a block that does not run here; it only knows how many tokens came before."""

    def __init__(self, length: int) -> None:
        super().__init__()  # type: ignore[no-untyped-call, unused-ignore]
        self.length = length

    def get_seq_length(self) -> int:
        """Tokens before the current ones."""
        return self.length

    def get_mask_sizes(self, query_length: int) -> tuple[int, int]:
        """Number of keys, and where they begin."""
        return self.length + query_length, 0


def make_cache(layers: Sequence[DynamicLayer]) -> DynamicCache:
    """A cache of these layers. Without a configuration: with one, window models get layers that crop."""
    cache = DynamicCache()
    cache_layers: list[Any] = [*layers]
    cache.layers = cache_layers
    return cache


@dataclass(frozen=True, slots=True)
class CachedPrefix:
    """For each block below L the keys and values of one prefix, ``(heads, tokens, head width)`` each."""

    tokens: int
    blocks: tuple[KeyValuePair, ...]

    @property
    def nbytes(self) -> int:
        """Memory of all keys and values, in bytes."""
        return sum(
            tensor.numel() * tensor.element_size()
            for pair in self.blocks
            for tensor in pair
        )


class _RecordingLayer(DynamicLayer):
    """A cache layer that starts empty and remembers the rows' prefixes."""

    def __init__(self, prefix_spans: Sequence[tuple[int, int]]) -> None:
        super().__init__()  # type: ignore[no-untyped-call, unused-ignore]
        self.spans = prefix_spans
        self.kept: KeyValuePairs = []

    def update(
        self,
        key_states: torch.Tensor,
        value_states: torch.Tensor,
        *args: Any,
        **kwargs: Any,
    ) -> KeyValuePair:
        # Copies, or every kept prefix would hold on to its whole padded batch.
        self.kept = [
            (
                key_states[row, :, row_start:row_end].clone(),
                value_states[row, :, row_start:row_end].clone(),
            )
            for row, (row_start, row_end) in enumerate(self.spans)
        ]
        return key_states, value_states


class _ResumedLayer(PlaceholderCache):
    """A cache layer with the kept prefixes of one block, padded on the left to ``length``.

    The padded keys exist only while the block runs, in a work space that all blocks share: a whole padded
    cache would cost more memory traffic than the attention itself.
    """

    def __init__(
        self, rows: KeyValuePairs, length: int, batch_buffer: BatchBuffer
    ) -> None:
        super().__init__(length)
        self.rows = rows
        self.space = batch_buffer

    def update(
        self,
        key_states: torch.Tensor,
        value_states: torch.Tensor,
        *args: Any,
        **kwargs: Any,
    ) -> KeyValuePair:
        return (
            self._pad_rows(0, [prefix for prefix, _ in self.rows], key_states),
            self._pad_rows(1, [values for _, values in self.rows], value_states),
        )

    def _pad_rows(
        self, buffer_index: int, rows: Sequence[torch.Tensor], new_states: torch.Tensor
    ) -> torch.Tensor:
        batch, heads, new_tokens, size = new_states.shape
        padded_states = self.space.take_states(
            buffer_index, (batch, heads, self.length + new_tokens, size), new_states
        )
        for row, cached_rows in enumerate(rows):
            start = self.length - cached_rows.shape[1]
            padded_states[row, :, :start] = (
                0  # masked out, but not-a-number from old memory would spread
            )
            padded_states[row, :, start : self.length] = cached_rows
        padded_states[:, :, self.length :] = new_states
        return padded_states


class BatchBuffer:
    """Two buffers that grow to the largest batch and stay; used under the model's lock."""

    def __init__(self) -> None:
        self.buffers: dict[int, torch.Tensor] = {}

    def take_states(
        self, buffer_index: int, shape: tuple[int, ...], example: torch.Tensor
    ) -> torch.Tensor:
        """A view of ``shape`` on buffer ``buffer_index``; overwrites what the last block put there."""
        size = int(torch.Size(shape).numel())
        buffer = self.buffers.get(buffer_index)
        if (
            buffer is None
            or buffer.numel() < size
            or buffer.dtype != example.dtype
            or buffer.device != example.device
        ):
            buffer = self.buffers[buffer_index] = torch.empty(
                size, dtype=example.dtype, device=example.device
            )
        return buffer[:size].view(shape)


@torch.inference_mode()
def record_prefixes(
    partial_forward: PartialForward,
    prompts: Sequence[TokenPrompt],
    prefix_lengths: Sequence[int],
    layer: int,
    pad: int,
) -> tuple[torch.Tensor, list[CachedPrefix]]:
    """One whole pass: the last tokens' states, and each prompt's first ``prefix_lengths`` tokens kept."""
    inputs = model_inputs(partial_forward, prompts, pad)
    padded_width = inputs["input_ids"].shape[1]
    prefix_spans = [
        (padded_width - len(p.ids), padded_width - len(p.ids) + prefix_length)
        for p, prefix_length in zip(prompts, prefix_lengths, strict=True)
    ]
    layers = [_RecordingLayer(prefix_spans) for _ in range(partial_forward.block_count)]
    inputs |= {"past_key_values": make_cache(layers), "use_cache": True}
    last_states = partial_forward.read_last_token(inputs, layer)
    blocks = [recorder.kept for recorder in layers[:layer]]
    return last_states, [
        CachedPrefix(prefix_length, tuple(cached_rows[row] for cached_rows in blocks))
        for row, prefix_length in enumerate(prefix_lengths)
    ]


@torch.inference_mode()
def resume_prefixes(
    partial_forward: PartialForward,
    cached_rows: Sequence[CachedPrefix],
    suffixes: Sequence[Sequence[int]],
    layer: int,
    batch_buffer: BatchBuffer,
) -> torch.Tensor:
    """The last tokens' states of prefixes and the ``suffixes`` of their prompts, all of one length."""
    new_tokens = len(suffixes[0])
    padded_width = max(prefix.tokens for prefix in cached_rows)
    lengths = torch.tensor([prefix.tokens for prefix in cached_rows])[:, None]
    positions = torch.arange(padded_width + new_tokens)
    mask = (positions >= padded_width - lengths).long()
    blocks = [
        _ResumedLayer(
            [prefix.blocks[prefix_length] for prefix in cached_rows],
            padded_width,
            batch_buffer,
        )
        for prefix_length in range(layer)
    ]
    # Masks are made for every block before the first runs, so those above L need to exist as well.
    blocks += [
        _ResumedLayer([], padded_width, batch_buffer)
        for _ in range(partial_forward.block_count - layer)
    ]
    inputs: dict[str, Any] = {
        "input_ids": torch.tensor([list(suffix) for suffix in suffixes]).to(
            partial_forward.device
        ),
        "attention_mask": mask.to(partial_forward.device),
        "past_key_values": make_cache(blocks),
        "use_cache": True,
    }
    if partial_forward.accepts_argument("position_ids"):
        inputs["position_ids"] = (lengths + torch.arange(new_tokens)).to(
            partial_forward.device
        )
    return partial_forward.read_last_token(inputs, layer)
