"""What a model is of: its blocks and its final norm, found by structure and by trying; and a block for one token.

In the last block that runs, every token's key and value are needed, but the query, the attention, the output
projection and the feed-forward part of the last token alone (`last_token`). The block itself does the arithmetic,
in two calls: the first runs as far as its keys and values, which a cache catches; the second gets one token, and
the caught keys and values as its past. `PartialForward.read_last_token` compares the result with the whole
block before it
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
        values = np.asarray(states, dtype=np.float32)
        if self.kind == "none":
            return values
        if self.kind == "layer":
            values = values - values.mean(axis=-1, keepdims=True)
        # The mean square of massive activations can pass float32's accuracy, so it is summed in float64.
        mean_square = np.mean(
            np.square(values, dtype=np.float64), axis=-1, keepdims=True
        )
        return np.asarray(
            values / np.sqrt(mean_square + self.epsilon), dtype=np.float32
        )


def find_blocks(model: nn.Module) -> tuple[Any, nn.Module, nn.ModuleList]:
    """The text configuration, the module that takes ``input_ids``, and its list of blocks.

    Raises `InputError` for an encoder-decoder model and for one whose blocks are not a list of modules.
    """
    full_config = getattr(model, "config", None)
    if full_config is None:
        raise InputError(
            f"expected a Hugging Face model (a transformers.PreTrainedModel), got {type(model).__name__}"
        )
    base_model = getattr(model, "base_model", model)
    if (
        getattr(full_config, "is_encoder_decoder", False)
        and hasattr(base_model, "encoder")
        and hasattr(base_model, "decoder")
    ):
        raise InputError(
            "an encoder-decoder model has two stacks of blocks: pass one, model.get_encoder()"
        )
    config = full_config.get_text_config()
    get_decoder: Any = getattr(model, "get_decoder", None)
    start_module: nn.Module = model if get_decoder is None else get_decoder()
    block_count = config.num_hidden_layers
    for root in (start_module, model):
        for path, module in root.named_modules():
            if isinstance(module, nn.ModuleList) and len(module) == block_count:
                return config, _input_module(root, path), module
    raise InputError(
        f"{type(model).__name__}: expected a list of {block_count} blocks and found none (blocks with shared weights, "  # noqa: E501
        "or not a transformer), so it cannot be stopped between them"
    )


def _input_module(root: nn.Module, path: str) -> nn.Module:
    """The nearest module around ``path`` that takes ``input_ids``."""
    while path:
        path = path.rpartition(".")[0]
        module = root.get_submodule(path)
        if "input_ids" in inspect.signature(module.forward).parameters:
            return module
    return root


def find_final_norm(
    decoder: nn.Module,
    blocks: nn.ModuleList,
    last_hidden: torch.Tensor,
    model_output: torch.Tensor,
) -> nn.Module | None:
    """The norm that turns the last block's output ``last_hidden`` into the model's output ``model_output``;
    None without one.
    """
    if last_hidden.shape == model_output.shape and torch.equal(
        last_hidden, model_output
    ):
        return None
    block_modules = {id(module) for module in blocks.modules()}
    # From the end: an embedding norm of the same width may hold the same numbers, in a fresh model at least.
    for module in reversed(
        [module for module in decoder.modules() if id(module) not in block_modules]
    ):
        norm_weight = getattr(module, "weight", None)
        if isinstance(norm_weight, torch.Tensor) and tuple(norm_weight.shape) == (
            last_hidden.shape[-1],
        ):
            normed = module(last_hidden)
            if normed.shape == model_output.shape and torch.allclose(
                normed, model_output, rtol=1e-3, atol=1e-3
            ):
                return module
    return None


def remove_gain(norm: nn.Module) -> Norm:
    """The arithmetic of a norm without its gain: rms, or layer if a constant added to its input is lost."""
    epsilon = getattr(norm, "variance_epsilon", getattr(norm, "eps", 1e-6))
    norm_weight = norm.weight
    assert isinstance(norm_weight, torch.Tensor)
    values = torch.linspace(-1, 2, norm_weight.numel(), dtype=torch.float32).to(
        norm_weight
    )[None]
    with torch.inference_mode():
        ignores_shift = torch.allclose(
            norm(values), norm(values + 1), rtol=1e-2, atol=1e-2
        )
    return Norm("layer" if ignores_shift else "rms", float(epsilon))


KeyValuePair: TypeAlias = tuple[torch.Tensor, torch.Tensor]  # keys and values
_CACHE_ARGUMENTS = ("past_key_values", "layer_past")  # what blocks call their cache


class _StopBlock(BaseException):
    """Leaves a block at its keys and values; not an `Exception`, so that nothing in a model eats it."""


class _CapturingCache(DynamicCache):
    """Takes the keys and values of a block, those of its real past in front, and leaves the block."""

    def __init__(self, past_cache: Cache | None) -> None:
        super().__init__()
        self.past = past_cache
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
        key_values = key_states, value_states
        if self.past is not None:
            key_values = self.past.update(key_states, value_states, *args, **kwargs)
        self.caught = key_values
        raise _StopBlock


class _CapturedCache(DynamicCache):
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
    parameter_names = [*inspect.signature(block.forward).parameters]
    call_arguments = dict(zip(parameter_names, args, strict=False)) | kwargs
    cache_name = next(
        (name for name in _CACHE_ARGUMENTS if name in call_arguments), None
    )
    hidden_state = call_arguments.get("hidden_states")
    if (
        cache_name is None
        or not isinstance(hidden_state, torch.Tensor)
        or hidden_state.ndim != 3
        or hidden_state.shape[1] < 2
    ):
        return None
    token_arguments = {
        name: _last_token_argument(name, value, hidden_state.shape[1])
        for name, value in call_arguments.items()
        if name != cache_name
    }
    if any(
        value is _UNKNOWN_ARGUMENT for value in token_arguments.values()
    ) or not isinstance(call_arguments[cache_name], Cache | None):
        return None
    cache_flag = {"use_cache": True} if "use_cache" in call_arguments else {}
    capturing_cache = _CapturingCache(call_arguments[cache_name])
    with contextlib.suppress(_StopBlock):
        block(**call_arguments | cache_flag | {cache_name: capturing_cache})
    if capturing_cache.caught is None:
        raise TypeError(
            "a block without keys and values"
        )  # a recurrent one: found by the trial
    model_output = block(
        **token_arguments
        | cache_flag
        | {cache_name: _CapturedCache(capturing_cache.caught)}
    )
    hidden_state = model_output[0] if isinstance(model_output, tuple) else model_output
    return (
        hidden_state
        if isinstance(hidden_state, torch.Tensor) and hidden_state.shape[1] == 1
        else None
    )


_UNKNOWN_ARGUMENT = object()


def _last_token_argument(name: str, value: Any, tokens: int) -> Any:
    """What the last token's call gets for an argument of all tokens' call, or `_UNKNOWN_ARGUMENT`."""
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, tuple | list):
        argument_parts = [
            _last_token_argument(name, argument_part, tokens) for argument_part in value
        ]
        return (
            _UNKNOWN_ARGUMENT
            if any(
                argument_part is _UNKNOWN_ARGUMENT for argument_part in argument_parts
            )
            else tuple(argument_parts)
        )
    token_dimension = {
        "hidden_states": 1,
        "position_ids": -1,
        "position_embeddings": -2,
        "attention_mask": -2,
    }.get(name)
    if not isinstance(value, torch.Tensor) or token_dimension is None:
        return _UNKNOWN_ARGUMENT
    # A mask of two dimensions is one of keys, for kernels that build their own.
    if value.ndim != (4 if name == "attention_mask" else value.ndim) or value.ndim < 2:
        return _UNKNOWN_ARGUMENT
    return (
        value.narrow(token_dimension, tokens - 1, 1)
        if value.shape[token_dimension] == tokens
        else _UNKNOWN_ARGUMENT
    )
