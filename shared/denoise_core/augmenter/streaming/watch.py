"""What a stream shows of a draft while it is being written. Logic only; `streaming` does the rest."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Protocol

from denoise_core.augmenter.drafting.when import When
from denoise_core.augmenter.memory import WorkingMemory
from denoise_core.augmenter.utility import Utility, without_effects
from denoise_core.errors import BudgetExceeded, is_mistake
from denoise_core.running.effects import Flow
from denoise_core.support.citing import uncited
from denoise_core.text.chunk import sentences
from denoise_core.types import Passage

_LONG = 2000  # characters without the end of a sentence, from which on not every piece is looked at


class Watcher(Protocol):
    """Sees each piece of a draft. ``more`` and ``end`` give (what to show now, whether to go on)."""

    memory: WorkingMemory

    @property
    def text(self) -> str:
        """Of the draft, so far."""
        ...

    @property
    def shown(self) -> str:
        """What the reader has in front of them."""
        ...

    def begin(self) -> bool:
        """A new draft begins; True when what was shown is thereby withdrawn."""
        ...

    def more(self, piece: str) -> Flow[tuple[str, bool]]: ...

    def end(self) -> Flow[tuple[str, bool]]: ...


class DraftFirst:
    """Shows the first draft that has any text, as it comes, and nothing of later ones."""

    def __init__(self) -> None:
        self.memory = WorkingMemory("")
        self._text: list[str] = []
        self._shown: list[str] = []
        self._over = False

    @property
    def text(self) -> str:
        return "".join(self._text)

    @property
    def shown(self) -> str:
        return "".join(self._shown)

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


class HeldBack:
    """Shows a sentence when it is complete and passes; ends the draft at the first that does not pass.

    A sentence is complete when the next one has begun, so that an abbreviation's full stop does not cut it. A
    line that only cites is judged with the sentence before it: alone it says nothing that could hold.
    """

    def __init__(self, utility: Utility, when: When | None = None) -> None:
        self.utility = utility
        self.when = when
        self.memory = WorkingMemory("")
        self._judged: list[str] = []
        self._shown: list[str] = []
        self._waiting: list[str] = []
        self._length = self._looked = 0  # of what waits: now, and when sentences were last looked for

    @property
    def text(self) -> str:
        return "".join((*self._judged, *self._waiting))

    @property
    def shown(self) -> str:
        return "".join(self._shown)

    def begin(self) -> bool:
        withdrawn = bool(self._shown)
        self._judged, self._shown = [], []
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
        ends = [s.end for s in sentences(Passage(waiting, "draft"))]
        at = 0
        released: list[str] = []
        for end in ends if last else ends[:-1]:
            sentence = waiting[at:end]
            if sentence.strip() and not (yield from self._passes(self._claim(sentence))):
                self._judged.append(sentence)
                self._waits("")
                return "".join(released), False
            at = end
            self._judged.append(sentence)
            self._shown.append(sentence)
            released.append(sentence)
        self._waits(waiting[at:])
        return "".join(released), True

    def _claim(self, sentence: str) -> str:
        """The sentence, behind the one before it when it has no words of its own."""
        if self._judged and not re.search(r"\w", uncited(sentence)):
            return self._judged[-1] + sentence
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
        return verdict.holds
