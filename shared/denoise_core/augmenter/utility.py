"""Utility: does this candidate hold against the evidence? The protocol, and how a utility needs no effects.

The utilities themselves are in `denoise_core.augmenter.utilities`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol, TypeVar, runtime_checkable

from denoise_core.augmenter.memory import Verdict, WorkingMemory
from denoise_core.running.effects import Flow

T = TypeVar("T")


@runtime_checkable
class Utility(Protocol):
    """Judges one candidate against ``memory.evidence`` (LLM-Augmenter, section 2.4); a flow, for a model may."""

    def assess(self, memory: WorkingMemory, candidate: str) -> Flow[Verdict]:
        """Whether the evidence in memory bears the candidate out: pass, fail or unknown, a score from 0 to 1,
        and reasons."""
        ...


@dataclass(frozen=True, slots=True)
class Measured:
    """What a judge did on one labelled set: shares of the right and of the wrong answers that it passed, and how
    many answers there were."""

    set: str
    passed_right: float
    passed_wrong: float
    answers: int


def known_of(utility: Utility) -> tuple[str, tuple[Measured, ...]]:
    """What to call a judge (its own ``name``, or its class's), and the error rates it brings as ``measured``."""
    name, found = getattr(utility, "name", ""), getattr(utility, "measured", ())
    listed = found if isinstance(found, (tuple, list)) else ()
    called = name if isinstance(name, str) and name else type(utility).__name__
    return called, tuple(m for m in listed if isinstance(m, Measured))


def without_effects(value: T) -> Flow[T]:
    """A flow that asks for nothing and returns ``value``."""
    return value
    yield
