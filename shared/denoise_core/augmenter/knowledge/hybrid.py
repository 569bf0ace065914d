"""Several retrievers as one, by reciprocal rank fusion (Cormack et al. 2009)."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import replace

from denoise_core.augmenter.engine import titled
from denoise_core.errors import InputError
from denoise_core.protocols import Retriever
from denoise_core.types import Passage


class HybridRetriever:
    """The ``k`` best by the sum of ``1 / (constant + rank)`` over the retrievers, ranks from 1.

    Equal texts count as one passage, under the id it has where it was found first; ties keep that order.
    ``score`` is the sum. Raises `InputError` without retrievers, for ``k < 1`` or a negative ``constant``.
    """

    def __init__(self, retrievers: Sequence[Retriever], *, k: int = 10, constant: float = 60.0) -> None:
        if not retrievers or k < 1 or constant < 0:
            raise InputError("expected one retriever or more, k of 1 or more and constant of 0 or more")
        self.retrievers = tuple(retrievers)
        self.k = k
        self.constant = constant

    def retrieve(self, query: str) -> tuple[Passage, ...]:
        return self._fused([r.retrieve(query) for r in self.retrievers])

    async def aretrieve(self, query: str) -> tuple[Passage, ...]:
        return self._fused(await asyncio.gather(*(r.aretrieve(query) for r in self.retrievers)))

    def _fused(self, lists: Sequence[Sequence[Passage]]) -> tuple[Passage, ...]:
        passages: dict[str, Passage] = {}
        scores: dict[str, float] = {}
        for found in lists:
            seen: set[str] = set()
            for rank, passage in enumerate(found, 1):
                key = titled(passage)
                if key in seen:
                    continue
                seen.add(key)
                passages.setdefault(key, passage)
                scores[key] = scores.get(key, 0.0) + 1 / (self.constant + rank)
        ranked = sorted(scores, key=lambda key: -scores[key])
        return tuple(replace(passages[key], score=scores[key]) for key in ranked[: self.k])
