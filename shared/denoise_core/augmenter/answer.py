"""What the loop hands back: an answer, how far it can be trusted, and why the loop stopped."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum

from denoise_core.augmenter.memory import WorkingMemory
from denoise_core.result import Trace
from denoise_core.types import Passage


class Outcome(StrEnum):
    """``VERIFIED``: the text passed its utility. ``UNVERIFIED``: the best text there was, which did not.
    ``ABSTAINED``: it was found that the evidence does not answer the question. ``REFUSED``: there is
    nothing to send, or sending unverified text is not allowed."""

    VERIFIED = "verified"
    UNVERIFIED = "unverified"
    ABSTAINED = "abstained"
    REFUSED = "refused"


class StopReason(StrEnum):
    """Why the loop ended."""

    PASSED = "passed"
    SENT = "sent"  # the policy chose to send what had not passed
    ABSTAINED = "abstained"  # the policy or the model found that there is no answer
    NO_EVIDENCE = "no_evidence"
    ATTEMPTS = "attempts"  # LoopLimits.attempts drafts were made
    STEPS = "steps"  # LoopLimits.steps actions were taken
    NO_PROGRESS = "no_progress"  # LoopLimits.patience drafts in a row were no better than the best
    REPEATED_ANSWER = "repeated_answer"  # the model says the same again from the same evidence
    BUDGET = "budget"  # calls, tokens or money are spent
    DEADLINE = "deadline"  # the budget's seconds are spent
    LLM_ERROR = "llm_error"
    JUDGE_ERROR = "judge_error"
    RETRIEVER_ERROR = "retriever_error"
    POLICY_ERROR = "policy_error"
    NOT_RECORDED = "not_recorded"  # a replay came to a call that the recording does not hold


@dataclass(frozen=True, slots=True)
class Answer:
    """``citations`` are the passages the text names, in order of first mention; ``trace`` holds every
    effect, and with it the usage, whether the run went well or not."""

    text: str
    outcome: Outcome
    stopped_because: StopReason
    memory: WorkingMemory
    trace: Trace = field(default_factory=Trace)
    citations: tuple[Passage, ...] = ()

    @property
    def score(self) -> float | None:
        """Utility of the best attempt; None when there was none."""
        best = self.memory.best
        return best.verdict.score if best else None
