"""Feedback: turn a verdict into words a model can act on (paper, section 2.4).

It goes into the drafting prompt only, in an envelope; the retrieval query never sees it.
"""

from __future__ import annotations

from typing import Protocol, runtime_checkable

from denoise_core.augmenter.memory import Reason, Verdict, WorkingMemory
from denoise_core.augmenter.prompts import draft_block, evidence_block, question_block
from denoise_core.augmenter.utility import without_effects
from denoise_core.protocols import LLM
from denoise_core.running.effects import Flow, complete
from denoise_core.text.delimit import NOTE, envelope
from denoise_core.types import Message

_CLAIM_CHARACTERS = 300
_ADVICE_CHARACTERS = 1500  # a model that runs on must not fill the next prompt
_MISSING_SHOWN = 8
_REASONS_SHOWN = 6

ADVISE = (
    f"A draft answer was checked against evidence and did not pass. {NOTE} "
    "Tell the writer in four short sentences what to change: "
    "name the words that are wrong or unsupported, say what the evidence says instead and under which number, and "
    "what is missing. Do not write the answer yourself."
)


@runtime_checkable
class Feedback(Protocol):
    """Writes feedback on a candidate that did not pass (LLM-Augmenter, section 2.4); a flow, for a model may."""

    def write(self, memory: WorkingMemory, candidate: str, verdict: Verdict) -> Flow[str]:
        """Text that says what is wrong with a rejected candidate, for the next draft; a flow, so it may ask a
        model."""
        ...


class TemplateFeedback:
    """One line for each of the first six reasons: the claim, the evidence, what is missing there."""

    def write(self, memory: WorkingMemory, candidate: str, verdict: Verdict) -> Flow[str]:
        numbers = {p.id: n for n, p in enumerate(memory.evidence, 1)}
        lines = [f"- {_line(reason, numbers)}" for reason in verdict.reasons[:_REASONS_SHOWN]]
        left = len(verdict.reasons) - len(lines)
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

    def write(self, memory: WorkingMemory, candidate: str, verdict: Verdict) -> Flow[str]:
        findings = yield from TemplateFeedback().write(memory, candidate, verdict)
        parts = (
            evidence_block(memory.evidence),
            question_block(memory.question),
            draft_block(candidate),
            f"Findings of the check:\n{envelope(findings, 'findings')}",
        )
        messages = (Message("system", ADVISE), Message("user", "\n\n".join(parts)))
        reply = yield from complete(messages, tag="feedback", llm=self.llm)
        advice = reply.text.strip()[:_ADVICE_CHARACTERS]
        return f"{findings}\n{advice}" if advice else findings


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
