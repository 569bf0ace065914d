"""The reader's network in torch, for training and for holding the NumPy one to it.

MiniLM-L6 with frozen weights, low-rank changes (LoRA, Hu et al. 2021) in its upper layers, trained layer norms
there, an embedding of marks, and three heads: start, end, and whether the window holds an answer. Attention is
written out: on a processor and at these lengths it is several times faster than torch's fused one.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from denoise_core.embedded.reader.forward import Batch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional as F

WIDTH, LAYERS, HEADS = 384, 6, 12
MARKS = 7  # kinds of pieces that `forward` tells apart
FROZEN = 2  # lower layers left as they are
RANK = 24
SCALE = 2.0


class _Changed(torch.autograd.Function):
    """A frozen product with a low-rank change: ``x @ weight.T + bias + (x @ a.T) @ b.T``.

    Written out because torch's own course makes two tensors of the output's size and adds them, and passes
    over the frozen weight in the slower order: a fifth of a step.
    """

    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, turned: Tensor, bias: Tensor, a: Tensor, b: Tensor) -> Tensor:
        flat = x.reshape(-1, x.shape[-1])
        inner = flat @ a.t()
        out = torch.addmm(bias, flat, turned).addmm_(inner, b.t())
        ctx.save_for_backward(flat, inner, weight, a, b)
        return out.view(*x.shape[:-1], -1)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        flat, inner, weight, a, b = ctx.saved_tensors
        out = grads[0].reshape(-1, grads[0].shape[-1])
        back = out @ b
        given = (out @ weight).addmm_(back, a).view(*grads[0].shape[:-1], -1)
        return given, None, None, None, back.t() @ flat, (inner.t() @ out).t()


class Linear(nn.Module):
    """A frozen product with a low-rank change of rank ``rank``, 0 for none."""

    weight: Tensor
    turned: Tensor
    bias: Tensor

    def __init__(self, weight: Tensor, bias: Tensor, rank: int) -> None:
        super().__init__()
        self.register_buffer("weight", weight)
        self.register_buffer("turned", weight.t().contiguous())
        self.register_buffer("bias", bias)
        self.rank = rank
        if rank:
            self.a = nn.Parameter(torch.randn(rank, weight.shape[1]) / math.sqrt(weight.shape[1]))
            self.b = nn.Parameter(torch.zeros(weight.shape[0], rank))

    def forward(self, x: Tensor) -> Tensor:
        if not self.rank:
            flat = x.reshape(-1, x.shape[-1])
            return torch.addmm(self.bias, flat, self.turned).view(*x.shape[:-1], -1)
        a, b = self.a.to(x.dtype), (self.b * SCALE).to(x.dtype)
        apply: Any = _Changed.apply
        changed: Tensor = apply(x, self.weight, self.turned, self.bias, a, b)
        return changed


class Layer(nn.Module):
    """One layer of the encoder: states ``(rows, length, 384)`` in and out."""

    def __init__(self, weights: Mapping[str, Tensor], prefix: str, rank: int) -> None:
        super().__init__()

        def of(name: str) -> tuple[Tensor, Tensor]:
            return weights[f"{prefix}.{name}.weight"], weights[f"{prefix}.{name}.bias"]

        parts = [of(f"attention.self.{name}") for name in ("query", "key", "value")]
        self.qkv = Linear(torch.cat([w for w, _ in parts]), torch.cat([b for _, b in parts]), rank)
        self.out = Linear(*of("attention.output.dense"), rank)
        self.up = Linear(*of("intermediate.dense"), rank)
        self.down = Linear(*of("output.dense"), rank)
        self.norms = nn.ParameterList(
            nn.Parameter(t.clone(), requires_grad=bool(rank))
            for name in ("attention.output.LayerNorm", "output.LayerNorm")
            for t in of(name)
        )

    def forward(self, h: Tensor, hidden: Tensor) -> Tensor:
        rows, length, _ = h.shape
        q, k, v = self.qkv(h).view(rows, length, 3, HEADS, WIDTH // HEADS).permute(2, 0, 3, 1, 4)
        weight = torch.softmax(torch.matmul(q * (WIDTH // HEADS) ** -0.5, k.transpose(-1, -2)) + hidden, -1)
        mixed = torch.matmul(weight, v).transpose(1, 2).reshape(rows, length, WIDTH)
        w1, b1, w2, b2 = (t.to(h.dtype) for t in self.norms)
        h = F.layer_norm(h + self.out(mixed), (WIDTH,), w1, b1, 1e-12)
        return F.layer_norm(h + self.down(F.gelu(self.up(h))), (WIDTH,), w2, b2, 1e-12)


class Network(nn.Module):
    """Start and end logits ``(rows, length)``, -1e4 outside of windows, and answer-presence logits ``(rows,)``.

    ``weights`` are MiniLM's own by their names there; ``kind`` is the type that layers compute in.
    """

    words: Tensor
    place: Tensor
    norm_weight: Tensor
    norm_bias: Tensor

    def __init__(self, weights: Mapping[str, NDArray[Any]], kind: torch.dtype = torch.float32) -> None:
        super().__init__()
        given = {name: torch.from_numpy(np.array(w)) for name, w in weights.items()}
        self.kind = kind
        place = (
            given["embeddings.position_embeddings.weight"] + given["embeddings.token_type_embeddings.weight"][0]
        )
        self.register_buffer("words", given["embeddings.word_embeddings.weight"])
        self.register_buffer("place", place)
        self.register_buffer("norm_weight", given["embeddings.LayerNorm.weight"])
        self.register_buffer("norm_bias", given["embeddings.LayerNorm.bias"])
        typed = {n: w.to(kind) if ".weight" in n and "Norm" not in n else w for n, w in given.items()}
        typed = {n: w.to(kind) if "Norm" not in n and "bias" in n else w for n, w in typed.items()}
        self.layers = nn.ModuleList(
            Layer(typed, f"encoder.layer.{i}", RANK if i >= FROZEN else 0) for i in range(LAYERS)
        )
        self.marks = nn.Parameter(torch.randn(MARKS, WIDTH) * 0.02)
        self.span = nn.Linear(WIDTH, 2)
        self.hidden = nn.Linear(WIDTH, 32)
        self.holds = nn.Linear(32, 1)

    def forward(self, batch: Batch) -> tuple[Tensor, Tensor, Tensor]:
        ids, marks = torch.from_numpy(batch.ids), torch.from_numpy(batch.marks)
        inside, real = torch.from_numpy(batch.inside), torch.from_numpy(batch.real)
        hidden = ((~real)[:, None, None, :] * -10000.0).to(self.kind)
        with torch.no_grad():
            h = self.words[ids] + self.place[: ids.shape[1]]
            h = F.layer_norm(h, (WIDTH,), self.norm_weight, self.norm_bias, 1e-12).to(self.kind)
            for layer in self.layers[:FROZEN]:
                h = layer(h, hidden)
        h = h + self.marks[marks].to(self.kind)
        for layer in self.layers[FROZEN:]:
            h = layer(h, hidden)
        h = h.float()
        logits = self.span(h).masked_fill(~inside.unsqueeze(-1), -1e4)
        holds = self.holds(F.gelu(self.hidden(h[:, 0])))[:, 0]
        return logits[..., 0], logits[..., 1], holds

    def trained(self) -> dict[str, NDArray[np.float16]]:
        """What training changes, in half precision, by name: what ships."""
        own = ((n, p) for n, p in self.named_parameters() if p.requires_grad or n.startswith("span."))
        return {n: p.detach().numpy().astype(np.float16) for n, p in own}

    def take(self, trained: Mapping[str, NDArray[Any]]) -> None:
        """Put in what `trained` gave."""
        own = dict(self.named_parameters())
        with torch.no_grad():
            for name, value in trained.items():
                own[name].copy_(torch.from_numpy(np.asarray(value, dtype=np.float32)))
