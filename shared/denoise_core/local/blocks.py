"""What a model is of: its blocks and its final norm, found by structure and by trying."""

from __future__ import annotations

import inspect
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from denoise_core.errors import InputError


@dataclass(frozen=True, slots=True)
class Norm:
    """A model's final norm with its gain forced to one: the gain belongs to the last layer, not to the one read.

    ``kind`` is "rms", which divides by the root mean square, "layer", which subtracts the mean and divides by the
    deviation, or "none".
    """

    kind: str = "none"
    epsilon: float = 0.0

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

    Raises `InputError` for a model whose blocks are not a list of modules.
    """
    full_config = getattr(model, "config", None)
    if full_config is None:
        raise InputError(
            f"expected a Hugging Face model (a transformers.PreTrainedModel), got {type(model).__name__}"
        )
    if getattr(full_config, "is_encoder_decoder", False):
        raise InputError(
            f"{type(model).__name__} has an encoder; END reads models that are decoders alone"
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
    for module in reversed(list(decoder.modules())):
        norm_weight = getattr(module, "weight", None)
        is_norm = getattr(norm_weight, "shape", None) == last_hidden.shape[-1:]
        if id(module) in block_modules or not is_norm:
            continue
        normed = module(last_hidden)
        is_same_shape = normed.shape == model_output.shape
        if is_same_shape and torch.allclose(normed, model_output, rtol=1e-3, atol=1e-3):
            return module
    return None


def remove_gain(norm: nn.Module) -> Norm:
    """The arithmetic of a norm without its gain: rms, or layer if a constant added to its input is lost."""
    epsilon = getattr(norm, "variance_epsilon", getattr(norm, "eps", 1e-6))
    norm_weight: Any = norm.weight
    values = torch.linspace(-1, 2, norm_weight.numel()).to(norm_weight)[None]
    with torch.inference_mode():
        shifted = norm(values + 1)
        ignores_shift = torch.allclose(norm(values), shifted, rtol=1e-2, atol=1e-2)
    return Norm("layer" if ignores_shift else "rms", float(epsilon))


KeyValuePair: TypeAlias = tuple[torch.Tensor, torch.Tensor]  # keys and values
