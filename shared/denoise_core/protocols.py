"""The verbs: what a framework adapter or a user supplies. Structural: there is nothing to inherit."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from denoise_core.result import DenoiseResult
from denoise_core.types import Message, Passage, Reply


@runtime_checkable
class LLM(Protocol):
    """A chat model. Both forms are safe to call from several threads or tasks at once."""

    def complete(self, messages: Sequence[Message]) -> Reply: ...

    async def acomplete(self, messages: Sequence[Message]) -> Reply: ...


@runtime_checkable
class Varied(Protocol):
    """An LLM that can be told to sample: ``varied(n)`` is the same model with a temperature above zero and another
    seed for each ``n``, so that asking again can bring another text."""

    def varied(self, attempt: int) -> LLM: ...


@runtime_checkable
class Retriever(Protocol):
    """Finds passages for a query, best first."""

    def retrieve(self, query: str) -> Sequence[Passage]: ...

    async def aretrieve(self, query: str) -> Sequence[Passage]: ...


@runtime_checkable
class Scorer(Protocol):
    """Relevance of texts to a query.

    A score does not depend on how texts are batched, padded or ordered. A *listwise* scorer (BM25, whose
    word weights come from the list itself) may depend on which texts are in the list, and says so.
    """

    def score(self, query: str, texts: Sequence[str]) -> NDArray[np.float32]:
        """Relevance of each text, higher is better; float32 array of shape ``(len(texts),)``."""
        ...


@dataclass(frozen=True, slots=True)
class Scored:
    """Scores of one call, and what they cost.

    ``scores`` is float32 ``(n,)``; ``parts[i]`` is in how many windows text i was read, because it did not
    fit the model's window: its score is the best part's.
    """

    scores: NDArray[np.float32]
    parts: tuple[int, ...]

    @property
    def split(self) -> tuple[int, ...]:
        """Positions of the texts that had to be cut."""
        return tuple(i for i, n in enumerate(self.parts) if n > 1)


@runtime_checkable
class ReportsParts(Protocol):
    """A scorer that says which texts did not fit its window, as `ProbeScorer` does."""

    def scored(self, query: str, texts: Sequence[str]) -> Scored: ...


@runtime_checkable
class Denoiser(Protocol):
    """Takes the noise out of passages; the laws it keeps are in `denoise_core.testing.check_denoiser`."""

    def denoise(self, query: str, passages: Sequence[Passage]) -> DenoiseResult: ...

    async def adenoise(self, query: str, passages: Sequence[Passage]) -> DenoiseResult: ...
