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
        numbers = {}
        if memory.evidence_is_numbered:  # no other model could read them
            numbers = {p.id: number for number, p in enumerate(memory.evidence, 1)}
        findings = verdict.findings
        lines = []
        for finding in findings[:_FINDINGS_SHOWN]:
            finding_line = _finding_line(finding, numbers)
            lines.append(f"- {finding_line}")
        hidden_count = len(findings) - len(lines)
        if hidden_count > 0:
            lines.append(f"- and {hidden_count} more of the same kind")
        feedback_text = "\n".join(lines)
        return without_effects(feedback_text)


def _finding_line(finding: ClaimVerdict, numbers: dict[str, int]) -> str:
    line = finding.reason or "the evidence does not say this"
    claim_words = finding.text.split()
    claim_text = " ".join(claim_words)
    if len(claim_text) > _CLAIM_CHARACTERS:
        claim_start = claim_text[:_CLAIM_CHARACTERS]
        claim_text = f"{claim_start}…"
    if claim_text:
        line = f'"{claim_text}": {line}'
    if finding.passage_id in numbers:
        line += f" (nearest evidence: [{numbers[finding.passage_id]}])"
    shown_differences = finding.differences[:_MISSING_SHOWN]
    if shown_differences:
        missing_texts = [difference.claimed_text for difference in shown_differences]
        missing_list = ", ".join(missing_texts)
        line += f"; not found there: {missing_list}"
    return line
