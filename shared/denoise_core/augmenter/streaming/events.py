"""What a stream of the loop shows, and what a model needs to be streamed."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol, TypeAlias, runtime_checkable

from denoise_core.augmenter.answer import Answer
from denoise_core.augmenter.memory import Reason
from denoise_core.protocols import LLM
from denoise_core.types import Message, Usage


@runtime_checkable
class StreamingLLM(LLM, Protocol):
    """An LLM that can also hand out its reply in pieces, and at the end, if it knows it, the usage."""

    def stream(self, messages: Sequence[Message]) -> Iterator[str | Usage]:
        """Pieces of the reply's text as they come, and what was used."""
        ...

    def astream(self, messages: Sequence[Message]) -> AsyncIterator[str | Usage]:
        """The same without blocking the event loop."""
        ...


@dataclass(frozen=True, slots=True)
class Text:
    """More of what is shown: pieces of the draft, or whole sentences that passed."""

    text: str


@dataclass(frozen=True, slots=True)
class Restarted:
    """What was shown so far is withdrawn; a new draft begins."""

    reasons: tuple[Reason, ...] = ()


@dataclass(frozen=True, slots=True)
class Finished:
    """What was shown is the answer; its outcome says how far it can be trusted."""

    answer: Answer


@dataclass(frozen=True, slots=True)
class Revised:
    """The answer is another text than the one shown; its outcome says how far it can be trusted."""

    answer: Answer


StreamEvent: TypeAlias = Text | Restarted | Finished | Revised
"""What a stream of an answer yields; the last one is `Finished` or `Revised`."""
Emit: TypeAlias = Callable[[StreamEvent], None]
