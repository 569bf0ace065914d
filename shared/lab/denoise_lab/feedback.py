"""Feedback by a model, as LLM-Augmenter has it beside templates (section 2.4), for its protocols."""

from __future__ import annotations

from denoise_core.augmenter.engine import draft_block, evidence_block, question_block
from denoise_core.augmenter.feedback import TemplateFeedback
from denoise_core.augmenter.memory import Verdict, WorkingMemory
from denoise_core.protocols import LLM
from denoise_core.running.effects import Flow, complete
from denoise_core.text.delimit import NOTE, envelope
from denoise_core.types import Message

_ADVICE_CHARACTERS = 1500  # a model that runs on must not fill the next prompt

ADVISE = (
    f"A draft answer was checked against evidence and did not pass. {NOTE} "
    "Tell the writer in four short sentences what to change: "
    "name the words that are wrong or unsupported, say what the evidence says instead and under which number, and "
    "what is missing. Do not write the answer yourself."
)


class ModelFeedback:
    """Asks ``llm`` (None: the model that drafts) what to change, given the findings of the utility (paper, section
    2.4, equation 2).

    What the utility found stands first in any case, so that advice that misses the point does no harm.
    """

    def __init__(self, llm: LLM | None = None) -> None:
        self.llm = llm
        self._findings = TemplateFeedback()

    def write(self, memory: WorkingMemory, candidate: str, verdict: Verdict) -> Flow[str]:
        findings = yield from self._findings.write(memory, candidate, verdict)
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
