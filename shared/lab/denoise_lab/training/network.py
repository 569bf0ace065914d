"""The reader's network for training: the arithmetic of `LlamaForCausalLM`, in fewer and larger operations.

A training step of the stock class spends most of its time outside matrix products on a CPU; this one takes about
half the time. `hugging_face` gives the very same weights as a stock model, and a test holds the two together.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import nn
from torch.nn import functional as F


@dataclass(frozen=True, slots=True)
class Shape:
    """The size of the network. A RoPE base of 500 lets heads that look a few tokens back form early.

    With it nothing is found that is more than some 1,400 tokens away, where the slowest pair has turned by more
    than half a circle; ``far`` is the base of the finished model, and of all stages that are not shallow.

    The blocks after the ``first`` ones begin as doing nothing: a shallow network learns to find a fact in half the
    time, and the later blocks then learn what is done with it.
    """

    vocabulary: int = 3072
    width: int = 256
    inner: int = 512
    layers: int = 6
    first: int = 4
    heads: int = 8
    rope: float = 500.0
    far: float = 10_000.0

    def config(self, tokenizer: Any, rope: float) -> Any:
        """The same as a `transformers.LlamaConfig`, with ``rope`` as RoPE base."""
        from transformers import LlamaConfig

        return LlamaConfig(
            vocab_size=self.vocabulary,
            hidden_size=self.width,
            intermediate_size=self.inner,
            num_hidden_layers=self.layers,
            num_attention_heads=self.heads,
            num_key_value_heads=self.heads,
            max_position_embeddings=16_384,
            rope_parameters={"rope_type": "default", "rope_theta": rope},
            rms_norm_eps=1e-6,
            attention_bias=True,
            tie_word_embeddings=True,
            bos_token_id=tokenizer.bos_token_id,
            eos_token_id=tokenizer.eos_token_id,
            pad_token_id=tokenizer.pad_token_id,
        )


_ALIKE = 0.06  # the scale of the projections that begin as look-alikes
_FUSED = 300  # tokens of a row from which on the fused attention's backward pass is the faster one


class Block(nn.Module):
    def __init__(self, shape: Shape) -> None:
        super().__init__()
        width, self.heads = shape.width, shape.heads
        self.norm_1, self.norm_2 = (nn.Parameter(torch.ones(width)) for _ in range(2))
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.gate_up = nn.Linear(width, 2 * shape.inner, bias=False)
        self.down = nn.Linear(shape.inner, width, bias=False)

    @torch.no_grad()
    def look_alike(self) -> None:
        """Begins with queries equal to keys, and outputs that pass on what is seen: tokens look for their like."""
        q, k, v = self.qkv.weight.chunk(3)
        nn.init.normal_(q, 0, _ALIKE)
        k.copy_(q)
        nn.init.normal_(v, 0, _ALIKE)
        self.out.weight.copy_(v.T)

    @torch.no_grad()
    def look_back(self, rope: float) -> None:
        """Begins with head h looking h tokens back, all passing on the same part of it: a bag of recent words.

        Done with the biases alone: a query's bias is the key's, turned by h positions.
        """
        width = self.out.weight.shape[0]
        size = width // self.heads
        q, k, v = self.qkv.weight.chunk(3)
        q_bias, k_bias, _ = self.qkv.bias.chunk(3)
        rate = rope ** (-torch.arange(0, size, 2).float() / size)
        pull = torch.where(torch.arange(size // 2) < size // 6, 5.0, 1.0)  # the fast pairs tell neighbours apart
        strength = (pull * size**0.5).sqrt()
        for module in (q, k):
            nn.init.normal_(module, 0, 0.02)
        seen = torch.randn(size, width) * _ALIKE
        for h in range(self.heads):
            at = slice(h * size, (h + 1) * size)
            k_bias[at] = torch.cat((strength, torch.zeros(size // 2)))
            q_bias[at] = torch.cat((strength * (rate * h).cos(), -strength * (rate * h).sin()))
            v[at] = seen
            self.out.weight[:, at] = seen.T

    def forward(
        self, x: torch.Tensor, turn: tuple[torch.Tensor, torch.Tensor], mask: torch.Tensor
    ) -> torch.Tensor:
        rows, length, width = x.shape
        qkv = self.qkv(_norm(x, self.norm_1)).view(rows, length, 3, self.heads, width // self.heads)
        q, k, v = qkv.permute(2, 0, 3, 1, 4).unbind(0)
        seen = _attend(_turned(q, turn), _turned(k, turn), v, mask)
        x = x + self.out(seen.transpose(1, 2).reshape(rows, length, width))
        gate, up = self.gate_up(_norm(x, self.norm_2)).chunk(2, -1)
        out: torch.Tensor = x + self.down(F.silu(gate) * up)
        return out


class Network(nn.Module):
    """Token ids and segment numbers, both (rows, length), to logits' inputs (rows, length, width)."""

    def __init__(self, shape: Shape) -> None:
        super().__init__()
        self.shape = shape
        self.rope = shape.rope
        self.embedding = nn.Embedding(shape.vocabulary, shape.width)
        blocks = [Block(shape) for _ in range(shape.layers)]
        self.blocks = nn.ModuleList(blocks)
        self.norm = nn.Parameter(torch.ones(shape.width))
        for name, parameter in self.named_parameters():
            if parameter.dim() > 1:
                nn.init.normal_(parameter, 0, 0.02)
            elif name.endswith("bias"):
                nn.init.zeros_(parameter)
        blocks[0].look_back(shape.rope)
        for block in blocks[1:]:
            block.look_alike()
        for block in blocks[shape.first :]:
            nn.init.zeros_(block.out.weight)
            nn.init.zeros_(block.down.weight)

    def forward(self, ids: torch.Tensor, segments: torch.Tensor, depth: int | None = None) -> torch.Tensor:
        """A token sees earlier tokens of its own segment, so that several texts share a row without meeting.

        ``depth`` runs that many blocks only, in the lessons before the later ones are put to use.
        """
        length, size = ids.shape[1], self.shape.width // self.shape.heads
        rate = self.rope ** (-torch.arange(0, size, 2, device=ids.device).float() / size)
        angle = torch.arange(length, device=ids.device).float()[:, None] * rate
        x = self.embedding(ids)
        turn = (angle.cos().to(x.dtype), angle.sin().to(x.dtype))
        mask = None
        if len(segments) > 1 or length <= _FUSED:  # one row is one text, and needs no mask besides the causal one
            mask = segments[:, None, :, None] == segments[:, None, None, :]
            mask = mask & torch.ones(length, length, dtype=torch.bool, device=ids.device).tril()
        for block in list(self.blocks)[:depth]:
            x = block(x, turn, mask)
        return _norm(x, self.norm)


def _norm(x: torch.Tensor, gain: torch.Tensor) -> torch.Tensor:
    wide = x.float()
    return (wide * torch.rsqrt(wide.pow(2).mean(-1, keepdim=True) + 1e-6)).to(x.dtype) * gain


def _turned(x: torch.Tensor, turn: tuple[torch.Tensor, torch.Tensor]) -> torch.Tensor:
    (cos, sin), (a, b) = turn, x.chunk(2, -1)
    return torch.cat((a * cos - b * sin, b * cos + a * sin), -1)


def _attend(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, mask: torch.Tensor | None) -> torch.Tensor:
    if mask is None or q.shape[2] > _FUSED:
        return F.scaled_dot_product_attention(q, k, v, attn_mask=mask, is_causal=mask is None)
    scores = (q @ k.transpose(-1, -2)) * q.shape[-1] ** -0.5
    seen: torch.Tensor = scores.masked_fill(~mask, -1e4).float().softmax(-1).to(q.dtype) @ v
    return seen


def hugging_face(network: Network, tokenizer: Any) -> Any:
    """The same network as a stock `transformers.LlamaForCausalLM`, in the weights' own precision."""
    from transformers import LlamaForCausalLM

    model: Any = LlamaForCausalLM(network.shape.config(tokenizer, network.rope))
    model = model.to(network.norm.dtype)
    named = {"model.embed_tokens.weight": network.embedding.weight, "model.norm.weight": network.norm}
    for i, block in enumerate(network.blocks):
        assert isinstance(block, Block)
        at = f"model.layers.{i}."
        for part in ("weight", "bias"):
            q, k, v = getattr(block.qkv, part).chunk(3)
            named |= {f"{at}self_attn.{n}_proj.{part}": t for n, t in zip("qkv", (q, k, v), strict=True)}
            named[f"{at}self_attn.o_proj.{part}"] = getattr(block.out, part)
        gate, up = block.gate_up.weight.chunk(2)
        named |= {f"{at}mlp.gate_proj.weight": gate, f"{at}mlp.up_proj.weight": up}
        named[f"{at}mlp.down_proj.weight"] = block.down.weight
        named |= {
            f"{at}input_layernorm.weight": block.norm_1,
            f"{at}post_attention_layernorm.weight": block.norm_2,
        }
    missing, unknown = model.load_state_dict({n: t.detach() for n, t in named.items()}, strict=False)
    assert not unknown, unknown
    assert set(missing) <= {"lm_head.weight"}, missing
    model.tie_weights()
    return model.eval()
