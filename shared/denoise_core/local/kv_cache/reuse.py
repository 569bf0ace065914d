"""Prompts with a kept beginning are resumed, the others run whole and are kept for the next question."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from typing import TYPE_CHECKING

import numpy as np
import torch
from numpy.typing import NDArray

from denoise_core.local.kv_cache.recording import (
    BatchBuffer,
    CachedPrefix,
    record_prefixes,
    resume_prefixes,
)
from denoise_core.local.layout import TokenPrompt
from denoise_core.local.partial_forward import (
    model_inputs,
    nearly_equal,
    pooling_function,
    run_halving,
    run_in_batches,
)

if TYPE_CHECKING:
    from denoise_core.local.kv_cache.prefix_cache import PrefixCache
    from denoise_core.local.partial_forward import PartialForward

Floats = NDArray[np.float32]


class PrefixReuse:
    """One model's use of a `PrefixCache`. ``scope(layer)`` is all that decides keys and values besides the tokens.

    ``off`` says why this model's prefixes cannot be kept, or is None: found out by trying, once. Call under
    the model's lock.
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
        self.space = BatchBuffer()
        self._tried: dict[int, str | None] = {}

    def disabled_reason(self, layer: int) -> str | None:
        """Why nothing can be kept at ``layer``, or None; a model's past may be more than keys and values."""
        if layer not in self._tried:
            self._tried[layer] = (
                "layer 0 is the embeddings, which need no keeping"
                if layer == 0
                else self._find_problem(layer)
            )
        return self._tried[layer]

    def read_states(
        self, prompts: Sequence[TokenPrompt], layer: int
    ) -> list[tuple[list[int], Floats]]:
        """Pooled last-token states in batches: ``(positions in prompts, states)``."""
        prefix_lengths = [
            min(prompt.prefix_length, len(prompt.ids) - 1) for prompt in prompts
        ]  # the last token has to be run to have a state
        cached_prefixes: dict[int, CachedPrefix] = {}
        missing_rows: list[int] = []
        for row_index, (prompt, prefix_length) in enumerate(
            zip(prompts, prefix_lengths, strict=True)
        ):
            cached_prefix = self.cache.get(
                self._cache_key(prompt, prefix_length, layer)
            )
            if cached_prefix is None:
                missing_rows.append(row_index)
            else:
                cached_prefixes[row_index] = cached_prefix
        batch_states: list[tuple[list[int], Floats]] = []
        for rows, states in self._record_missing(
            [
                (prompts[row_index], prefix_lengths[row_index])
                for row_index in missing_rows
            ],
            layer,
        ):
            batch_states.append(([missing_rows[row] for row in rows], states))

        def resume_rows(rows: list[int]) -> Floats:
            suffixes = [
                prompts[row_index].ids[prefix_lengths[row_index] :]
                for row_index in rows
            ]
            return to_numpy(
                resume_prefixes(
                    self.partial_forward,
                    [cached_prefixes[row_index] for row_index in rows],
                    suffixes,
                    layer,
                    self.space,
                )
            )

        by_rest: dict[
            int, list[int]
        ] = {}  # prompts that are resumed together have as many tokens left
        for row_index in sorted(
            cached_prefixes, key=lambda row_index: cached_prefixes[row_index].tokens
        ):
            by_rest.setdefault(
                len(prompts[row_index].ids) - prefix_lengths[row_index], []
            ).append(row_index)
        for length, same_length_rows in sorted(by_rest.items()):
            rows_each = max(1, self.max_tokens // length)
            for batch_start in range(0, len(same_length_rows), rows_each):
                batch_states += run_halving(
                    same_length_rows[batch_start : batch_start + rows_each], resume_rows
                )
        return batch_states

    def _record_missing(
        self, expected_states: Sequence[tuple[TokenPrompt, int]], layer: int
    ) -> list[tuple[list[int], Floats]]:
        """Run prompts whole, in batches, and keep so many of each one's first tokens: `states`."""

        def run_whole(rows: list[int]) -> Floats:
            prompts, prefix_lengths = zip(
                *(expected_states[row_index] for row_index in rows), strict=True
            )
            states, cached_prefix = record_prefixes(
                self.partial_forward, prompts, prefix_lengths, layer, self.pad
            )
            for prompt, prefix_length, prefix in zip(
                prompts, prefix_lengths, cached_prefix, strict=True
            ):
                self.cache.put(self._cache_key(prompt, prefix_length, layer), prefix)
            return to_numpy(states)

        return run_in_batches(
            self.partial_forward,
            [len(prompt.ids) for prompt, _ in expected_states],
            self.max_tokens,
            run_whole,
        )

    def _cache_key(
        self, prompt: TokenPrompt, prefix_lengths: int, layer: int
    ) -> Hashable:
        return self.scope(layer), np.array(
            prompt.ids[:prefix_lengths], dtype=np.int64
        ).tobytes()

    def _find_problem(self, layer: int) -> str | None:
        """Eight and five tokens kept, three more resumed, against the same prompts run whole."""
        generator = torch.Generator().manual_seed(1)
        ids = torch.randint(
            int(self.partial_forward.config.vocab_size), (11,), generator=generator
        ).tolist()
        prompts = [
            TokenPrompt(tuple(ids), (0, 8), (8, 11), 8),
            TokenPrompt(tuple(ids[3:]), (0, 5), (5, 8), 5),
        ]
        pool = pooling_function("last", prompts)
        try:
            expected_states = self.partial_forward.read_layers(
                model_inputs(self.partial_forward, prompts, self.pad), [layer], pool
            )[layer]
            first_states, cached_prefix = record_prefixes(
                self.partial_forward, prompts, [8, 5], layer, self.pad
            )
            resumed_states = resume_prefixes(
                self.partial_forward,
                cached_prefix,
                [ids[8:], ids[8:]],
                layer,
                self.space,
            )
            _, (unpadded_prefix,) = record_prefixes(
                self.partial_forward, prompts[1:], [5], layer, self.pad
            )
        except Exception as error:  # whatever a foreign model makes of a cache of plain keys and values
            return f"this model's past is not plain keys and values ({type(error).__name__}: {error})"
        if not (
            nearly_equal(first_states, expected_states)
            and nearly_equal(resumed_states, expected_states)
        ):
            return "this model's states are not the same with kept keys and values"
        # Padding moves the keys of a model that takes no position ids, and the next batch is padded otherwise.
        blocks = zip(unpadded_prefix.blocks, cached_prefix[1].blocks, strict=True)
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
