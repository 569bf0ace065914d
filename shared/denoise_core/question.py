"""A question with its passages and which of them are relevant: what probes are fitted and judged on."""

from __future__ import annotations

from dataclasses import dataclass

from denoise_core.errors import InputError
from denoise_core.types import Passage, check_passages


@dataclass(frozen=True, slots=True)
class Question:
    """``gold`` names the relevant passages by id; ``answers`` are the accepted answers, if known.

    Raises `InputError` when two passages share an id or ``gold`` names one that is not there.
    """

    text: str
    passages: tuple[Passage, ...]
    gold: frozenset[str]
    answers: tuple[str, ...] = ()
    id: str = ""

    def __post_init__(self) -> None:
        object.__setattr__(self, "passages", check_passages(self.passages))
        object.__setattr__(self, "gold", frozenset(self.gold))
        object.__setattr__(self, "answers", tuple(self.answers))
        unknown = sorted(self.gold - {p.id for p in self.passages})
        if unknown:
            raise InputError(
                f"question {self.id or self.text!r}: gold passages {unknown[:3]} are not among its passages"
            )

    @property
    def labels(self) -> tuple[bool, ...]:
        """Whether each passage is relevant, in order."""
        return tuple(p.id in self.gold for p in self.passages)
