"""Feedback: turn a verdict into words that a model can act on (paper, section 2.4).

It goes into the drafting prompt only, in an envelope; no search ever sees it. A new kind
of feedback implements `Feedback`.
"""

from __future__ import annotations

from typing import Protocol, runtime_checkable

from denoise_core.augmenter.memory import WorkingMemory
from denoise_core.augmenter.prompts import draft_block, labelled_prefix
from denoise_core.augmenter.utility import without_effects
from denoise_core.protocols import LLM
from denoise_core.runtime.effects import Flow, complete
from denoise_core.support.judging import AnswerVerdict, ClaimVerdict
from denoise_core.text.delimit import ENVELOPE_NOTE, wrap_in_envelope
from denoise_core.types import Message

_CLAIM_CHARACTERS = 300
_ADVICE_CHARACTERS = 1500  # an endless reply must not fill the next prompt
_MISSING_SHOWN = 8
_FINDINGS_SHOWN = 6

ADVISE = (
    f"A draft answer was checked against evidence and did not pass. {ENVELOPE_NOTE} "
    "Tell the writer in four short sentences what to change: "
    "name the words that are wrong or unsupported, say what the evidence says instead and under which number, and "
    "what is missing. Do not write the answer yourself."
)


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


class ModelFeedback:
    """Asks a model what to change (paper, section 2.4, equation 2).

    The findings come first in any case, so that bad advice does no harm.

    Args:
        llm: The model; None is the one that drafts.
    """

    def __init__(self, llm: LLM | None = None) -> None:
        self.llm = llm

    def write(
        self, memory: WorkingMemory, candidate: str, verdict: AnswerVerdict
    ) -> Flow[str]:
        """List the findings, then the model's advice."""
        findings = yield from TemplateFeedback().write(memory, candidate, verdict)
        parts = (
            labelled_prefix(memory),
            draft_block(candidate),
            f"Findings of the check:\n{wrap_in_envelope(findings, 'findings')}",
        )
        messages = (Message("system", ADVISE), Message("user", "\n\n".join(parts)))
        reply = yield from complete(messages, tag="feedback", llm=self.llm)
        advice = reply.text.strip()[:_ADVICE_CHARACTERS]
        return f"{findings}\n{advice}" if advice else findings


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
