"""Feedback: turn a verdict into words that a model can act on (paper, section 2.4).

It goes into the drafting prompt only, in an envelope; no search ever sees it. A new kind
of feedback implements `Feedback`.
"""

from __future__ import annotations

from typing import Protocol, runtime_checkable

from denoise_core.augmenter.memory import WorkingMemory
from denoise_core.augmenter.utility import without_effects
from denoise_core.runtime.effects import Flow
from denoise_core.support.judging import AnswerVerdict, ClaimVerdict

_CLAIM_CHARACTERS = 300
_MISSING_SHOWN = 8
_FINDINGS_SHOWN = 6


@runtime_checkable
class Feedback(Protocol):
    """Writes feedback on a draft that failed (LLM-Augmenter, section 2.4)."""

    def write(
        self, memory: WorkingMemory, candidate: str, verdict: AnswerVerdict
    ) -> Flow[str]:
        """Say what is wrong with a failed draft; a flow, so it may ask a model."""
        ...


class TemplateFeedback:
    """One line for each of the first findings: claim, reason, evidence, what lacks."""

    def write(
        self, memory: WorkingMemory, candidate: str, verdict: AnswerVerdict
    ) -> Flow[str]:
        """List the findings of the verdict."""
        numbers = {p.id: number for number, p in enumerate(memory.evidence, 1)}
        findings = verdict.findings
        lines = []
        for finding in findings[:_FINDINGS_SHOWN]:
            lines.append(f"- {_finding_line(finding, numbers)}")
        hidden_count = len(findings) - len(lines)
        if hidden_count > 0:
            lines.append(f"- and {hidden_count} more of the same kind")
        return without_effects("\n".join(lines))


def _finding_line(finding: ClaimVerdict, numbers: dict[str, int]) -> str:
    line = finding.reason or "the evidence does not say this"
    claim_text = " ".join(finding.text.split())
    if len(claim_text) > _CLAIM_CHARACTERS:
        claim_text = claim_text[:_CLAIM_CHARACTERS] + "…"
    if claim_text:
        line = f'"{claim_text}": {line}'
    if finding.passage_id in numbers:
        line += f" (nearest evidence: [{numbers[finding.passage_id]}])"
    missing = [difference.claimed_text for difference in finding.differences]
    if missing:
        line += f"; not found there: {', '.join(missing[:_MISSING_SHOWN])}"
    return line
