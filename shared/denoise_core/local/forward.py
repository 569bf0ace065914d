"""One batch of prompts as tensors: padding, position ids, segment ids, and pooling of the states."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Literal, TypeVar

import torch

from denoise_core.errors import InputError
from denoise_core.local.first_layers import EarlyLayers, Pool
from denoise_core.local.layout import Prompt

T = TypeVar("T")
Pooling = Literal["last", "cls_mean_question"]


def inputs_of(early: EarlyLayers, prompts: Sequence[Prompt], pad: int) -> dict[str, Any]:
    """Inputs of the model's forward pass. Decoders are padded on the left, encoders on the right.

    Decoders always get position ids, because those with learned positions would count the padding in
    (GPT-2 does); encoders number their tokens themselves, some of them not from 0 (RoBERTa).
    """
    width = max(len(p.ids) for p in prompts)
    ids, mask = torch.full((len(prompts), width), pad), torch.zeros(len(prompts), width, dtype=torch.long)
    types = torch.zeros(len(prompts), width, dtype=torch.long)
    for row, prompt in enumerate(prompts):
        at = width - len(prompt.ids) if early.causal else 0
        ids[row, at : at + len(prompt.ids)] = torch.tensor(prompt.ids)
        mask[row, at : at + len(prompt.ids)] = 1
        if prompt.types:
            types[row, at : at + len(prompt.ids)] = torch.tensor(prompt.types)
    out: dict[str, Any] = {"input_ids": ids, "attention_mask": mask}
    if early.causal and early.takes("position_ids"):
        out["position_ids"] = (mask.cumsum(-1) - 1).clamp(min=0)
    if any(p.types for p in prompts) and early.takes("token_type_ids"):
        out["token_type_ids"] = types
    out = {name: tensor.to(early.device) for name, tensor in out.items()}
    if early.takes("use_cache"):
        out["use_cache"] = False
    return out


def pool_of(pooling: Pooling, prompts: Sequence[Prompt]) -> Pool:
    """``last``: the last token's state. ``cls_mean_question``: first token, mean over the passage's tokens,
    mean over the question's, one after the other (three times the model's width); the mean of no tokens is 0.
    """
    if pooling == "last":
        return lambda h: h[:, -1].float()

    def pool(h: torch.Tensor) -> torch.Tensor:
        at = torch.arange(h.shape[1], device=h.device)
        parts = [h[:, 0].float()]
        for spans in ([p.passage for p in prompts], [p.query for p in prompts]):
            ends = torch.tensor(spans, device=h.device)
            inside = ((at >= ends[:, :1]) & (at < ends[:, 1:])).float()
            weights = inside / inside.sum(-1, keepdim=True).clamp(min=1)
            parts.append(torch.einsum("bt,btd->bd", weights, h.float()))
        return torch.cat(parts, -1)

    return pool


def out_of_memory(error: BaseException) -> bool:
    """Whether the batch was too large for the device or the machine; torch reports it in several ways."""
    if isinstance(error, torch.OutOfMemoryError | MemoryError):
        return True
    return isinstance(error, RuntimeError) and "allocate memory" in str(error)


def halving(batch: list[int], run: Callable[[list[int]], T]) -> list[tuple[list[int], T]]:
    """``run(batch)``; a batch that does not fit into memory is halved and tried again, down to one row.

    Raises `InputError` when a single row does not fit.
    """
    try:
        return [(batch, run(batch))]
    except Exception as error:
        if not out_of_memory(error):
            raise
        if len(batch) == 1:
            raise InputError(
                "a single prompt does not fit into memory; cut the passages into smaller chunks, load the model "
                "in bfloat16, or use another device"
            ) from error
    middle = len(batch) // 2
    return halving(batch[:middle], run) + halving(batch[middle:], run)
