"""The events of a streamed answer, and what a model needs so that its drafts can be streamed."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol, TypeAlias, runtime_checkable

from denoise_core.augmenter.answer import Answer
from denoise_core.protocols import LLM
from denoise_core.types import Message, Usage


@runtime_checkable
class StreamingLLM(LLM, Protocol):
    """An LLM that also yields its reply in pieces, and last, if it knows it, the token usage."""

    def stream(self, messages: Sequence[Message]) -> Iterator[str | Usage]:
        """Yield the reply's text piece by piece, then the token usage."""
        ...

    def astream(self, messages: Sequence[Message]) -> AsyncIterator[str | Usage]:
        """Stream without blocking the event loop."""
        ...


@dataclass(frozen=True, slots=True)
class TextReleased:
    """More text for the reader: a piece of the draft, or the whole checked answer."""

    text: str


@dataclass(frozen=True, slots=True)
class Finished:
    """The text shown is the answer; its outcome says how far it can be trusted."""

    answer: Answer


@dataclass(frozen=True, slots=True)
class Revised:
    """The answer is another text than the one shown: show it instead.

    ``shown_text`` is what was shown, "" where nothing was.
    """

    answer: Answer
    shown_text: str = ""


StreamEvent: TypeAlias = TextReleased | Finished | Revised
"""What a streamed answer yields. The last event is `Finished` or `Revised`."""
