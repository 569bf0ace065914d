"""Prompts with a kept beginning are resumed; others run behind what all share, and are kept for the next one."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from typing import TYPE_CHECKING

import numpy as np
import torch
from numpy.typing import NDArray

from denoise_core.local.kv_cache.recording import CachedPrefix, run_after_pasts
from denoise_core.local.layout import TokenPrompt
from denoise_core.local.partial_forward import (
    TRIAL_TOO_LARGE,
    is_out_of_memory,
    model_inputs,
    nearly_equal,
    pooling_function,
    run_in_batches,
)

if TYPE_CHECKING:
    from denoise_core.local.kv_cache.prefix_cache import PrefixCache
    from denoise_core.local.partial_forward import PartialForward

Floats = NDArray[np.float32]

# Tokens saved, from which on a pass for what prompts share pays.
MIN_SHARED_TOKENS = 64


class PrefixReuse:
    """One model's use of a `PrefixCache`. ``scope(layer)`` is all that decides keys and values besides the tokens.

    The tokens that all prompts of a call begin with (instruction, chat template) are run once. Call under the
    model's lock.
    """

    def __init__(
        self,
        partial_forward: PartialForward,
        cache: PrefixCache,
        scope: Callable[[int], Hashable],
        max_tokens: int,
        pad: int,
    ) -> None:
        self.partial_forward = partial_forward
        self.cache = cache
        self.scope = scope
        self.max_tokens = max_tokens
        self.pad = pad
        self._tried: dict[int, str | None] = {}

    def disabled_reason(self, layer: int) -> str | None:
        """Why nothing can be kept at ``layer``, or None: a model's past may be more than keys and values.

        Found by a trial, once.
        """
        if layer == 0:
            return "layer 0 is the embeddings, which need no keeping"
        reason = self._tried.get(layer, TRIAL_TOO_LARGE)
        if reason == TRIAL_TOO_LARGE:  # not tried yet, or in vain
            reason = self._tried[layer] = self._find_problem(layer)
        return reason

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
        if not keeps_prefixes or len(layers) > 1:
            return self._run_new(range(len(prompts)), prompts, layers, pooling, ())
        # The last token has to be run to have a state.
        prefix_lengths = [
            min(prompt.prefix_length, len(prompt.ids) - 1) for prompt in prompts
        ]
        cached_prefixes: dict[int, CachedPrefix] = {}
        missing_rows: list[int] = []
        for row, prefix_length in enumerate(prefix_lengths):
            prefix_ids = prompts[row].ids[:prefix_length]
            cached_prefix = self.cache.get(self._cache_key(prefix_ids, layers[0]))
            if cached_prefix is None:
                missing_rows.append(row)
            else:
                cached_prefixes[row] = cached_prefix
        batch_states = self._run_new(
            missing_rows, prompts, layers, pooling, prefix_lengths
        )
        # Rows with as long a past are next to each other, so that batches have little padding.
        cached_rows = sorted(
            cached_prefixes, key=lambda row: cached_prefixes[row].tokens
        )
        pasts = [cached_prefixes[row] for row in cached_rows]
        return batch_states + self._run_rows(
            cached_rows, prompts, pasts, layers, pooling, ()
        )

    def _read_shared_head(
        self, prompts: Sequence[TokenPrompt], layer: int
    ) -> CachedPrefix | None:
        """Keys and values of what all prompts have before their passage; None where it is not worth a pass."""
        head_ids = min(
            (prompt.ids[: prompt.passage_span[0]] for prompt in prompts),
            key=len,
            default=(),
        )
        is_shared = all(prompt.ids[: len(head_ids)] == head_ids for prompt in prompts)
        if not is_shared or len(head_ids) * len(prompts) < MIN_SHARED_TOKENS:
            return None
        cache_key = self._cache_key(head_ids, layer)
        shared_past: CachedPrefix | None = self.cache.get(cache_key)
        if shared_past is None:
            head_prompt = TokenPrompt(head_ids, (0, 0), (0, 0), len(head_ids))
            _, (shared_past,) = run_after_pasts(
                self.partial_forward,
                [head_prompt],
                [None],
                [layer],
                self.pad,
                kept_lengths=[len(head_ids)],
            )
            self.cache.put(cache_key, shared_past)
        return shared_past

    def _run_new(
        self,
        rows: Sequence[int],
        prompts: Sequence[TokenPrompt],
        layers: Sequence[int],
        pooling: str,
        prefix_lengths: Sequence[int],
    ) -> list[tuple[list[int], dict[int, Floats]]]:
        """Run these rows of ``prompts`` behind what they share, as `_run_rows` does."""
        shared_past = self._read_shared_head(
            [prompts[row] for row in rows], max(layers)
        )
        pasts = [shared_past] * len(rows)
        return self._run_rows(rows, prompts, pasts, layers, pooling, prefix_lengths)

    def _run_rows(
        self,
        rows: Sequence[int],
        prompts: Sequence[TokenPrompt],
        pasts: Sequence[CachedPrefix | None],
        layers: Sequence[int],
        pooling: str,
        prefix_lengths: Sequence[int],
    ) -> list[tuple[list[int], dict[int, Floats]]]:
        """Run these rows of ``prompts`` behind their pasts, in batches.

        ``prefix_lengths`` of every prompt's first tokens are kept; () keeps nothing.
        """

        def run_batch(positions: list[int]) -> dict[int, Floats]:
            batch_prompts = [prompts[rows[position]] for position in positions]
            states, kept_prefixes = run_after_pasts(
                self.partial_forward,
                batch_prompts,
                [pasts[position] for position in positions],
                layers,
                self.pad,
                pooling=pooling,
                kept_lengths=[
                    prefix_lengths[rows[position]]
                    for position in positions
                    if prefix_lengths
                ],
            )
            for prompt, prefix in zip(batch_prompts, kept_prefixes, strict=False):
                prefix_ids = prompt.ids[: prefix.tokens]
                self.cache.put(self._cache_key(prefix_ids, layers[0]), prefix)
            return {layer: to_numpy(state) for layer, state in states.items()}

        new_lengths = []
        for row, past in zip(rows, pasts, strict=True):
            past_length = 0 if past is None else past.tokens
            new_lengths.append(len(prompts[row].ids) - past_length)
        batches = run_in_batches(new_lengths, self.max_tokens, run_batch)
        return [
            ([rows[position] for position in positions], s) for positions, s in batches
        ]

    def _cache_key(self, token_ids: Sequence[int], layer: int) -> Hashable:
        return self.scope(layer), np.array(token_ids, dtype=np.int64).tobytes()

    def _find_problem(self, layer: int) -> str | None:
        """Eight and five tokens kept, three and two more resumed, against the same prompts run whole."""
        generator = torch.Generator().manual_seed(1)
        ids = torch.randint(
            int(self.partial_forward.config.vocab_size), (11,), generator=generator
        ).tolist()
        prompts = [
            TokenPrompt(tuple(ids), (0, 8), (8, 11), 8),
            TokenPrompt(tuple(ids[3:10]), (0, 5), (5, 7), 5),
        ]
        pool = pooling_function("last", prompts, is_causal=True)

        def run_rows(
            rows: slice, pasts: list[CachedPrefix | None], kept_lengths: list[int]
        ) -> tuple[torch.Tensor, list[CachedPrefix]]:
            states, kept_prefixes = run_after_pasts(
                self.partial_forward,
                prompts[rows],
                pasts,
                [layer],
                self.pad,
                kept_lengths=kept_lengths,
            )
            return states[layer], kept_prefixes

        try:
            expected_states = self.partial_forward.read_layers(
                model_inputs(self.partial_forward, prompts, self.pad), [layer], pool
            )[layer]
            first_states, cached_prefixes = run_rows(slice(2), [None, None], [8, 5])
            resumed_states, _ = run_rows(slice(2), [*cached_prefixes], [])
            _, (unpadded_prefix,) = run_rows(slice(1, 2), [None], [5])
        except Exception as error:  # whatever a foreign model makes of a cache of plain keys and values
            if is_out_of_memory(error):
                return TRIAL_TOO_LARGE
            return f"this model's past is not plain keys and values ({type(error).__name__}: {error})"
        if not (
            nearly_equal(first_states, expected_states)
            and nearly_equal(resumed_states, expected_states)
        ):
            return "this model's states are not the same with kept keys and values"
        # Padding moves the keys of a model that takes no position ids, and the next batch is padded otherwise.
        blocks = zip(unpadded_prefix.blocks, cached_prefixes[1].blocks, strict=True)
        if not all(
            nearly_equal(left_states.flatten(), right.flatten())
            for unpadded_pair, padded_pair in blocks
            for left_states, right in zip(unpadded_pair, padded_pair, strict=True)
        ):
            return "this model's keys and values depend on the padding of the batch they were computed in"
        return None


def to_numpy(states: torch.Tensor) -> Floats:
    """The states as float32 on the CPU."""
    return np.asarray(states.cpu().numpy(), dtype=np.float32)
