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

Pairs = list[KeyValuePair]


class PlaceholderCache(DynamicLayer):
    """A cache layer of a block that does not run here; it only knows how many tokens came before."""

    def __init__(self, length: int) -> None:
        super().__init__()  # type: ignore[no-untyped-call, unused-ignore]
        self.length = length

    def get_seq_length(self) -> int:
        return self.length

    def get_mask_sizes(self, query_length: int) -> tuple[int, int]:
        return self.length + query_length, 0


def make_cache(layers: Sequence[DynamicLayer]) -> DynamicCache:
    """A cache of these layers. Without a configuration: with one, window models get layers that crop."""
    cache = DynamicCache()
    plain: list[Any] = [*layers]
    cache.layers = plain
    return cache


@dataclass(frozen=True, slots=True)
class CachedPrefix:
    """For each block below L the keys and values of one prefix, ``(heads, tokens, head width)`` each."""

    tokens: int
    blocks: tuple[KeyValuePair, ...]

    @property
    def nbytes(self) -> int:
        return sum(
            tensor.numel() * tensor.element_size()
            for pair in self.blocks
            for tensor in pair
        )


class _Recorder(DynamicLayer):
    """A cache layer that starts empty and remembers the rows' prefixes."""

    def __init__(self, spans: Sequence[tuple[int, int]]) -> None:
        super().__init__()  # type: ignore[no-untyped-call, unused-ignore]
        self.spans = spans
        self.kept: Pairs = []

    def update(
        self,
        key_states: torch.Tensor,
        value_states: torch.Tensor,
        *args: Any,
        **kwargs: Any,
    ) -> KeyValuePair:
        # Copies, or every kept prefix would hold on to its whole padded batch.
        self.kept = [
            (key_states[row, :, a:b].clone(), value_states[row, :, a:b].clone())
            for row, (a, b) in enumerate(self.spans)
        ]
        return key_states, value_states


class _Resumed(PlaceholderCache):
    """A cache layer that stands for the kept prefixes of one block, padded on the left to ``length``.

    The padded keys exist only while the block runs, in a work space that all blocks share: a whole padded
    cache would cost more memory traffic than the attention itself.
    """

    def __init__(self, rows: Pairs, length: int, space: BatchBuffer) -> None:
        super().__init__(length)
        self.rows, self.space = rows, space

    def update(
        self,
        key_states: torch.Tensor,
        value_states: torch.Tensor,
        *args: Any,
        **kwargs: Any,
    ) -> KeyValuePair:
        return (
            self._padded(0, [k for k, _ in self.rows], key_states),
            self._padded(1, [v for _, v in self.rows], value_states),
        )

    def _padded(
        self, which: int, rows: Sequence[torch.Tensor], new: torch.Tensor
    ) -> torch.Tensor:
        batch, heads, more, size = new.shape
        whole = self.space.take(which, (batch, heads, self.length + more, size), new)
        for row, kept in enumerate(rows):
            start = self.length - kept.shape[1]
            whole[row, :, :start] = (
                0  # masked out, but not-a-number from old memory would spread
            )
            whole[row, :, start : self.length] = kept
        whole[:, :, self.length :] = new
        return whole


class BatchBuffer:
    """Two buffers that grow to the largest batch and stay; used under the model's lock."""

    def __init__(self) -> None:
        self.buffers: dict[int, torch.Tensor] = {}

    def take(
        self, which: int, shape: tuple[int, ...], like: torch.Tensor
    ) -> torch.Tensor:
        size = int(torch.Size(shape).numel())
        buffer = self.buffers.get(which)
        if (
            buffer is None
            or buffer.numel() < size
            or buffer.dtype != like.dtype
            or buffer.device != like.device
        ):
            buffer = self.buffers[which] = torch.empty(
                size, dtype=like.dtype, device=like.device
            )
        return buffer[:size].view(shape)


@torch.inference_mode()
def record_prefixes(
    early: PartialForward,
    prompts: Sequence[TokenPrompt],
    shared: Sequence[int],
    layer: int,
    pad: int,
) -> tuple[torch.Tensor, list[CachedPrefix]]:
    """One whole pass: the last tokens' states, and each prompt's first ``shared`` tokens kept."""
    inputs = model_inputs(early, prompts, pad)
    width = inputs["input_ids"].shape[1]
    spans = [
        (width - len(p.ids), width - len(p.ids) + n)
        for p, n in zip(prompts, shared, strict=True)
    ]
    layers = [_Recorder(spans) for _ in range(early.block_count)]
    inputs |= {"past_key_values": make_cache(layers), "use_cache": True}
    last = early.read_last_token(inputs, layer)
    blocks = [recorder.kept for recorder in layers[:layer]]
    return last, [
        CachedPrefix(n, tuple(kept[row] for kept in blocks))
        for row, n in enumerate(shared)
    ]


@torch.inference_mode()
def resume_prefixes(
    early: PartialForward,
    kept: Sequence[CachedPrefix],
    rest: Sequence[Sequence[int]],
    layer: int,
    space: BatchBuffer,
) -> torch.Tensor:
    """The last tokens' states of prefixes and the ``rest`` of their prompts, all of one length."""
    more, width = len(rest[0]), max(k.tokens for k in kept)
    lengths = torch.tensor([k.tokens for k in kept])[:, None]
    at = torch.arange(width + more)
    mask = (at >= width - lengths).long()
    blocks = [_Resumed([k.blocks[n] for k in kept], width, space) for n in range(layer)]
    # Masks are made for every block before the first runs, so those above L need to exist as well.
    blocks += [_Resumed([], width, space) for _ in range(early.block_count - layer)]
    inputs: dict[str, Any] = {
        "input_ids": torch.tensor([list(r) for r in rest]).to(early.device),
        "attention_mask": mask.to(early.device),
        "past_key_values": make_cache(blocks),
        "use_cache": True,
    }
    if early.accepts_argument("position_ids"):
        inputs["position_ids"] = (lengths + torch.arange(more)).to(early.device)
    return early.read_last_token(inputs, layer)
