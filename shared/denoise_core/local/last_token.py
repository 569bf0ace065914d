"""One block for the last token only: what a probe reads needs no other token of the block it is read after.

In the last block that runs, every token's key and value are needed, but the query, the attention, the output
projection and the feed-forward part of the last token alone. The block itself does the arithmetic, in two
calls: the first runs as far as its keys and values, which a cache catches; the second gets one token, and
the caught keys and values as its past. `EarlyLayers.last` compares the result with the whole block before it
uses it, so a family whose blocks do more than that runs them whole.
"""

from __future__ import annotations

import contextlib
import inspect
from typing import Any

import torch
from torch import nn
from transformers.cache_utils import Cache, DynamicCache

PAST = ("past_key_values", "layer_past")  # what blocks call their cache


class _Caught(BaseException):
    """Leaves a block at its keys and values; not an `Exception`, so that nothing in a model eats it."""


class _Catch(DynamicCache):
    """Takes the keys and values of a block, those of its real past in front, and leaves the block."""

    def __init__(self, past: Cache | None) -> None:
        super().__init__()
        self.past = past
        self.caught: tuple[torch.Tensor, torch.Tensor] | None = None

    def get_seq_length(self, layer_idx: int = 0) -> int:
        return 0 if self.past is None else int(self.past.get_seq_length(layer_idx))

    def update(
        self, key_states: torch.Tensor, value_states: torch.Tensor, layer_idx: int, *args: Any, **kwargs: Any
    ) -> tuple[torch.Tensor, torch.Tensor]:
        found = key_states, value_states
        if self.past is not None:
            found = self.past.update(key_states, value_states, layer_idx, *args, **kwargs)
        self.caught = found
        raise _Caught


class _Given(DynamicCache):
    """The caught keys and values as the past of their last token, which is among them already."""

    def __init__(self, caught: tuple[torch.Tensor, torch.Tensor]) -> None:
        super().__init__()
        self.caught = caught

    def get_seq_length(self, layer_idx: int = 0) -> int:
        return int(self.caught[0].shape[-2]) - 1

    def update(
        self, key_states: torch.Tensor, value_states: torch.Tensor, layer_idx: int, *args: Any, **kwargs: Any
    ) -> tuple[torch.Tensor, torch.Tensor]:
        return self.caught


def last_token(block: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> torch.Tensor | None:
    """``block(*args, **kwargs)`` for the last token alone, ``(batch, 1, width)``.

    None when the call holds something that is not known to be cut to one token; then run the block whole.
    Raises whatever a block raises that cannot work like this.
    """
    names = [*inspect.signature(block.forward).parameters]
    given = dict(zip(names, args, strict=False)) | kwargs
    past = next((name for name in PAST if name in given), None)
    state = given.get("hidden_states")
    if past is None or not isinstance(state, torch.Tensor) or state.ndim != 3 or state.shape[1] < 2:
        return None
    one = {name: _cut(name, value, state.shape[1]) for name, value in given.items() if name != past}
    if any(value is _UNKNOWN for value in one.values()) or not isinstance(given[past], Cache | None):
        return None
    keep = {"use_cache": True} if "use_cache" in given else {}
    catch = _Catch(given[past])
    with contextlib.suppress(_Caught):
        block(**given | keep | {past: catch})
    if catch.caught is None:
        raise TypeError("a block without keys and values")  # a recurrent one: found by the trial
    out = block(**one | keep | {past: _Given(catch.caught)})
    state = out[0] if isinstance(out, tuple) else out
    return state if isinstance(state, torch.Tensor) and state.shape[1] == 1 else None


_UNKNOWN = object()


def _cut(name: str, value: Any, tokens: int) -> Any:
    """What the last token's call gets for an argument of all tokens' call, or `_UNKNOWN`."""
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, tuple | list):
        parts = [_cut(name, part, tokens) for part in value]
        return _UNKNOWN if any(part is _UNKNOWN for part in parts) else tuple(parts)
    along = {"hidden_states": 1, "position_ids": -1, "position_embeddings": -2, "attention_mask": -2}.get(name)
    if not isinstance(value, torch.Tensor) or along is None:
        return _UNKNOWN
    # A mask of two dimensions is one of keys, for kernels that build their own.
    if value.ndim != (4 if name == "attention_mask" else value.ndim) or value.ndim < 2:
        return _UNKNOWN
    return value.narrow(along, tokens - 1, 1) if value.shape[along] == tokens else _UNKNOWN
