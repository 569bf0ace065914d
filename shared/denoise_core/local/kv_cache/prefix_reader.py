"""Texts are read once behind what comes before them; their keys and values are kept in a `PrefixCache`."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Hashable, Sequence
from typing import TYPE_CHECKING

import numpy as np

from denoise_core.local.kv_cache.recording import (
    NO_PREFIX,
    CachedPrefix,
    run_after_pasts,
)
from denoise_core.local.layout import TokenPrompt
from denoise_core.local.partial_forward import (
    TRIAL_TOO_LARGE,
    is_out_of_memory,
    run_in_batches,
)

if TYPE_CHECKING:
    from denoise_core.local.kv_cache.prefix_cache import PrefixCache
    from denoise_core.local.partial_forward import PartialForward

Ids = Sequence[int]


class PrefixReader(ABC):
    """One model's use of a `PrefixCache`. Call under the model's lock.

    Args:
        partial_forward: The model.
        cache: Keeps keys and values.
        scope: Of a layer, all that decides keys and values besides the tokens.
        max_tokens: Tokens of a batch at most, padding included.
        pad: The padding's token id.
    """

    def __init__(
        self,
        partial_forward: PartialForward,
        cache: PrefixCache,
        scope: Callable[[int], Hashable],
        max_tokens: int,
        pad: int = 0,
    ) -> None:
        self.partial_forward = partial_forward
        self.cache = cache
        self.scope = scope
        self.max_tokens = max_tokens
        self.pad = pad
        self.tokens_run = 0  # through layers, for measurements
        self._problems: dict[int, str | None] = {}

    def find_problem(self, layer: int) -> str | None:
        """Why this model cannot be read like this up to ``layer``, or None. Found by a trial, once."""
        problem = self._problems.get(layer, TRIAL_TOO_LARGE)
        if problem != TRIAL_TOO_LARGE:
            return problem
        try:  # not tried yet, or in vain
            problem = self._try_layer(layer)
        except TimeoutError:  # nobody waits for it, which says nothing of the model
            raise
        except Exception as error:  # whatever a foreign model makes of masks and caches
            problem = TRIAL_TOO_LARGE
            if not is_out_of_memory(error):
                problem = (
                    "this model's past is not plain keys and values "
                    f"({type(error).__name__}: {error})"
                )
        self._problems[layer] = problem
        return problem

    @abstractmethod
    def _try_layer(self, layer: int) -> str | None:
        """Read random tokens both ways; returns how the values differ, or None."""

    def read_prefixes(
        self, past: CachedPrefix, past_ids: Ids, texts: Sequence[Ids], layer: int
    ) -> list[CachedPrefix]:
        """Keys and values of each text's own tokens behind ``past``, from the cache or read now.

        Texts do not see each other.
        """
        prefixes = {}
        missing_ids = {}
        keys = [self.cache_key(ids, layer, past_ids) for ids in texts]
        for key, ids in zip(keys, texts, strict=True):
            cached_prefix = self.cache.get(key)
            if cached_prefix is not None:
                prefixes[key] = cached_prefix
            elif len(ids):
                missing_ids[key] = ids
            else:
                prefixes[key] = NO_PREFIX
        missing_keys = list(missing_ids)

        def read_rows(rows: list[int]) -> None:
            row_keys = [missing_keys[row] for row in rows]
            prompts = []
            kept_spans = []
            for key in row_keys:
                prompt = TokenPrompt((*past_ids, *missing_ids[key]))
                prompts.append(prompt)
                kept_spans.append((past.tokens, len(prompt.ids)))
                self.tokens_run += len(missing_ids[key])
            _, kept = run_after_pasts(
                self.partial_forward,
                prompts,
                [past] * len(prompts),
                layer,
                self.pad,
                kept_spans=kept_spans,
            )
            for key, prefix in zip(row_keys, kept, strict=True):
                prefixes[key] = prefix
                self.cache.put(key, prefix)

        lengths = [past.tokens + len(ids) for ids in missing_ids.values()]
        run_in_batches(lengths, self.max_tokens, read_rows)
        return [prefixes[key] for key in keys]

    def cache_key(self, ids: Ids, layer: int, past_ids: Ids = ()) -> Hashable:
        """What the keys and values of ``ids`` behind ``past_ids`` are kept under."""
        all_ids = np.array([*past_ids, *ids], dtype=np.int64).tobytes()
        return self.scope(layer), len(past_ids), all_ids
