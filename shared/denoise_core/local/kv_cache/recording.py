"""Keys and values of a prompt's beginning: recorded in one pass, put back in front of the rest in another.

Exact, because prompts are concatenated token ids and attention is causal. Rows are padded on the left:
window and ALiBi models count positions by the place in the cache, and on the right they would count wrong.
The instruction that all passages have in front is run once, and is the past of every passage's own tokens.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from transformers.cache_utils import DynamicCache, DynamicLayer

from denoise_core.local.blocks import KeyValuePair
from denoise_core.local.layout import TokenPrompt
from denoise_core.local.partial_forward import PartialForward, pooling_function

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


class _PastLayer(PlaceholderCache):
    """A cache layer of one block: each row's past right before its new tokens, padded on the left.

    Window and ALiBi models count positions by the place in the cache, so a row is laid out as if it had been run
    whole. The padded keys exist only while the block runs: a whole padded cache would cost more memory traffic
    than the attention itself. With ``kept_lengths`` the first so many keys and values of each row are copied into
    ``kept``.
    """

    def __init__(
        self,
        past_rows: Sequence[KeyValuePair | None],
        layout: BatchLayout,
        kept_lengths: Sequence[int] = (),
    ) -> None:
        super().__init__(layout.width - layout.new_width)
        self.past_rows = past_rows
        self.layout = layout
        self.kept_lengths = kept_lengths
        self.kept: KeyValuePairs = []

    def update(
        self,
        key_states: torch.Tensor,
        value_states: torch.Tensor,
        *args: Any,
        **kwargs: Any,
    ) -> KeyValuePair:
        keys, values = (
            self._pad_rows(index, new_states)
            for index, new_states in enumerate((key_states, value_states))
        )
        self.kept = []
        for row, kept_length in enumerate(self.kept_lengths):
            start = self.layout.row_starts[row]
            kept_span = slice(start, start + kept_length)
            # Copies, or every kept prefix would hold on to its whole padded batch.
            kept_pair = (
                keys[row, :, kept_span].clone(),
                values[row, :, kept_span].clone(),
            )
            self.kept.append(kept_pair)
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


@torch.inference_mode()
def run_after_pasts(
    partial_forward: PartialForward,
    prompts: Sequence[TokenPrompt],
    pasts: Sequence[CachedPrefix | None],
    layers: Sequence[int],
    pad: int,
    *,
    pooling: str = "last",
    kept_lengths: Sequence[int] = (),
) -> tuple[dict[int, torch.Tensor], list[CachedPrefix]]:
    """Run the tokens of each prompt that are not in its past; the pooled states equal those of the whole prompts.

    Args:
        partial_forward: The model.
        prompts: Whole prompts.
        pasts: The kept beginning of each, or None.
        layers: Where states are pooled.
        pad: The padding's token id.
        pooling: One that needs no token of a past (`pools_question_only`).
        kept_lengths: How many first tokens of each prompt to keep; () keeps nothing.

    Returns:
        By layer the pooled states, float32 ``(batch, parts * width)``, and the kept prefixes.
    """
    past_lengths = tuple(past.tokens if past is not None else 0 for past in pasts)
    new_ids = [
        prompt.ids[past_length:]
        for prompt, past_length in zip(prompts, past_lengths, strict=True)
    ]
    layout = BatchLayout(past_lengths, tuple(map(len, new_ids)))
    inputs = _inputs_after_pasts(partial_forward, new_ids, layout, pad)
    top_layer = max(layers)
    cache_layers = [
        _PastLayer(
            [None if past is None else past.blocks[block] for past in pasts],
            layout,
            kept_lengths,
        )
        for block in range(top_layer)
    ]
    # Masks are made for every block before the first runs, so those above L need to exist as well.
    cache_layers += [
        _PastLayer([], layout) for _ in range(partial_forward.block_count - top_layer)
    ]
    inputs |= {"past_key_values": make_cache(cache_layers), "use_cache": True}
    pool_states = pooling_function(pooling, prompts, is_causal=True)
    states = partial_forward.read_layers(inputs, layers, pool_states)
    kept_prefixes = [
        CachedPrefix(
            kept_length,
            tuple(cache_layer.kept[row] for cache_layer in cache_layers[:top_layer]),
        )
        for row, kept_length in enumerate(kept_lengths)
    ]
    return states, kept_prefixes


def _inputs_after_pasts(
    partial_forward: PartialForward,
    new_ids: Sequence[Sequence[int]],
    layout: BatchLayout,
    pad: int,
) -> dict[str, Any]:
    token_rows = torch.full((len(new_ids), layout.new_width), pad)
    for row, row_ids in enumerate(new_ids):
        token_rows[row, layout.new_width - len(row_ids) :] = torch.tensor(row_ids)
    columns = torch.arange(layout.width)
    mask = (columns >= torch.tensor(layout.row_starts)[:, None]).long()
    inputs = {"input_ids": token_rows, "attention_mask": mask}
    if partial_forward.accepts_argument("position_ids"):
        positions = (mask.cumsum(-1) - 1).clamp(min=0)
        inputs["position_ids"] = positions[:, layout.width - layout.new_width :]
    return {name: value.to(partial_forward.device) for name, value in inputs.items()}
