"""Where a transformer's blocks and its final norm are, found by structure and by trying, not by name."""

from __future__ import annotations

import inspect
from typing import Any

import torch
from torch import nn

from denoise_core.errors import InputError
from denoise_core.local.normalise import Norm


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
    if getattr(whole, "is_encoder_decoder", False) and hasattr(base, "encoder") and hasattr(base, "decoder"):
        raise InputError("an encoder-decoder model has two stacks of blocks: pass one, model.get_encoder()")
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
            if tried.shape == out.shape and torch.allclose(tried, out, rtol=1e-3, atol=1e-3):
                return module
    return None


def unit_gain(norm: nn.Module) -> Norm:
    """The arithmetic of a norm without its gain: rms, or layer if a constant added to its input is lost."""
    epsilon = getattr(norm, "variance_epsilon", getattr(norm, "eps", 1e-6))
    weight = norm.weight
    assert isinstance(weight, torch.Tensor)
    x = torch.linspace(-1, 2, weight.numel(), dtype=torch.float32).to(weight)[None]
    with torch.inference_mode():
        shifted = torch.allclose(norm(x), norm(x + 1), rtol=1e-2, atol=1e-2)
    return Norm("layer" if shifted else "rms", float(epsilon))
