"""Prompts with a kept beginning are resumed; others run behind what all share, and are kept for the next one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from denoise_core.local.kv_cache.prefix_cache import PrefixCache
from denoise_core.local.kv_cache.prefix_reader import PrefixReader
from denoise_core.local.kv_cache.recording import (
    NO_PREFIX,
    CachedPrefix,
    run_after_pasts,
)
from denoise_core.local.layout import TokenPrompt
from denoise_core.local.partial_forward import (
    model_inputs,
    nearly_equal,
    pooling_function,
    run_in_batches,
)

Floats = NDArray[np.float32]

# Tokens saved, from which on a pass for what prompts share pays.
MIN_SHARED_TOKENS = 64


class PrefixReuse(PrefixReader):
    """States of prompts, of which only the tokens behind a kept beginning are run.

    The tokens that all prompts of a call begin with (instruction, chat template) are run once.
    """

    def read_states(
        self,
        prompts: Sequence[TokenPrompt],
        layers: Sequence[int],
        pooling: str = "last",
        *,
        keeps_prefixes: bool = True,
    ) -> list[tuple[list[int], dict[int, Floats]]]:
        """Pooled states in batches: ``(positions in prompts, states by layer)``.

        Prefixes are looked up and kept for reads of a single layer, unless ``keeps_prefixes`` is false.
        """
        top_layer = max(layers)
        pasts = [NO_PREFIX] * len(prompts)
        kept_lengths = [0] * len(prompts)
        if keeps_prefixes and len(layers) == 1:
            for row, prompt in enumerate(prompts):
                # The last token has to be run to have a state.
                prefix_length = min(prompt.prefix_length, len(prompt.ids) - 1)
                key = self.cache_key(prompt.ids[:prefix_length], top_layer)
                cached_prefix = self.cache.get(key)
                if cached_prefix is None:
                    kept_lengths[row] = prefix_length
                else:
                    pasts[row] = cached_prefix
        new_rows = [row for row, past in enumerate(pasts) if past is NO_PREFIX]
        shared_past = self._read_shared_head(
            [prompts[row] for row in new_rows], top_layer
        )
        for row in new_rows:
            pasts[row] = shared_past
        # Rows with as long a past are next to each other, so that batches have little padding.
        rows = sorted(range(len(prompts)), key=lambda row: pasts[row].tokens)

        def run_batch(positions: list[int]) -> dict[int, Floats]:
            batch_rows = [rows[position] for position in positions]
            batch_prompts = [prompts[row] for row in batch_rows]
            pool = pooling_function(pooling, batch_prompts)
            states, prefixes = run_after_pasts(
                self.partial_forward,
                batch_prompts,
                [pasts[row] for row in batch_rows],
                top_layer,
                self.pad,
                kept_spans=[(0, kept_lengths[row]) for row in batch_rows],
                pools=dict.fromkeys(layers, pool),
            )
            for prompt, prefix in zip(batch_prompts, prefixes, strict=True):
                if prefix.tokens:
                    key = self.cache_key(prompt.ids[: prefix.tokens], top_layer)
                    self.cache.put(key, prefix)
            return {layer: states[layer].cpu().numpy() for layer in layers}

        new_lengths = [len(prompts[row].ids) - pasts[row].tokens for row in rows]
        batches = run_in_batches(new_lengths, self.max_tokens, run_batch)
        return [
            ([rows[position] for position in positions], states)
            for positions, states in batches
        ]

    def _read_shared_head(
        self, prompts: Sequence[TokenPrompt], layer: int
    ) -> CachedPrefix:
        """What all prompts have before their passage; `NO_PREFIX` where it is not worth a pass."""
        heads = [prompt.ids[: prompt.passage_span[0]] for prompt in prompts]
        head_ids = min(heads, key=len, default=())
        is_shared = all(prompt.ids[: len(head_ids)] == head_ids for prompt in prompts)
        if not is_shared or len(head_ids) * len(prompts) < MIN_SHARED_TOKENS:
            return NO_PREFIX
        (shared_past,) = self.read_prefixes(NO_PREFIX, (), [head_ids], layer)
        return shared_past

    def _try_layer(self, layer: int) -> str | None:
        """Eight and five tokens kept, three and two more resumed, against the same prompts run whole."""
        generator = torch.Generator().manual_seed(1)
        vocabulary = int(self.partial_forward.config.vocab_size)
        ids = torch.randint(vocabulary, (11,), generator=generator).tolist()
        prompts = [
            TokenPrompt(tuple(ids), (0, 8), (8, 11), 8),
            TokenPrompt(tuple(ids[3:10]), (0, 5), (5, 7), 5),
        ]
        inputs = model_inputs(self.partial_forward, prompts, self.pad)
        pool = pooling_function("last", prompts)
        by_layer = self.partial_forward.read_layers(inputs, [layer], pool)
        batched, single = [
            PrefixReuse(
                self.partial_forward,
                PrefixCache(1 << 30),
                lambda trial_layer: trial_layer,
                1 << 10,
                self.pad,
            )
            for _ in range(2)
        ]
        for _ in range(2):  # the second time from kept prefixes
            for rows, states in batched.read_states(prompts, [layer]):
                actual = torch.from_numpy(states[layer])
                if not nearly_equal(actual, by_layer[layer][rows].cpu()):
                    return (
                        "this model's states are not the same with kept keys and values"
                    )
        single.read_states(prompts[1:], [layer])
        # Padding moves the keys of a model that takes no position ids, and the next batch is padded otherwise.
        key = batched.cache_key(prompts[1].ids[:5], layer)
        padded_prefix: Any = batched.cache.get(key)
        unpadded_prefix: Any = single.cache.get(key)
        kept_blocks = zip(padded_prefix.blocks, unpadded_prefix.blocks, strict=True)
        for padded, unpadded in kept_blocks:
            for padded_states, unpadded_states in zip(padded, unpadded, strict=True):
                if not nearly_equal(padded_states.flatten(), unpadded_states.flatten()):
                    return "this model's keys and values depend on the padding of the batch they were computed in"
        return None
