"""Who answers from what was kept, and when an answer counts as right."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Literal, Protocol

from denoise_core.embedded.reader.features import Row
from denoise_core.embedded.reader.shipped import span_reader
from denoise_core.embedded.reader.span_reader import Reads, SpanReader
from denoise_core.embedded.reader.spans import Logits
from denoise_core.errors import InputError
from denoise_core.evaluate.answers import exact_match, holds_answer
from denoise_core.question import Question
from denoise_core.types import Passage, Reply

Rule = Literal["contains", "exact"]
Judge = Callable[[Question, str], bool | None]  # None: it cannot be told


class Answerer(Protocol):
    """Answers a question from passages. ``name`` stands in the report."""

    @property
    def name(self) -> str:
        """What its answers stand under in a table."""
        ...

    def answer(self, question: str, passages: Sequence[Passage]) -> Reply:
        """The reply; an empty text when it finds no answer."""
        ...


class EmbeddedReader:
    """The reader of real text that ships: the span that answers, offline.

    Windows of a passage that was kept whole are read once, whatever way kept it.
    """

    name = "embedded reader"

    def __init__(self) -> None:
        self._reader: SpanReader | None = None

    def answer(self, question: str, passages: Sequence[Passage]) -> Reply:
        """The best span; an empty text where no passage seems to hold an answer."""
        if self._reader is None:
            own = span_reader()
            self._reader = SpanReader(
                _Remembering(own.network), own.tokens, read=own.read, calibration=own.calibration
            )
        found = self._reader.answers(question, passages, 1)
        return Reply(found[0].text if found else "", calls=0)


class _Remembering:
    """A network that has read a window once does not read it again; what it knows is of the newest question."""

    def __init__(self, inner: Reads) -> None:
        self.inner = inner
        self.known: dict[Row, Logits] = {}

    def logits(self, rows: Sequence[Row]) -> list[Logits]:
        new = list(dict.fromkeys(r for r in rows if r not in self.known))
        if new and len(new) == len(rows):  # a question not met before, or nothing left of it
            self.known.clear()
        if new:
            self.known |= dict(zip(new, self.inner.logits(new), strict=True))
        return [self.known[r] for r in rows]


def judge_of(right: Rule | Judge) -> Judge:
    """When an answer is right: it contains one of the answers, or is one, or what a function says."""
    if right == "contains":
        return lambda question, said: holds_answer(said, question.answers)
    if right == "exact":
        return lambda question, said: exact_match(said, question.answers)
    if callable(right):
        return right
    raise InputError(f"right={right!r}: expected 'contains', 'exact' or a function of question and reply")
