"""The ways to answer from a long context that the speed benchmarks compare, on a model of random weights.

A context is an instruction, chunks and a question, all random ids. Every path ends in the state of the
whole model's last token, from which an answer would start; decoding is the same for all and left out.
`Operations` are the bounds from what each asks for.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from transformers import LlamaConfig, LlamaModel

from denoise_core.local.batching import batch_by_length
from denoise_core.local.kv_cache.prefix_cache import PrefixCache
from denoise_core.local.kv_cache.reuse import PrefixReuse
from denoise_core.local.layout import TokenPrompt
from denoise_core.local.partial_forward import (
    PartialForward,
    get_partial_forward,
    model_inputs,
    pooling_function,
)

INSTRUCTION, QUERY = 20, 30  # tokens


@dataclass(frozen=True)
class Shape:
    """A Llama-shaped decoder."""

    blocks: int
    layer: int  # where END reads
    width: int
    inner: int
    heads: int
    kv_heads: int
    vocabulary: int = 8000

    def config(self, *, blocks: int | None = None) -> Any:
        made: Any = LlamaConfig
        return made(
            vocab_size=self.vocabulary,
            hidden_size=self.width,
            intermediate_size=self.inner,
            num_hidden_layers=blocks or self.blocks,
            num_attention_heads=self.heads,
            num_key_value_heads=self.kv_heads,
            max_position_embeddings=65536,
            attn_implementation="sdpa",
        )

    def build(self, *, blocks: int | None = None) -> LlamaModel:
        config = self.config(blocks=blocks)
        torch.manual_seed(0)
        usual = torch.get_default_dtype()
        torch.set_default_dtype(torch.bfloat16)
        try:
            model: LlamaModel = LlamaModel(config).eval()
            return model
        finally:
            torch.set_default_dtype(usual)


@dataclass
class Context:
    """``chunks`` of equal length that make about ``tokens`` tokens; the question is drawn anew by `ask`."""

    instruction: list[int]
    chunks: list[list[int]]
    question: list[int]
    draw: Callable[[int], list[int]]

    @classmethod
    def of(cls, tokens: int, chunks: int, vocabulary: int, seed: int) -> Context:
        rng = np.random.default_rng(seed)

        def draw(n: int) -> list[int]:
            return [int(i) for i in rng.integers(3, vocabulary, n)]

        size = (tokens - INSTRUCTION - QUERY) // chunks
        return cls(
            draw(INSTRUCTION), [draw(size) for _ in range(chunks)], draw(QUERY), draw
        )

    def ask(self) -> None:
        self.question = self.draw(QUERY)

    def prompts(self) -> list[TokenPrompt]:
        out = []
        for chunk in self.chunks:
            shared = len(self.instruction) + len(chunk)
            ids = (*self.instruction, *chunk, *self.question)
            out.append(
                TokenPrompt(
                    ids, (len(self.instruction), shared), (shared, len(ids)), shared
                )
            )
        return out

    def joined(self, keep: list[int]) -> list[int]:
        return (
            self.instruction
            + [i for n in sorted(keep) for i in self.chunks[n]]
            + self.question
        )


class Paths:
    """``max_tokens`` caps a scoring batch; the probe is random, which decides what is kept but not the cost."""

    def __init__(
        self,
        model: LlamaModel,
        layer: int,
        *,
        max_tokens: int = 4096,
        prefix_bytes: int = 8 << 30,
    ) -> None:
        self.model = model
        self.layer = layer
        self.max_tokens = max_tokens
        self.early: PartialForward = get_partial_forward(model)
        self.early.check_layer(layer)
        self.cache: PrefixCache = PrefixCache(prefix_bytes)
        self.reuse = PrefixReuse(
            self.early, self.cache, scope=lambda n: n, max_tokens=max_tokens, pad=0
        )
        assert self.reuse.find_problem(layer) is None
        self.probe = (
            np.random.default_rng(0)
            .normal(size=self.early.hidden_size)
            .astype(np.float32)
        )

    @torch.inference_mode()
    def whole(self, ids: list[int]) -> object:
        """One forward pass of all blocks over ``ids``."""
        return self.model(
            input_ids=torch.tensor([ids], device=self.early.device), use_cache=False
        )

    def uncached(self, prompts: list[TokenPrompt], layer: int) -> np.ndarray:
        """Scores without keeping anything."""
        scores = np.zeros(len(prompts), dtype=np.float32)
        for batch in batch_by_length([len(p.ids) for p in prompts], self.max_tokens):
            some = [prompts[i] for i in batch]
            pool = pooling_function("last", some, is_causal=True)
            inputs = model_inputs(self.early, some, 0)
            found = self.early.read_layers(inputs, [layer], pool)[layer]
            scores[batch] = found.float().cpu().numpy() @ self.probe
        return scores

    def scores(self, prompts: list[TokenPrompt]) -> np.ndarray:
        """Scores through the prefix cache: what is not there is computed and kept."""
        scores = np.zeros(len(prompts), dtype=np.float32)
        for rows, states in self.reuse.read_states(prompts, [self.layer]):
            scores[rows] = states[self.layer] @ self.probe
        return scores

    def end(self, context: Context, keep: float = 0.3) -> None:
        """Score every chunk, then one whole pass over the best."""
        best = self._best(self.scores(context.prompts()), keep)
        self.whole(context.joined(best))

    def discriminate(self, context: Context, keep: float = 0.3) -> None:
        """LLM-Discrim: every chunk through the whole model, then one whole pass over those it accepts."""
        self.whole(
            context.joined(
                self._best(
                    self.uncached(context.prompts(), self.early.block_count), keep
                )
            )
        )

    @staticmethod
    def _best(scores: np.ndarray, keep: float) -> list[int]:
        return [
            int(i) for i in np.argsort(-scores)[: max(1, round(keep * len(scores)))]
        ]


@dataclass(frozen=True)
class Operations:
    """Multiplications that each way asks for, over those of one full forward pass: linear maps, and attention
    counted causally.

    Of a context of ``tokens`` in ``chunks``, of which ``keep`` are answered from.
    """

    shape: Shape
    tokens: int
    chunks: int = 10
    keep: int = 3

    @property
    def exact_cold(self) -> float:
        return (self._score() + self._answer_whole()) / self._full()

    @property
    def exact_warm(self) -> float:
        return (self._score_again() + self._answer_whole()) / self._full()

    def block(self, new: int, past: int) -> float:
        """One block over ``new`` tokens behind ``past`` ones."""
        s = self.shape
        each = 2 * s.width * s.width + 3 * s.width * s.inner
        seen = new * past + new * (new + 1) / 2
        keys_and_values = 2 * s.width * (s.width // s.heads * s.kv_heads)
        return new * (each + keys_and_values) + 2 * seen * s.width

    def _size(self) -> int:
        return (self.tokens - INSTRUCTION - QUERY) // self.chunks

    def _kept(self) -> int:
        return INSTRUCTION + self.keep * self._size()

    def _full(self) -> float:
        return self.shape.blocks * self.block(self.tokens, 0)

    def _score(self) -> float:
        prompt = INSTRUCTION + self._size() + QUERY
        return self.chunks * self.shape.layer * self.block(prompt, 0)

    def _score_again(self) -> float:
        past = INSTRUCTION + self._size()
        return self.chunks * self.shape.layer * self.block(QUERY, past)

    def _answer_whole(self) -> float:
        return self.shape.blocks * self.block(self._kept() + QUERY, 0)
