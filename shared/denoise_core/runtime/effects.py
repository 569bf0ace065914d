"""What a flow may ask of the outside; `denoise_core.runtime.flow` carries it out.

What a flow computes itself is plain code between effects.

An effect may name who serves it (``llm``, ``retriever``, ``denoiser``); None means
the server passed to the driver. So a judge can be another model than the drafter.
"""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import dataclass, field
from typing import Any, TypeAlias, TypeVar

from denoise_core.errors import format_error
from denoise_core.protocols import LLM, Denoiser, Retriever
from denoise_core.result import DenoiseResult
from denoise_core.types import Message, Passage, Reply

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Complete:
    """Ask an LLM; the reply is a `Reply`."""

    messages: tuple[Message, ...]
    tag: str
    llm: LLM | None = field(default=None, repr=False, compare=False)


@dataclass(frozen=True, slots=True)
class Retrieve:
    """Ask a retriever; the reply is a tuple of `Passage`, best first."""

    query: str
    tag: str = "retrieve"
    retriever: Retriever | None = field(default=None, repr=False, compare=False)


@dataclass(frozen=True, slots=True)
class DenoiseCall:
    """Ask a denoiser; the reply is a `DenoiseResult`."""

    query: str
    passages: tuple[Passage, ...]
    tag: str = "denoise"
    denoiser: Denoiser | None = field(default=None, repr=False, compare=False)


SingleEffect: TypeAlias = Complete | Retrieve | DenoiseCall


@dataclass(frozen=True, slots=True)
class Batch:
    """Independent effects, carried out concurrently within the driver's bound.

    The reply is a list in the order of ``items``. An item that failed gives a
    `FailedItem`, so that one bad call never loses the others; the flow decides what a
    failure means.
    """

    items: tuple[SingleEffect, ...]


@dataclass(frozen=True, slots=True)
class FailedItem:
    """What a batch holds for an item that raised."""

    error: Exception

    def __str__(self) -> str:
        return format_error(self.error)


Effect: TypeAlias = SingleEffect | Batch
Flow: TypeAlias = Generator[Effect, Any, T]


def complete(
    messages: tuple[Message, ...], *, tag: str, llm: LLM | None = None
) -> Flow[Reply]:
    """``reply = yield from complete(messages, tag="draft")``."""
    reply: Reply = yield Complete(messages, tag, llm)
    return reply


def retrieve(
    query: str, *, tag: str = "retrieve", retriever: Retriever | None = None
) -> Flow[tuple[Passage, ...]]:
    """``passages = yield from retrieve(query)``."""
    passages: tuple[Passage, ...] = yield Retrieve(query, tag, retriever)
    return passages


def denoise(
    query: str,
    passages: tuple[Passage, ...],
    *,
    tag: str = "denoise",
    denoiser: Denoiser | None = None,
) -> Flow[DenoiseResult]:
    """``result = yield from denoise(query, passages)``."""
    result: DenoiseResult = yield DenoiseCall(query, passages, tag, denoiser)
    return result


def batch(items: tuple[SingleEffect, ...]) -> Flow[list[Any]]:
    """``replies = yield from batch(items)``; each is a reply or a `FailedItem`."""
    replies: list[Any] = yield Batch(items)
    return replies
