"""Keys moved to other places: a rotary position is a rotation, so a key is turned into that at another place.

Rotary position embedding: Su et al., RoFormer (arXiv 2104.09864), section 3.2.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import nn

# Frequencies that do not depend on how long the text is; "dynamic" and "longrope" have others for longer texts.
FIXED = frozenset({"default", "linear", "llama3", "yarn", "proportional"})


@dataclass(frozen=True, slots=True, eq=False)
class Turning:
    """``frequencies`` are radians a place, float32 ``(r / 2,)``, for the first ``r`` numbers of a head.

    ``halves``: number i belongs with number i + r / 2 (Llama and its like); else neighbours belong together.
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


def turning_of(decoder: nn.Module, blocks: nn.ModuleList) -> tuple[Turning | None, str | None]:
    """How this model's keys are turned, or None and why they cannot be.

    Whether numbers belong together in halves or as neighbours is for the caller to try.
    """
    inside = {id(m) for m in blocks.modules()}
    outside = [m for m in decoder.modules() if id(m) not in inside]
    found = [m for m in outside if any("inv_freq" in n for n, _ in m.named_buffers(recurse=False))]
    if len(found) != 1:
        return None, "this model has no rotary positions, so its keys cannot be moved"
    kind = getattr(found[0], "rope_type", "default")
    names = [n for n, _ in found[0].named_buffers(recurse=False) if n.endswith("inv_freq") and "original" not in n]
    if not isinstance(kind, str) or len(names) != 1:
        return None, "this model's blocks turn their keys by different frequencies"
    if kind not in FIXED:
        return None, f"this model's rotary frequencies ({kind}) depend on the length of the text"
    frequencies = getattr(found[0], names[0])
    return Turning(frequencies.detach().float().clone()), None
