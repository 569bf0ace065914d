"""Utility: does this candidate hold against the evidence? The protocol, and how a utility needs no effects.

The utilities themselves are in `denoise_core.augmenter.utilities`.
"""

from __future__ import annotations

from typing import Protocol, TypeVar, runtime_checkable

from denoise_core.augmenter.memory import Verdict, WorkingMemory
from denoise_core.running.effects import Flow

T = TypeVar("T")


@runtime_checkable
class Utility(Protocol):
    """Judges one candidate against ``memory.evidence``. A flow, because a judge may be a model."""

    def assess(self, memory: WorkingMemory, candidate: str) -> Flow[Verdict]: ...


def without_effects(value: T) -> Flow[T]:
    """A flow that asks for nothing and returns ``value``."""
    return value
    yield
