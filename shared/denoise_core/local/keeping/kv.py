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

from denoise_core.local.blocks import Pair
from denoise_core.local.first_layers import EarlyLayers, inputs_of
from denoise_core.local.layout import Prompt

Pairs = list[Pair]


@dataclass(slots=True)
class Page:
    """What has been read so far: token ids in order, and keys and values of every block for all but the last id.

    ``end`` is how many of the ids belong to the beginning and the chunks: `OnePass.read` goes on from there.
    """

    ids: list[int]
    cache: Pairs
    end: int

    def past(self) -> DynamicCache:
        """A cache for the model's own ``generate``; it grows there, and leaves this page as it is."""
        return cache_of([filled(pair) for pair in self.cache])

    @property
    def nbytes(self) -> int:
        """Bytes of keys and values."""
        return sum(t.numel() * t.element_size() for pair in self.cache for t in pair)


class Standing(DynamicLayer):
    """A cache layer of a block that does not run here; it only knows how many tokens came before."""

    def __init__(self, length: int) -> None:
        super().__init__()  # type: ignore[no-untyped-call, unused-ignore]
        self.length = length

    def get_seq_length(self) -> int:
        return self.length

    def get_mask_sizes(self, query_length: int) -> tuple[int, int]:
        return self.length + query_length, 0


class Sheet(Standing):
    """A cache layer with room for the whole page: what a block makes of new tokens is written to their places.

    One buffer for keys and one for values, filled once: a cache that grows by joining would hold every row
    twice or three times at its peak. There is room for ``total`` tokens, of which those at the places ``at`` are
    still to come.
    """

    def __init__(self, total: int, at: torch.Tensor) -> None:
        super().__init__(total - len(at))
        self.total, self.at = total, at

    def put(self, start: int, keys: torch.Tensor, values: torch.Tensor) -> None:
        """Keys and values ``(1, heads, tokens, head width)`` to the places from ``start`` on."""
        self._write(slice(start, start + keys.shape[2]), keys, values)

    def update(self, key_states: torch.Tensor, value_states: torch.Tensor, *args: Any, **kwargs: Any) -> Pair:
        if len(self.at) < self.total:
            return self._write(self.at, key_states, value_states)
        self.keys, self.values = key_states, value_states  # all of the page at once: no copy
        return self.pair

    @property
    def pair(self) -> Pair:
        return held(self.keys), held(self.values)

    def _write(self, at: slice | torch.Tensor, keys: torch.Tensor, values: torch.Tensor) -> Pair:
        if self.keys is None:
            heads, size = keys.shape[1], (keys.shape[3], values.shape[3])
            self.keys, self.values = (keys.new_empty(1, heads, self.total, n) for n in size)
        pair = self.pair
        for whole, part in zip(pair, (keys, values), strict=True):
            whole[:, :, at] = part
        return pair


def filled(pair: Pair) -> DynamicLayer:
    """A cache layer that holds these keys and values, not copied."""
    layer = DynamicLayer()
    layer.lazy_initialization(*pair)
    layer.keys, layer.values = pair
    return layer


def cache_of(layers: Sequence[DynamicLayer]) -> DynamicCache:
    """A cache of these layers. Without a configuration: with one, window models get layers that crop."""
    cache = DynamicCache()
    plain: list[Any] = [*layers]
    cache.layers = plain
    return cache


def held(tensor: Any) -> torch.Tensor:
    if not isinstance(tensor, torch.Tensor):
        raise TypeError("a block without keys and values")
    return tensor


@dataclass(frozen=True, slots=True)
class KeptPrefix:
    """For each block below L the keys and values of one prefix, ``(heads, tokens, head width)`` each.

    ``states``, where they were asked for, are those that enter the last of these blocks, ``(tokens, width)``.
    """

    tokens: int
    blocks: tuple[Pair, ...]
    states: torch.Tensor | None = None

    @property
    def nbytes(self) -> int:
        held = [t for pair in self.blocks for t in pair] + ([] if self.states is None else [self.states])
        return sum(t.numel() * t.element_size() for t in held)


class _Recorder(DynamicLayer):
    """A cache layer that starts empty and remembers the rows' prefixes."""

    def __init__(self, spans: Sequence[tuple[int, int]]) -> None:
        super().__init__()  # type: ignore[no-untyped-call, unused-ignore]
        self.spans = spans
        self.kept: Pairs = []

    def update(self, key_states: torch.Tensor, value_states: torch.Tensor, *args: Any, **kwargs: Any) -> Pair:
        # Copies, or every kept prefix would hold on to its whole padded batch.
        self.kept = [
            (key_states[row, :, a:b].clone(), value_states[row, :, a:b].clone())
            for row, (a, b) in enumerate(self.spans)
        ]
        return key_states, value_states


class _Resumed(Standing):
    """A cache layer that stands for the kept prefixes of one block, padded on the left to ``length``.

    The padded keys exist only while the block runs, in a work space that all blocks share: a whole padded
    cache would cost more memory traffic than the attention itself.
    """

    def __init__(self, rows: Pairs, length: int, space: Space) -> None:
        super().__init__(length)
        self.rows, self.space = rows, space

    def update(self, key_states: torch.Tensor, value_states: torch.Tensor, *args: Any, **kwargs: Any) -> Pair:
        return (
            self._padded(0, [k for k, _ in self.rows], key_states),
            self._padded(1, [v for _, v in self.rows], value_states),
        )

    def _padded(self, which: int, rows: Sequence[torch.Tensor], new: torch.Tensor) -> torch.Tensor:
        batch, heads, more, size = new.shape
        whole = self.space.take(which, (batch, heads, self.length + more, size), new)
        for row, kept in enumerate(rows):
            start = self.length - kept.shape[1]
            whole[row, :, :start] = 0  # masked out, but not-a-number from old memory would spread
            whole[row, :, start : self.length] = kept
        whole[:, :, self.length :] = new
        return whole


class Space:
    """Two buffers that grow to the largest batch and stay; used under the model's lock."""

    def __init__(self) -> None:
        self.buffers: dict[int, torch.Tensor] = {}

    def take(self, which: int, shape: tuple[int, ...], like: torch.Tensor) -> torch.Tensor:
        size = int(torch.Size(shape).numel())
        buffer = self.buffers.get(which)
        if buffer is None or buffer.numel() < size or buffer.dtype != like.dtype or buffer.device != like.device:
            buffer = self.buffers[which] = torch.empty(size, dtype=like.dtype, device=like.device)
        return buffer[:size].view(shape)


@torch.inference_mode()
def record(
    early: EarlyLayers,
    prompts: Sequence[Prompt],
    shared: Sequence[int],
    layer: int,
    pad: int,
    *,
    states: bool = False,
) -> tuple[torch.Tensor, list[KeptPrefix]]:
    """One whole pass: the last tokens' states, and each prompt's first ``shared`` tokens kept.

    With ``states`` their states before the last block are kept too.
    """
    inputs = inputs_of(early, prompts, pad)
    width = inputs["input_ids"].shape[1]
    spans = [(width - len(p.ids), width - len(p.ids) + n) for p, n in zip(prompts, shared, strict=True)]
    layers = [_Recorder(spans) for _ in range(early.count)]
    inputs |= {"past_key_values": cache_of(layers), "use_cache": True}
    entering: list[torch.Tensor | None] = [None] * len(prompts)

    def keep(h: torch.Tensor) -> torch.Tensor:
        entering[:] = [h[row, a:b].clone() for row, (a, b) in enumerate(spans)]
        return h[:, -1]

    last = early.last(inputs, layer, before=keep if states else None)
    blocks = [found.kept for found in layers[:layer]]
    return last, [
        KeptPrefix(n, tuple(kept[row] for kept in blocks), entering[row]) for row, n in enumerate(shared)
    ]


@torch.inference_mode()
def resume(
    early: EarlyLayers, kept: Sequence[KeptPrefix], rest: Sequence[Sequence[int]], layer: int, space: Space
) -> torch.Tensor:
    """The last tokens' states of prefixes and the ``rest`` of their prompts, all of one length."""
    more, width = len(rest[0]), max(k.tokens for k in kept)
    lengths = torch.tensor([k.tokens for k in kept])[:, None]
    at = torch.arange(width + more)
    mask = (at >= width - lengths).long()
    blocks = [_Resumed([k.blocks[n] for k in kept], width, space) for n in range(layer)]
    # Masks are made for every block before the first runs, so those above L need to exist as well.
    blocks += [_Resumed([], width, space) for _ in range(early.count - layer)]
    inputs: dict[str, Any] = {
        "input_ids": torch.tensor([list(r) for r in rest]).to(early.device),
        "attention_mask": mask.to(early.device),
        "past_key_values": cache_of(blocks),
        "use_cache": True,
    }
    if early.takes("position_ids"):
        inputs["position_ids"] = (lengths + torch.arange(more)).to(early.device)
    return early.last(inputs, layer)
