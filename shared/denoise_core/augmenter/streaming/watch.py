"""What a stream shows of a draft while it is being written. Logic only; `streaming` does the rest."""

from __future__ import annotations

from dataclasses import replace
from typing import Protocol

from denoise_core.augmenter.drafting.when import When
from denoise_core.augmenter.memory import WorkingMemory
from denoise_core.augmenter.utility import Utility, without_effects
from denoise_core.errors import BudgetExceeded, is_mistake
from denoise_core.running.effects import Flow
from denoise_core.text.chunk import sentences
from denoise_core.types import Passage


class Watcher(Protocol):
    """Sees each piece of a draft. ``more`` and ``end`` give (what to show now, whether to go on)."""

    memory: WorkingMemory
    text: str  # of the draft, so far
    shown: str  # what the reader has in front of them

    def begin(self) -> bool:
        """A new draft begins; True when what was shown is thereby withdrawn."""
        ...

    def more(self, piece: str) -> Flow[tuple[str, bool]]: ...

    def end(self) -> Flow[tuple[str, bool]]: ...


class DraftFirst:
    """Shows the first draft that has any text, as it comes, and nothing of later ones."""

    def __init__(self) -> None:
        self.memory = WorkingMemory("")
        self.text = ""
        self.shown = ""
        self._over = False

    def begin(self) -> bool:
        self._over = bool(self.shown)
        self.text = ""
        return False

    def more(self, piece: str) -> Flow[tuple[str, bool]]:
        self.text += piece
        if self._over:
            return without_effects(("", True))
        self.shown += piece
        return without_effects((piece, True))

    def end(self) -> Flow[tuple[str, bool]]:
        return without_effects(("", True))


class HeldBack:
    """Shows a sentence when it is complete and passes; ends the draft at the first that does not pass.

    A sentence is complete when the next one has begun, so that an abbreviation's full stop does not cut it.
    """

    def __init__(self, utility: Utility, when: When | None = None) -> None:
        self.utility = utility
        self.when = when
        self.memory = WorkingMemory("")
        self.text = ""
        self.shown = ""
        self._at = 0  # characters of the draft that were judged

    def begin(self) -> bool:
        withdrawn = bool(self.shown)
        self.text = self.shown = ""
        self._at = 0
        return withdrawn

    def more(self, piece: str) -> Flow[tuple[str, bool]]:
        self.text += piece
        waiting = self.text[self._at :]
        ends = [s.end for s in sentences(Passage(waiting, "draft"))]
        return (yield from self._release(ends[:-1]))

    def end(self) -> Flow[tuple[str, bool]]:
        waiting = self.text[self._at :]
        return (yield from self._release([s.end for s in sentences(Passage(waiting, "draft"))]))

    def _release(self, ends: list[int]) -> Flow[tuple[str, bool]]:
        """Judge the waiting text up to each of ``ends`` in turn."""
        start, released = self._at, ""
        for end in ends:
            sentence = self.text[self._at : start + end]
            if sentence.strip() and not (yield from self._passes(sentence)):
                self.text = self.text[: start + end]
                return released, False
            self._at = start + end
            released += sentence
            self.shown += sentence
        return released, True

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
