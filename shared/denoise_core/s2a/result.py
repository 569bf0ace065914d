"""What S2A reports beyond kept and dropped text: how each passage fared, sentence by sentence."""

from __future__ import annotations

from dataclasses import dataclass

from denoise_core.result import DenoiseResult
from denoise_core.types import Span


@dataclass(frozen=True, slots=True)
class Sentence:
    """One sentence that a model wrote.

    ``start`` and ``end`` are characters of the model's own text (half-open). ``spans`` are the source sentences
    that cover it, none when nothing does; ``share`` in 0..1 is how much of its words they cover, by weight.
    ``supported`` and ``why`` are the checker's word on it, where it was asked: None is unknown."""

    text: str
    start: int
    end: int
    spans: tuple[Span, ...] = ()
    share: float = 0.0
    supported: bool | None = None
    why: str = ""


@dataclass(frozen=True, slots=True)
class Report:
    """How one passage fared.

    ``calls`` is the number of calls it took part in: 0 when it was skipped or known, more than 1 when it was too
    long for one and was split, or asked about again. ``notes`` name everything unusual that did not lose the
    reply; ``problem`` is why the passage fell back to the policy, None when it did not. ``written`` is what the
    model wrote, ``sentences`` the same sentence by sentence. ``context`` are spans that were kept only because
    another piece cannot be read without them: a table's header, a list's stem, the sentence before a pronoun."""

    passage_id: str
    calls: int
    notes: tuple[str, ...] = ()
    problem: str | None = None
    written: str | None = None
    sentences: tuple[Sentence, ...] = ()
    context: tuple[Span, ...] = ()

    @property
    def uncovered(self) -> tuple[Sentence, ...]:
        """The written sentences that no source sentence covers."""
        return tuple(s for s in self.sentences if not s.spans)

    @property
    def unsupported(self) -> tuple[Sentence, ...]:
        """The written sentences that the checker does not find in the source; empty where it was not asked."""
        return tuple(s for s in self.sentences if s.supported is False)


@dataclass(frozen=True, slots=True)
class S2AResult(DenoiseResult):
    """A `DenoiseResult` with a `Report` for each input passage, in the input's order."""

    reports: tuple[Report, ...] = ()
