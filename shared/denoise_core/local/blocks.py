"""What a model is of: its blocks and its final norm, found by structure and by trying; and a block for one token.

In the last block that runs, every token's key and value are needed, but the query, the attention, the output
projection and the feed-forward part of the last token alone (`last_token`). The block itself does the arithmetic,
in two calls: the first runs as far as its keys and values, which a cache catches; the second gets one token, and
the caught keys and values as its past. `PartialForward.read_last_token` compares the result with the whole block before it
uses it, so a family whose blocks do more than that runs them whole.
"""

from __future__ import annotations

import contextlib
import inspect
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn
from transformers.cache_utils import Cache, DynamicCache

from denoise_core.errors import InputError


@dataclass(frozen=True, slots=True)
class Norm:
    """A model's final norm with its gain forced to one: the gain belongs to the last layer, not to the one read.

    ``kind`` is "rms", which divides by the root mean square, "layer", which subtracts the mean and divides by the
    deviation, or "none". Raises `InputError` for another.
    """

    kind: str = "none"
    epsilon: float = 0.0

    def __post_init__(self) -> None:
        if self.kind not in ("none", "rms", "layer"):
            raise InputError(
                f"normalisation={self.kind!r}: expected 'none', 'rms' or 'layer'"
            )

    def __call__(self, states: NDArray[np.floating[Any]]) -> NDArray[np.float32]:
        """float32 states of the same shape, each normed along the last axis."""
        x = np.asarray(states, dtype=np.float32)
        if self.kind == "none":
            return x
        if self.kind == "layer":
            x = x - x.mean(axis=-1, keepdims=True)
        # The mean square of massive activations can pass float32's accuracy, so it is summed in float64.
        square = np.mean(np.square(x, dtype=np.float64), axis=-1, keepdims=True)
        return np.asarray(x / np.sqrt(square + self.epsilon), dtype=np.float32)


def find_blocks(model: nn.Module) -> tuple[Any, nn.Module, nn.ModuleList]:
    """The text configuration, the module that takes ``input_ids``, and its list of blocks.

    Raises `InputError` for an encoder-decoder model and for one whose blocks are not a list of modules.
    """
    whole = getattr(model, "config", None)
    if whole is None:
        raise InputError(
            f"expected a Hugging Face model (a transformers.PreTrainedModel), got {type(model).__name__}"
        )
    base = getattr(model, "base_model", model)
    if (
        getattr(whole, "is_encoder_decoder", False)
        and hasattr(base, "encoder")
        and hasattr(base, "decoder")
    ):
        raise InputError(
            "an encoder-decoder model has two stacks of blocks: pass one, model.get_encoder()"
        )
    config = whole.get_text_config()
    inner: Any = getattr(model, "get_decoder", None)
    start: nn.Module = model if inner is None else inner()
    count = config.num_hidden_layers
    for root in (start, model):
        for path, module in root.named_modules():
            if isinstance(module, nn.ModuleList) and len(module) == count:
                return config, _entrance(root, path), module
    raise InputError(
        f"{type(model).__name__}: expected a list of {count} blocks and found none (blocks with shared weights, "
        "or not a transformer), so it cannot be stopped between them"
    )


def _entrance(root: nn.Module, path: str) -> nn.Module:
    """The nearest module around ``path`` that takes ``input_ids``."""
    while path:
        path = path.rpartition(".")[0]
        module = root.get_submodule(path)
        if "input_ids" in inspect.signature(module.forward).parameters:
            return module
    return root


def find_final_norm(
    decoder: nn.Module, blocks: nn.ModuleList, top: torch.Tensor, out: torch.Tensor
) -> nn.Module | None:
    """The norm that turns the last block's output ``top`` into the model's output ``out``; None without one."""
    if top.shape == out.shape and torch.equal(top, out):
        return None
    inside = {id(m) for m in blocks.modules()}
    # From the end: an embedding norm of the same width may hold the same numbers, in a fresh model at least.
    for module in reversed([m for m in decoder.modules() if id(m) not in inside]):
        weight = getattr(module, "weight", None)
        if isinstance(weight, torch.Tensor) and tuple(weight.shape) == (top.shape[-1],):
            tried = module(top)
            if tried.shape == out.shape and torch.allclose(
                tried, out, rtol=1e-3, atol=1e-3
            ):
                return module
    return None


def remove_gain(norm: nn.Module) -> Norm:
    """The arithmetic of a norm without its gain: rms, or layer if a constant added to its input is lost."""
    epsilon = getattr(norm, "variance_epsilon", getattr(norm, "eps", 1e-6))
    weight = norm.weight
    assert isinstance(weight, torch.Tensor)
    x = torch.linspace(-1, 2, weight.numel(), dtype=torch.float32).to(weight)[None]
    with torch.inference_mode():
        shifted = torch.allclose(norm(x), norm(x + 1), rtol=1e-2, atol=1e-2)
    return Norm("layer" if shifted else "rms", float(epsilon))


KeyValuePair: TypeAlias = tuple[torch.Tensor, torch.Tensor]  # keys and values
PAST = ("past_key_values", "layer_past")  # what blocks call their cache


class _Caught(BaseException):
    """Leaves a block at its keys and values; not an `Exception`, so that nothing in a model eats it."""


class _Catch(DynamicCache):
    """Takes the keys and values of a block, those of its real past in front, and leaves the block."""

    def __init__(self, past: Cache | None) -> None:
        super().__init__()
        self.past = past
        self.caught: KeyValuePair | None = None

    def get_seq_length(self, layer_idx: int = 0) -> int:
        return 0 if self.past is None else int(self.past.get_seq_length(layer_idx))

    def update(
        self,
        key_states: torch.Tensor,
        value_states: torch.Tensor,
        *args: Any,
        **kwargs: Any,
    ) -> KeyValuePair:
        found = key_states, value_states
        if self.past is not None:
            found = self.past.update(key_states, value_states, *args, **kwargs)
        self.caught = found
        raise _Caught


class _Given(DynamicCache):
    """The caught keys and values as the past of their last token, which is among them already."""

    def __init__(self, caught: KeyValuePair) -> None:
        super().__init__()
        self.caught = caught

    def get_seq_length(self, layer_idx: int = 0) -> int:
        return int(self.caught[0].shape[-2]) - 1

    def update(
        self,
        key_states: torch.Tensor,
        value_states: torch.Tensor,
        *args: Any,
        **kwargs: Any,
    ) -> KeyValuePair:
        return self.caught


def run_last_token(
    block: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> torch.Tensor | None:
    """``block(*args, **kwargs)`` for the last token alone, ``(batch, 1, width)``.

    None when the call holds something that is not known to be cut to one token; then run the block whole.
    Raises whatever a block raises that cannot work like this.
    """
    names = [*inspect.signature(block.forward).parameters]
    given = dict(zip(names, args, strict=False)) | kwargs
    past = next((name for name in PAST if name in given), None)
    state = given.get("hidden_states")
    if (
        past is None
        or not isinstance(state, torch.Tensor)
        or state.ndim != 3
        or state.shape[1] < 2
    ):
        return None
    one = {
        name: _cut(name, value, state.shape[1])
        for name, value in given.items()
        if name != past
    }
    if any(value is _UNKNOWN for value in one.values()) or not isinstance(
        given[past], Cache | None
    ):
        return None
    keep = {"use_cache": True} if "use_cache" in given else {}
    catch = _Catch(given[past])
    with contextlib.suppress(_Caught):
        block(**given | keep | {past: catch})
    if catch.caught is None:
        raise TypeError(
            "a block without keys and values"
        )  # a recurrent one: found by the trial
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
    along = {
        "hidden_states": 1,
        "position_ids": -1,
        "position_embeddings": -2,
        "attention_mask": -2,
    }.get(name)
    if not isinstance(value, torch.Tensor) or along is None:
        return _UNKNOWN
    # A mask of two dimensions is one of keys, for kernels that build their own.
    if value.ndim != (4 if name == "attention_mask" else value.ndim) or value.ndim < 2:
        return _UNKNOWN
    return (
        value.narrow(along, tokens - 1, 1) if value.shape[along] == tokens else _UNKNOWN
    )
