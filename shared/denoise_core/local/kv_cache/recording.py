"""Keys and values of a prompt's beginning: recorded in one pass, put back in front of the rest in another.

Exact, because prompts are concatenated token ids and attention is causal. Rows are padded on the left:
window and ALiBi models count positions by the place in the cache, and on the right they would count wrong.
The instruction that all passages have in front is run once, and is the past of every passage's own tokens.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from transformers.cache_utils import DynamicCache, DynamicLayer

from denoise_core.local.blocks import KeyValuePair
from denoise_core.local.layout import TokenPrompt
from denoise_core.local.partial_forward import (
    PartialForward,
    PoolingFunction,
    StopForward,
    model_inputs,
)

PositionRange = tuple[int, int]


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


NO_PREFIX = CachedPrefix(0, ())


@dataclass(frozen=True, slots=True)
class BatchLayout:
    """Where each row of a batch is: ``new_lengths`` tokens to run behind ``past_lengths`` that were run before.

    Rows end together. ``row_starts`` is each row's first column of ``width``, and ``new_width`` columns are run.
    """

    past_lengths: tuple[int, ...]
    new_lengths: tuple[int, ...]

    @property
    def new_width(self) -> int:
        """Columns that are run."""
        return max(self.new_lengths)

    @property
    def width(self) -> int:
        """Columns of keys and values."""
        return max(map(sum, zip(self.past_lengths, self.new_lengths, strict=True)))

    @property
    def row_starts(self) -> tuple[int, ...]:
        """The first column of each row that holds a token."""
        row_lengths = map(sum, zip(self.past_lengths, self.new_lengths, strict=True))
        return tuple(self.width - row_length for row_length in row_lengths)


class _PastLayer(PlaceholderCache):
    """A cache layer of one block: each row's past right before its new tokens, padded on the left.

    Window and ALiBi models count positions by the place in the cache, so a row is laid out as if it had been run
    whole. The padded keys exist only while the block runs: a whole padded cache would cost more memory traffic
    than the attention itself. The keys and values at each row's ``kept_spans`` are copied into ``kept``. With
    ``is_last`` the pass ends at this block's keys and values.
    """

    def __init__(
        self,
        past_rows: Sequence[KeyValuePair | None],
        layout: BatchLayout,
        kept_spans: Sequence[PositionRange],
        *,
        is_last: bool,
    ) -> None:
        super().__init__(layout.width - layout.new_width)
        self.past_rows = past_rows
        self.layout = layout
        self.kept_spans = kept_spans
        self.is_last = is_last
        self.kept: list[KeyValuePair] = []

    def update(
        self,
        key_states: torch.Tensor,
        value_states: torch.Tensor,
        *args: Any,
        **kwargs: Any,
    ) -> KeyValuePair:
        keys = self._pad_rows(0, key_states)
        values = self._pad_rows(1, value_states)
        self.kept = []
        for row, (start, end) in enumerate(self.kept_spans):
            row_start = self.layout.row_starts[row]
            columns = slice(row_start + start, row_start + end)
            # Copies, or every kept prefix would hold on to its whole padded batch.
            kept_keys = keys[row, :, columns].clone()
            kept_values = values[row, :, columns].clone()
            self.kept.append((kept_keys, kept_values))
        if self.is_last:
            raise StopForward
        return keys, values

    def _pad_rows(self, pair_index: int, new_states: torch.Tensor) -> torch.Tensor:
        if not any(self.layout.past_lengths):
            return new_states
        batch, heads, new_width, size = new_states.shape
        width = self.layout.width
        # Zeros: what is masked out must not be not-a-number from old memory.
        padded_states = new_states.new_zeros(batch, heads, width, size)
        for row, new_length in enumerate(self.layout.new_lengths):
            start = self.layout.row_starts[row]
            new_start = width - new_length
            past_row = self.past_rows[row]
            if past_row is not None:
                padded_states[row, :, start:new_start] = past_row[pair_index]
            padded_states[row, :, new_start:] = new_states[
                row, :, new_width - new_length :
            ]
        return padded_states


@torch.inference_mode()
def run_after_pasts(
    partial_forward: PartialForward,
    prompts: Sequence[TokenPrompt],
    pasts: Sequence[CachedPrefix],
    layer: int,
    pad: int,
    *,
    kept_spans: Sequence[PositionRange] = (),
    pools: Mapping[int, PoolingFunction] | None = None,
) -> tuple[dict[int, torch.Tensor], list[CachedPrefix]]:
    """Run the tokens of each prompt that are not in its past; the states equal those of the whole prompts.

    Args:
        partial_forward: The model.
        prompts: Whole prompts.
        pasts: The kept beginning of each, or `NO_PREFIX`.
        layer: How far to run.
        pad: The padding's token id.
        kept_spans: Half-open ranges of each prompt's tokens whose keys and values are kept; () keeps nothing.
        pools: By layer what pools the states of a past's following tokens alone. None
            for keys and values only: the pass then ends before block ``layer - 1`` attends.

    Returns:
        By layer the pooled states, float32 ``(batch, parts * width)``, and what was kept.
    """
    past_lengths = tuple(past.tokens for past in pasts)
    inputs = model_inputs(partial_forward, prompts, pad, past_lengths)
    new_lengths = []
    for prompt, past_length in zip(prompts, past_lengths, strict=True):
        new_lengths.append(len(prompt.ids) - past_length)
    layout = BatchLayout(past_lengths, tuple(new_lengths))
    cache_layers = []
    for block in range(layer):
        past_rows = [past.blocks[block] if past.tokens else None for past in pasts]
        is_last = pools is None and block == layer - 1
        cache_layer = _PastLayer(past_rows, layout, kept_spans, is_last=is_last)
        cache_layers.append(cache_layer)
    # Masks are made for every block before the first runs, so those above need to exist as well.
    past_width = layout.width - layout.new_width
    upper_count = partial_forward.block_count - layer
    upper_layers = [PlaceholderCache(past_width) for _ in range(upper_count)]
    inputs["past_key_values"] = make_cache([*cache_layers, *upper_layers])
    inputs["use_cache"] = True
    states = partial_forward.run_pass(inputs, layer, pools or {})
    kept_prefixes = []
    for row, (start, end) in enumerate(kept_spans):
        row_blocks = tuple(cache_layer.kept[row] for cache_layer in cache_layers)
        kept_prefixes.append(CachedPrefix(end - start, row_blocks))
    return states, kept_prefixes
