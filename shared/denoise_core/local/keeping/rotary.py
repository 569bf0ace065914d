"""Keys moved to other places: a rotary position is a rotation, so a key is turned into that at another place.

Rotary position embedding: Su et al., RoFormer (arXiv 2104.09864), section 3.2.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product

import torch
from torch import nn

# Frequencies that do not depend on how long the text is; "dynamic" and "longrope" have others for longer texts.
FIXED = frozenset({"default", "linear", "llama3", "yarn", "proportional"})


@dataclass(frozen=True, slots=True, eq=False)
class Rotation:
    """``frequencies`` are radians a place, float32 ``(r / 2,)``, for the first ``r`` numbers of a head.

    ``halves``: number i belongs with number i + r / 2 (Llama and its like); else neighbours do (GPT-J).
    """

    frequencies: torch.Tensor
    halves: bool = True

    def __call__(self, keys: torch.Tensor, by: int) -> torch.Tensor:
        """Keys ``(..., head width)`` as they are ``by`` places further on; ``by`` may be negative."""
        if not by:
            return keys
        angle = self.frequencies.to(keys.device) * by
        cos, sin = angle.cos(), angle.sin()
        width = 2 * len(angle)
        turned, rest = keys[..., :width].float(), keys[..., width:]
        if self.halves:
            a, b = turned.chunk(2, dim=-1)
            out = torch.cat([a * cos - b * sin, b * cos + a * sin], -1)
        else:
            a, b = turned[..., 0::2], turned[..., 1::2]
            out = torch.stack([a * cos - b * sin, b * cos + a * sin], -1).flatten(-2)
        return torch.cat([out.to(keys.dtype), rest], -1)


def turnings_of(decoder: nn.Module, blocks: nn.ModuleList) -> tuple[list[Rotation], str | None]:
    """All ways in which this model may turn its keys; none, and why, where they cannot be turned.

    Blocks of different kinds may have different frequencies (Gemma 3, Olmo 3). Which block turns by which of them,
    if by any, and whether numbers belong together in halves or as neighbours, is for the caller to try.
    """
    found: list[torch.Tensor] = []
    for module in decoder.modules():
        kind = getattr(module, "rope_type", "default")
        for name, buffer in module.named_buffers(recurse=False):
            if name.endswith("inv_freq") and "original" not in name:
                of = kind.get(name.removesuffix("_inv_freq")) if isinstance(kind, dict) else kind
                if of not in FIXED:
                    return [], f"this model's rotary frequencies ({of}) depend on the length of the text"
                found.append(buffer.detach().float().clone())
    found += _tabled(blocks)
    distinct = [f for n, f in enumerate(found) if not any(torch.equal(f, other) for other in found[:n])]
    if not distinct:
        return [], "this model has no rotary positions, so its keys cannot be moved"
    return [Rotation(f, halves) for f, halves in product(distinct, (True, False))], None


def _tabled(blocks: nn.ModuleList) -> Iterator[torch.Tensor]:
    """Frequencies of models that keep sines and cosines in a table, ``(places, r)``: GPT-J, CodeGen."""
    for name, table in blocks[0].named_buffers():
        if name.endswith("embed_positions") and table.ndim == 2 and len(table) > 1:
            sin, cos = table[1].float().chunk(2)
            yield torch.atan2(sin, cos)
