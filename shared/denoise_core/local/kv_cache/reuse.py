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
        early: PartialForward,
        cache: PrefixCache,
        scope: Callable[[int], Hashable],
        max_tokens: int,
        pad: int,
    ) -> None:
        self.partial_forward = early
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
                else self._try(layer)
            )
        return self._tried[layer]

    def read_states(
        self, prompts: Sequence[TokenPrompt], layer: int
    ) -> list[tuple[list[int], Floats]]:
        """Pooled last-token states in batches: ``(positions in prompts, states)``."""
        shared = [
            min(p.prefix_length, len(p.ids) - 1) for p in prompts
        ]  # the last token has to be run to have a state
        hits: dict[int, CachedPrefix] = {}
        missed: list[int] = []
        for i, (prompt, n) in enumerate(zip(prompts, shared, strict=True)):
            kept = self.cache.get(self._key(prompt, n, layer))
            if kept is None:
                missed.append(i)
            else:
                hits[i] = kept
        out: list[tuple[list[int], Floats]] = []
        for rows, states in self._recorded(
            [(prompts[i], shared[i]) for i in missed], layer
        ):
            out.append(([missed[row] for row in rows], states))

        def resumed(rows: list[int]) -> Floats:
            rest = [prompts[i].ids[shared[i] :] for i in rows]
            return to_numpy(
                resume_prefixes(
                    self.partial_forward,
                    [hits[i] for i in rows],
                    rest,
                    layer,
                    self.space,
                )
            )

        by_rest: dict[
            int, list[int]
        ] = {}  # prompts that are resumed together have as many tokens left
        for i in sorted(hits, key=lambda i: hits[i].tokens):
            by_rest.setdefault(len(prompts[i].ids) - shared[i], []).append(i)
        for length, same in sorted(by_rest.items()):
            room = max(1, self.max_tokens // length)
            for at in range(0, len(same), room):
                out += run_halving(same[at : at + room], resumed)
        return out

    def _recorded(
        self, wanted: Sequence[tuple[TokenPrompt, int]], layer: int
    ) -> list[tuple[list[int], Floats]]:
        """Run prompts whole, in batches, and keep so many of each one's first tokens: `states`."""

        def whole(rows: list[int]) -> Floats:
            prompts, shared = zip(*(wanted[i] for i in rows), strict=True)
            states, kept = record_prefixes(
                self.partial_forward, prompts, shared, layer, self.pad
            )
            for prompt, n, prefix in zip(prompts, shared, kept, strict=True):
                self.cache.put(self._key(prompt, n, layer), prefix)
            return to_numpy(states)

        return run_in_batches(
            self.partial_forward,
            [len(p.ids) for p, _ in wanted],
            self.max_tokens,
            whole,
        )

    def _key(self, prompt: TokenPrompt, shared: int, layer: int) -> Hashable:
        return self.scope(layer), np.array(
            prompt.ids[:shared], dtype=np.int64
        ).tobytes()

    def _try(self, layer: int) -> str | None:
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
            wanted = self.partial_forward.read_layers(
                model_inputs(self.partial_forward, prompts, self.pad), [layer], pool
            )[layer]
            first, kept = record_prefixes(
                self.partial_forward, prompts, [8, 5], layer, self.pad
            )
            then = resume_prefixes(
                self.partial_forward, kept, [ids[8:], ids[8:]], layer, self.space
            )
            _, (alone,) = record_prefixes(
                self.partial_forward, prompts[1:], [5], layer, self.pad
            )
        except Exception as error:  # whatever a foreign model makes of a cache of plain keys and values
            return f"this model's past is not plain keys and values ({type(error).__name__}: {error})"
        if not (nearly_equal(first, wanted) and nearly_equal(then, wanted)):
            return "this model's states are not the same with kept keys and values"
        # Padding moves the keys of a model that takes no position ids, and the next batch is padded otherwise.
        blocks = zip(alone.blocks, kept[1].blocks, strict=True)
        if not all(
            nearly_equal(a.flatten(), b.flatten())
            for here, there in blocks
            for a, b in zip(here, there, strict=True)
        ):
            return "this model's keys and values depend on the padding of the batch they were computed in"
        return None


def to_numpy(states: torch.Tensor) -> Floats:
    return np.asarray(states.cpu().numpy(), dtype=np.float32)
