"""What S2A reports beyond kept and dropped text: how each passage fared, sentence by sentence."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from denoise_core.result import DenoiseResult
from denoise_core.types import Span

Kind = Literal["copied", "edited", "added", "question"]
Action = Literal["kept", "snapped", "repaired", "removed"]


@dataclass(frozen=True, slots=True)
class Sentence:
    """One sentence that a model wrote, against the source.

    ``start`` and ``end`` are characters of the model's own text (half-open); ``spans`` the source text it
    stands for. ``similarity`` lies in 0..1. ``reasons`` say why it counts as added, or name the words of an
    edited one that are not the source's. ``action`` is what was done with it: ``snapped`` and ``repaired`` show
    ``spans`` in its place, of an edited sentence and of an added one.
    """

    text: str
    start: int
    end: int
    kind: Kind
    spans: tuple[Span, ...] = ()
    similarity: float = 0.0
    reasons: tuple[str, ...] = ()
    action: Action = "kept"


@dataclass(frozen=True, slots=True)
class Report:
    """How one passage fared.

    ``calls`` is the number of calls it took part in: 0 when it was skipped, more than 1 when it was too long
    for one and was split. ``notes`` name everything unusual that did not lose the reply; ``problem`` is why
    the passage fell back to the policy, None when it did not. ``context`` are spans that were kept only because
    another piece cannot be read without them: a table's header, a list's stem, the sentence before a pronoun.
    """

    passage_id: str
    calls: int
    notes: tuple[str, ...] = ()
    problem: str | None = None
    written: str | None = None
    sentences: tuple[Sentence, ...] = ()
    context: tuple[Span, ...] = ()

    @property
    def added(self) -> tuple[Sentence, ...]:
        """The sentences that the source does not bear out."""
        return tuple(s for s in self.sentences if s.kind == "added")


@dataclass(frozen=True, slots=True)
class S2AResult(DenoiseResult):
    """A `DenoiseResult` with a `Report` for each input passage, in the input's order."""

    reports: tuple[Report, ...] = ()
