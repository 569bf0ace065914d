"""What an answer has read: keys and values of every block in the order of the prompt, and layers to fill them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Self

import torch
from transformers.cache_utils import DynamicCache, DynamicLayer

Pairs = list[tuple[torch.Tensor, torch.Tensor]]


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

    length = 0

    @classmethod
    def of(cls, length: int) -> Self:
        layer = cls()
        layer.length = length
        return layer

    def get_seq_length(self) -> int:
        return self.length

    def get_mask_sizes(self, query_length: int) -> tuple[int, int]:
        return self.length + query_length, 0


class Sheet(Standing):
    """A cache layer with room for the whole page: what a block makes of new tokens is written to their places.

    One buffer for keys and one for values, filled once: a cache that grows by joining would hold every row
    twice or three times at its peak.
    """

    total: int
    at: torch.Tensor

    @classmethod
    def room(cls, total: int, at: torch.Tensor) -> Sheet:
        """Room for ``total`` tokens, of which those at the places ``at`` are still to come."""
        layer = cls.of(total - len(at))
        layer.total, layer.at = total, at
        return layer

    def put(self, start: int, keys: torch.Tensor, values: torch.Tensor) -> None:
        """Keys and values ``(1, heads, tokens, head width)`` to the places from ``start`` on."""
        self._write(slice(start, start + keys.shape[2]), keys, values)

    def update(
        self, key_states: torch.Tensor, value_states: torch.Tensor, *args: Any, **kwargs: Any
    ) -> tuple[torch.Tensor, torch.Tensor]:
        if len(self.at) < self.total:
            return self._write(self.at, key_states, value_states)
        self.keys, self.values = key_states, value_states  # all of the page at once: no copy
        return self.pair

    @property
    def pair(self) -> tuple[torch.Tensor, torch.Tensor]:
        return held(self.keys), held(self.values)

    def _write(
        self, at: slice | torch.Tensor, keys: torch.Tensor, values: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor]:
        if self.keys is None:
            heads, size = keys.shape[1], (keys.shape[3], values.shape[3])
            self.keys, self.values = (keys.new_empty(1, heads, self.total, n) for n in size)
        pair = self.pair
        for whole, part in zip(pair, (keys, values), strict=True):
            whole[:, :, at] = part
        return pair


def filled(pair: tuple[torch.Tensor, torch.Tensor]) -> DynamicLayer:
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
