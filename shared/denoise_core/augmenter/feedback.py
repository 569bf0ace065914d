"""Feedback: turn a verdict into words a model can act on (paper, section 2.4).

It goes into the drafting prompt only, in an envelope; the retrieval query never sees it.
"""

from __future__ import annotations

from typing import Protocol, runtime_checkable

from denoise_core.augmenter.memory import WorkingMemory
from denoise_core.augmenter.prompts import draft_block, evidence_block, question_block
from denoise_core.augmenter.utility import without_effects
from denoise_core.protocols import LLM
from denoise_core.runtime.effects import Flow, complete
from denoise_core.support.judging import AnswerVerdict, ClaimVerdict
from denoise_core.text.delimit import ENVELOPE_NOTE, wrap_in_envelope
from denoise_core.types import Message

_CLAIM_CHARACTERS = 300
_ADVICE_CHARACTERS = 1500  # a model that runs on must not fill the next prompt
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
    """Writes feedback on a candidate that did not pass (LLM-Augmenter, section 2.4); a flow, for a model may."""

    def write(
        self, memory: WorkingMemory, candidate: str, verdict: AnswerVerdict
    ) -> Flow[str]:
        """Text that says what is wrong with a rejected candidate, for the next draft; a flow, so it may ask a
        model."""
        ...


class TemplateFeedback:
    """One line for each of the first six findings: the claim, the evidence, what is missing there."""

    def write(
        self, memory: WorkingMemory, candidate: str, verdict: AnswerVerdict
    ) -> Flow[str]:
        numbers = {p.id: n for n, p in enumerate(memory.evidence, 1)}
        findings = verdict.findings
        lines = [
            f"- {_line(finding, numbers)}" for finding in findings[:_FINDINGS_SHOWN]
        ]
        left = len(findings) - len(lines)
        if left > 0:
            lines.append(f"- and {left} more of the same kind")
        return without_effects("\n".join(lines))


class ModelFeedback:
    """Asks ``llm`` (None: the model that drafts) what to change, given the findings of the utility (paper, section
    2.4, equation 2).

    What the utility found stands first in any case, so that advice that misses the point does no harm.
    """

    def __init__(self, llm: LLM | None = None) -> None:
        self.llm = llm

    def write(
        self, memory: WorkingMemory, candidate: str, verdict: AnswerVerdict
    ) -> Flow[str]:
        findings = yield from TemplateFeedback().write(memory, candidate, verdict)
        parts = (
            evidence_block(memory.evidence),
            question_block(memory.question),
            draft_block(candidate),
            f"Findings of the check:\n{wrap_in_envelope(findings, 'findings')}",
        )
        messages = (Message("system", ADVISE), Message("user", "\n\n".join(parts)))
        reply = yield from complete(messages, tag="feedback", llm=self.llm)
        advice = reply.text.strip()[:_ADVICE_CHARACTERS]
        return f"{findings}\n{advice}" if advice else findings


def _line(finding: ClaimVerdict, numbers: dict[str, int]) -> str:
    line = finding.reason or "the evidence does not say this"
    claim = " ".join(finding.text.split())
    if claim:
        shown = (
            claim
            if len(claim) <= _CLAIM_CHARACTERS
            else claim[:_CLAIM_CHARACTERS] + "…"
        )
        line = f'"{shown}": {line}'
    if finding.passage_id in numbers:
        line += f" (nearest evidence: [{numbers[finding.passage_id]}])"
    missing = [d.claimed_text for d in finding.differences]
    if missing:
        line += f"; not found there: {', '.join(missing[:_MISSING_SHOWN])}"
    return line
