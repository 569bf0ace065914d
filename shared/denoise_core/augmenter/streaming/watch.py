"""What a stream of the loop shows, what a model needs to be streamed, and who says what to show of a draft."""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Protocol, TypeAlias, runtime_checkable

from denoise_core.augmenter.answer import Answer
from denoise_core.augmenter.memory import WorkingMemory
from denoise_core.augmenter.utility import Utility, When, without_effects
from denoise_core.errors import BudgetExceeded, is_mistake
from denoise_core.protocols import LLM
from denoise_core.runtime.effects import Flow
from denoise_core.support.citing import uncited
from denoise_core.text.chunk import sentence_spans
from denoise_core.types import Message, Passage, Usage

_LONG = 2000  # characters without the end of a sentence, from which on not every piece is looked at


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

    reasons: tuple[str, ...] = ()


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


class Watcher(ABC):
    """Sees each piece of a draft. ``more`` and ``end`` give (what to show now, whether to go on)."""

    def __init__(self) -> None:
        self.memory = WorkingMemory("")  # what the draft is written from
        self._text: list[str] = []
        self._shown: list[str] = []

    @property
    def text(self) -> str:
        """Of the draft, so far."""
        return "".join(self._text)

    @property
    def shown(self) -> str:
        """What the reader has in front of them."""
        return "".join(self._shown)

    @abstractmethod
    def begin(self) -> bool:
        """A new draft begins; True when what was shown is thereby withdrawn."""

    @abstractmethod
    def more(self, piece: str) -> Flow[tuple[str, bool]]: ...

    @abstractmethod
    def end(self) -> Flow[tuple[str, bool]]: ...


class DraftFirst(Watcher):
    """Shows the first draft that has any text, as it comes, and nothing of later ones."""

    def begin(self) -> bool:
        self._over = any(self._shown)
        self._text = []
        return False

    def more(self, piece: str) -> Flow[tuple[str, bool]]:
        self._text.append(piece)
        if self._over:
            return without_effects(("", True))
        self._shown.append(piece)
        return without_effects((piece, True))

    def end(self) -> Flow[tuple[str, bool]]:
        return without_effects(("", True))


class HeldBack(Watcher):
    """Shows a sentence when it is complete and passes; ends the draft at the first that does not pass.

    A sentence is complete when the next one has begun, so that an abbreviation's full stop does not cut it. A
    line that only cites is judged with the sentence before it: alone it says nothing that could hold.
    """

    def __init__(self, utility: Utility, when: When | None = None) -> None:
        super().__init__()
        self.utility = utility
        self.when = when
        self._waiting: list[str] = []
        self._length = self._looked = 0  # of what waits: now, and when sentences were last looked for

    @property
    def text(self) -> str:
        return "".join((*self._text, *self._waiting))

    def begin(self) -> bool:
        withdrawn = bool(self._shown)
        self._text, self._shown = [], []
        self._waits("")
        return withdrawn

    def more(self, piece: str) -> Flow[tuple[str, bool]]:
        self._waiting.append(piece)
        self._length += len(piece)
        if self._length > _LONG and self._length < self._looked * 1.25:
            return "", True  # a sentence without an end: looked at now and then, so that its time stays linear
        return (yield from self._release(last=False))

    def end(self) -> Flow[tuple[str, bool]]:
        return (yield from self._release(last=True))

    def _release(self, *, last: bool) -> Flow[tuple[str, bool]]:
        """Judge what waits, sentence by sentence; the last one only when the draft has ended."""
        waiting = "".join(self._waiting)
        ends = [s.end for s in sentence_spans(Passage(waiting, "draft"))]
        at = 0
        released: list[str] = []
        for end in ends if last else ends[:-1]:
            sentence = waiting[at:end]
            if sentence.strip() and not (yield from self._passes(self._claim(sentence))):
                self._text.append(sentence)
                self._waits("")
                return "".join(released), False
            at = end
            self._text.append(sentence)
            self._shown.append(sentence)
            released.append(sentence)
        self._waits(waiting[at:])
        return "".join(released), True

    def _claim(self, sentence: str) -> str:
        """The sentence, behind the one before it when it has no words of its own."""
        if self._text and not re.search(r"\w", uncited(sentence)):
            return self._text[-1] + sentence
        return sentence

    def _waits(self, text: str) -> None:
        self._waiting = [text]
        self._length = self._looked = len(text)

    def _passes(self, sentence: str) -> Flow[bool]:
        """What is not to be judged is shown; what a judge fails on is not, and the loop judges it again."""
        said = sentence.strip()
        if self.when is not None and not self.when(self.memory.question, said):
            return True
        memory = replace(self.memory, attempts=())
        try:
            verdict = yield from self.utility.assess(memory, said)
        except Exception as error:
            if isinstance(error, BudgetExceeded) or is_mistake(error):
                raise
            return False
        return verdict.passed or verdict.kind == "off_question"  # which the whole answers, not its part
