"""Labelled examples: what a utility is fitted and measured on."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from denoise_core.augmenter.memory import Verdict, WorkingMemory
from denoise_core.augmenter.utility import Utility
from denoise_core.protocols import LLM
from denoise_core.running.flow import run
from denoise_core.types import Passage


@dataclass(frozen=True, slots=True)
class Labelled:
    """A candidate for a question over some evidence, and whether it is good."""

    question: str
    evidence: tuple[str, ...]
    candidate: str
    good: bool

    @property
    def memory(self) -> WorkingMemory:
        """Question and evidence as a judge is given them; passages are named ``e1``, ``e2`` and so on."""
        return WorkingMemory(self.question, tuple(Passage(t, f"e{n}") for n, t in enumerate(self.evidence, 1)))


def assess_all(utility: Utility, labelled: Sequence[Labelled], *, llm: LLM | None = None) -> list[Verdict]:
    """One verdict for each example, in order."""
    return [run(utility.assess(e.memory, e.candidate), llm=llm)[0] for e in labelled]
