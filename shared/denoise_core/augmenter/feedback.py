"""Feedback: turn a verdict into words a model can act on (paper, section 2.4).

It goes into the drafting prompt only, in an envelope; the retrieval query never sees it.
"""

from __future__ import annotations

from typing import Protocol, runtime_checkable

from denoise_core.augmenter.memory import Reason, Verdict, WorkingMemory
from denoise_core.augmenter.utility import without_effects
from denoise_core.running.effects import Flow

_CLAIM_CHARACTERS = 300
_MISSING_SHOWN = 8


@runtime_checkable
class Feedback(Protocol):
    """Writes feedback on a candidate that did not pass (LLM-Augmenter, section 2.4); a flow, for a model may."""

    def write(self, memory: WorkingMemory, candidate: str, verdict: Verdict) -> Flow[str]:
        """Text that says what is wrong with a rejected candidate, for the next draft; a flow, so it may ask a
        model."""
        ...


class TemplateFeedback:
    """One line for each of the first ``most`` reasons: the claim, the evidence, what is missing there."""

    def __init__(self, *, most: int = 6) -> None:
        self.most = most

    def write(self, memory: WorkingMemory, candidate: str, verdict: Verdict) -> Flow[str]:
        numbers = {p.id: n for n, p in enumerate(memory.evidence, 1)}
        lines = [f"- {_line(reason, numbers)}" for reason in verdict.reasons[: self.most]]
        left = len(verdict.reasons) - len(lines)
        if left > 0:
            lines.append(f"- and {left} more of the same kind")
        return without_effects("\n".join(lines))


def _line(reason: Reason, numbers: dict[str, int]) -> str:
    said = reason.text
    if reason.claim:
        claim = " ".join(reason.claim.split())
        cut = claim if len(claim) <= _CLAIM_CHARACTERS else claim[:_CLAIM_CHARACTERS] + "…"
        said = f'"{cut}": {said}'
    if reason.passage_id in numbers:
        said += f" (nearest evidence: [{numbers[reason.passage_id]}])"
    if reason.missing:
        shown = ", ".join(reason.missing[:_MISSING_SHOWN])
        said += f"; not found there: {shown}"
    return said
