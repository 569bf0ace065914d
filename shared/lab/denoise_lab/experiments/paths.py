"""The ways to answer from a long context that the speed benchmarks compare, on a model of random weights.

A context is an instruction, chunks and a question, all random token ids. Every way ends in the state of the full
model's last token, from which an answer would start; decoding is the same for all and left out. `OperationBounds`
are lower bounds of the cost, from the operations of each way.
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

INSTRUCTION_TOKENS, QUESTION_TOKENS = 20, 30
KEPT_SHARE = 0.3
BATCH_TOKENS = 4096  # the most of a scoring batch
PREFIX_BYTES = 8 << 30  # of the cache of chunks' keys and values


@dataclass(frozen=True)
class ModelShape:
    """The shape of a Llama decoder; END reads after ``layer`` blocks."""

    blocks: int
    layer: int
    width: int
    inner_width: int
    heads: int
    kv_heads: int
    vocabulary: int = 8000

    def build_model(self) -> LlamaModel:
        """Build the decoder with random bfloat16 weights, always the same."""
        # Its stubs lack the arguments.
        make_config: Any = LlamaConfig
        config = make_config(
            vocab_size=self.vocabulary,
            hidden_size=self.width,
            intermediate_size=self.inner_width,
            num_hidden_layers=self.blocks,
            num_attention_heads=self.heads,
            num_key_value_heads=self.kv_heads,
            max_position_embeddings=65536,
            attn_implementation="sdpa",
        )
        torch.manual_seed(0)
        usual_dtype = torch.get_default_dtype()
        torch.set_default_dtype(torch.bfloat16)
        try:
            model: LlamaModel = LlamaModel(config).eval()
            return model
        finally:
            torch.set_default_dtype(usual_dtype)


def chunk_length(context_tokens: int, chunk_count: int) -> int:
    """Tokens of each chunk in a context of so many tokens."""
    return (context_tokens - INSTRUCTION_TOKENS - QUESTION_TOKENS) // chunk_count


@dataclass
class TokenContext:
    """Chunks of equal length between an instruction and a question, as token ids."""

    instruction: list[int]
    chunks: list[list[int]]
    question: list[int]
    draw_ids: Callable[[int], list[int]]

    @classmethod
    def draw(
        cls, context_tokens: int, chunk_count: int, vocabulary: int, seed: int
    ) -> TokenContext:
        """Draw a context of about ``context_tokens`` tokens."""
        rng = np.random.default_rng(seed)

        def draw_ids(count: int) -> list[int]:
            return [int(token_id) for token_id in rng.integers(3, vocabulary, count)]

        length = chunk_length(context_tokens, chunk_count)
        instruction = draw_ids(INSTRUCTION_TOKENS)
        chunks = [draw_ids(length) for _ in range(chunk_count)]
        return cls(instruction, chunks, draw_ids(QUESTION_TOKENS), draw_ids)

    def draw_question(self) -> None:
        """Ask another question about the same chunks."""
        self.question = self.draw_ids(QUESTION_TOKENS)

    def scoring_prompts(self) -> list[TokenPrompt]:
        """One prompt per chunk: instruction, chunk, question."""
        prompts = []
        instruction_end = len(self.instruction)
        for chunk in self.chunks:
            prefix_end = instruction_end + len(chunk)
            ids = (*self.instruction, *chunk, *self.question)
            chunk_span = (instruction_end, prefix_end)
            question_span = (prefix_end, len(ids))
            prompts.append(TokenPrompt(ids, chunk_span, question_span, prefix_end))
        return prompts

    def answer_prompt(self, chunk_indices: list[int]) -> list[int]:
        """The ids of the instruction, these chunks in their order, and the question."""
        ids = list(self.instruction)
        for index in sorted(chunk_indices):
            ids += self.chunks[index]
        return ids + self.question

    def full_prompt(self) -> list[int]:
        """The ids with every chunk."""
        return self.answer_prompt(list(range(len(self.chunks))))


class AnswerPaths:
    """The ways to answer, on one model.

    The probe is random, which decides what is kept but not what it costs.

    Args:
        model: The decoder.
        layer: The layer that END reads.
    """

    def __init__(self, model: LlamaModel, layer: int) -> None:
        self.model = model
        self.layer = layer
        self.partial_forward: PartialForward = get_partial_forward(model)
        self.partial_forward.check_layer(layer)
        self.prefix_cache: PrefixCache = PrefixCache(PREFIX_BYTES)
        self.prefix_reuse = PrefixReuse(
            self.partial_forward,
            self.prefix_cache,
            scope=lambda key: key,
            max_tokens=BATCH_TOKENS,
            pad=0,
        )
        assert self.prefix_reuse.find_problem(layer) is None
        probe_shape = self.partial_forward.hidden_size
        random_probe = np.random.default_rng(0).normal(size=probe_shape)
        self.probe = random_probe.astype(np.float32)

    @torch.inference_mode()
    def run_full_model(self, ids: list[int]) -> object:
        """One forward pass of all blocks over ``ids``."""
        input_ids = torch.tensor([ids], device=self.partial_forward.device)
        return self.model(input_ids=input_ids, use_cache=False)

    def score_uncached(self, prompts: list[TokenPrompt], layer: int) -> np.ndarray:
        """Scores of the prompts at a layer, without a cache; shape ``(prompts,)``."""
        scores = np.zeros(len(prompts), dtype=np.float32)
        lengths = [len(prompt.ids) for prompt in prompts]
        for batch_indices in batch_by_length(lengths, BATCH_TOKENS):
            batch = [prompts[index] for index in batch_indices]
            pool = pooling_function("last", batch)
            inputs = model_inputs(self.partial_forward, batch, 0)
            states = self.partial_forward.read_layers(inputs, [layer], pool)[layer]
            scores[batch_indices] = states.float().cpu().numpy() @ self.probe
        return scores

    def score_cached(self, prompts: list[TokenPrompt]) -> np.ndarray:
        """Scores through the prefix cache, which is filled where it lacks a prefix; shape ``(prompts,)``."""
        scores = np.zeros(len(prompts), dtype=np.float32)
        for rows, states in self.prefix_reuse.read_states(prompts, [self.layer]):
            scores[rows] = states[self.layer] @ self.probe
        return scores

    def run_end(self, context: TokenContext) -> None:
        """END: score every chunk, then one full pass over the best."""
        scores = self.score_cached(context.scoring_prompts())
        self.run_full_model(context.answer_prompt(_best_chunks(scores)))

    def run_llm_discrim(self, context: TokenContext) -> None:
        """LLM-Discrim: every chunk through the full model, then one full pass over those it accepts."""
        block_count = self.partial_forward.block_count
        scores = self.score_uncached(context.scoring_prompts(), block_count)
        self.run_full_model(context.answer_prompt(_best_chunks(scores)))


def _best_chunks(scores: np.ndarray) -> list[int]:
    """Indices of the best `KEPT_SHARE` of the chunks, at least one."""
    count = max(1, round(KEPT_SHARE * len(scores)))
    best: list[int] = np.argsort(-scores)[:count].tolist()
    return best


@dataclass(frozen=True)
class OperationBounds:
    """Multiplications of END over those of one full forward pass: linear maps, and causal attention.

    Attributes:
        shape: The model.
        context_tokens: Tokens of the context.
        chunk_count: Chunks of the context.
        kept_count: Chunks that END answers from.
    """

    shape: ModelShape
    context_tokens: int
    chunk_count: int = 10
    kept_count: int = 3

    @property
    def cold_ratio(self) -> float:
        """END with an empty prefix cache."""
        prompt_tokens = INSTRUCTION_TOKENS + self._chunk_tokens + QUESTION_TOKENS
        return self._end_ratio(self._block_cost(prompt_tokens, 0))

    @property
    def warm_ratio(self) -> float:
        """END with every chunk in the prefix cache: only the question is read."""
        prefix_tokens = INSTRUCTION_TOKENS + self._chunk_tokens
        return self._end_ratio(self._block_cost(QUESTION_TOKENS, prefix_tokens))

    @property
    def _chunk_tokens(self) -> int:
        return chunk_length(self.context_tokens, self.chunk_count)

    def _end_ratio(self, chunk_block_cost: float) -> float:
        """END's cost over a full pass, given the cost of one block over one scoring prompt."""
        scoring_cost = self.chunk_count * self.shape.layer * chunk_block_cost
        kept_tokens = INSTRUCTION_TOKENS + self.kept_count * self._chunk_tokens
        answer_block_cost = self._block_cost(kept_tokens + QUESTION_TOKENS, 0)
        answer_cost = self.shape.blocks * answer_block_cost
        full_cost = self.shape.blocks * self._block_cost(self.context_tokens, 0)
        return (scoring_cost + answer_cost) / full_cost

    def _block_cost(self, new_tokens: int, past_tokens: int) -> float:
        """Multiplications of one block over ``new_tokens`` after ``past_tokens``."""
        width = self.shape.width
        kv_width = width // self.shape.heads * self.shape.kv_heads
        maps_per_token = 2 * width * width + 3 * width * self.shape.inner_width
        maps_per_token += 2 * width * kv_width
        attended_pairs = new_tokens * past_tokens + new_tokens * (new_tokens + 1) / 2
        return new_tokens * maps_per_token + 2 * attended_pairs * width
