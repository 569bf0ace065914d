"""What the loop hands back: an answer, how far it can be trusted, and why the loop stopped."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum

from denoise_core._optional import html_of
from denoise_core.augmenter.memory import Attempt, WorkingMemory
from denoise_core.augmenter.utility import Measured
from denoise_core.result import Trace
from denoise_core.support.proof import Proof, proof_of
from denoise_core.types import Passage


class Outcome(StrEnum):
    """How far the text can be trusted, in the judgement of `Answer.judge` and no further."""

    SUPPORTED = "supported"  # the judge found it in the evidence, and an answer to the question
    UNSUPPORTED = "unsupported"  # the judge did not: the best text there was
    UNKNOWN = "unknown"  # nothing could be said: no evidence, a judge that failed or could not tell, not judged
    ABSTAINED = "abstained"  # the evidence does not answer the question, or nothing that held may be sent
    FAILED = "failed"  # infrastructure: there is no draft, or no evidence could be fetched for one


class StopReason(StrEnum):
    """Why the loop ended."""

    PASSED = "passed"
    SENT = "sent"  # the policy chose to send what had not passed
    UNJUDGED = "unjudged"  # ``when`` or the drafter said that this is not to be judged
    NOT_TOLD = "not_told"  # the judge could not tell; unknown is not fed back
    ABSTAINED = "abstained"  # the policy or the model found that there is no answer
    NO_EVIDENCE = "no_evidence"
    ATTEMPTS = "attempts"  # LoopLimits.attempts drafts were made
    STEPS = "steps"  # LoopLimits.steps actions were taken
    NO_PROGRESS = "no_progress"  # LoopLimits.patience drafts in a row were no better than the best
    REPEATED_ANSWER = "repeated_answer"  # the model says the same again from the same evidence
    NOT_REPEATABLE = "not_repeatable"  # asking the drafter again would have effects outside
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
    effect, and with it the usage, whether the run went well or not. ``judge`` is the name of what judged, and
    ``measured`` its error rates on the sets it was validated on (none where nobody measured it).

    ``looked_for``, ``nearest`` and ``holds`` say what an answer that is not supported can still tell: the searches
    made, the evidence nearest to the question, and the part of the best draft that holds.
    """

    text: str
    outcome: Outcome
    stopped_because: StopReason
    memory: WorkingMemory
    trace: Trace = field(default_factory=Trace)
    citations: tuple[Passage, ...] = ()
    judge: str = ""
    measured: tuple[Measured, ...] = ()
    nearest: tuple[Passage, ...] = ()
    holds: str = ""

    def __repr__(self) -> str:
        """One line, whatever the run was."""
        return (
            f"Answer({self.text[:60]!r}: {self.outcome.value}, {self.stopped_because.value}, "
            f"{len(self.memory.attempts)} attempts, {len(self.memory.evidence)} passages)"
        )

    def _repr_html_(self) -> str | None:
        return html_of("loop", self)

    @property
    def best(self) -> Attempt | None:
        """The attempt that was sent or would have been; None when there was none."""
        return self.memory.best

    @property
    def score(self) -> float | None:
        """Utility of the best attempt; None when there was none."""
        best = self.memory.best
        return best.verdict.score if best else None

    @property
    def proof(self) -> Proof | None:
        """The smallest set of quotes on which the text rests; None where no claim of it rests on any. It is
        replayed without a model: `Proof.replay`."""
        best = self.memory.best
        if best is None or self.text != best.candidate:
            return None
        return proof_of(self.text, best.verdict.claims, self.judge)

    @property
    def looked_for(self) -> tuple[str, ...]:
        """Every search that was made, in order."""
        return self.memory.queries
