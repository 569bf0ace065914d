"""The answer of the loop: its text, how far to trust it, why the loop stopped, and how the text is chosen."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum

from denoise_core._optional import render_html
from denoise_core.augmenter.memory import Attempt, WorkingMemory
from denoise_core.augmenter.policy import LoopLimits
from denoise_core.augmenter.prompts import Task, cited_passages
from denoise_core.augmenter.utility import Utility, utility_name
from denoise_core.result import Trace
from denoise_core.support.judging import AnswerVerdict, ClaimVerdict
from denoise_core.types import Passage


class Outcome(StrEnum):
    """How far the text can be trusted, in the judgement of `Answer.judge` and no further."""

    SUPPORTED = (
        "supported"  # the judge found it in the evidence, and an answer to the question
    )
    PARTLY_SUPPORTED = "partly supported"  # nothing is contradicted, something is not stated: see `Answer.units`
    UNSUPPORTED = "unsupported"  # the judge did not: the best text there was
    UNKNOWN = "unknown"  # nothing could be said: no evidence, a judge that failed or could not tell, not judged
    ABSTAINED = "abstained"  # the model or the policy found no answer, or what was found did not hold
    FAILED = "failed"  # infrastructure: there is no draft, or no evidence could be fetched for one


class StopReason(StrEnum):
    """Why the loop ended."""

    PASSED = "passed"
    SENT = "sent"  # the policy chose to send what had not passed
    UNJUDGED = "unjudged"  # ``when`` or the drafter said that this is not to be judged
    JUDGE_UNDECIDED = "not_told"  # the judge could not tell; unknown is not fed back
    ABSTAINED = "abstained"  # the policy or the model found that there is no answer
    NO_EVIDENCE = "no_evidence"
    ATTEMPTS = "attempts"  # LoopLimits.attempts drafts were made
    STEPS = "steps"  # LoopLimits.steps actions were taken
    NO_PROGRESS = "no_progress"  # LoopLimits.patience drafts in a row were no better than the best
    REPEATED_ANSWER = (
        "repeated_answer"  # the model says the same again from the same evidence
    )
    NOT_REPEATABLE = (
        "not_repeatable"  # asking the drafter again would have effects outside
    )
    BUDGET = "budget"  # calls or tokens are spent
    DEADLINE = "deadline"  # the budget's seconds are spent
    LLM_ERROR = "llm_error"
    JUDGE_ERROR = "judge_error"
    RETRIEVER_ERROR = "retriever_error"
    POLICY_ERROR = "policy_error"


@dataclass(frozen=True, slots=True)
class Answer:
    """The result of one question.

    Attributes:
        text: What to send: a draft exactly as it was written, or a sentence of ours
            where there is none.
        outcome: How far the text can be trusted.
        stop_reason: Why the loop ended.
        memory: Everything known about the question at the end.
        trace: Every effect and the usage, whether the run went well or not.
        citations: The passages that the text names, in order of first mention.
        judge: The name of what judged, `NOT_JUDGED` where nothing did.
    """

    text: str
    outcome: Outcome
    stop_reason: StopReason
    memory: WorkingMemory
    trace: Trace = field(default_factory=Trace)
    citations: tuple[Passage, ...] = ()
    judge: str = ""

    def __repr__(self) -> str:
        """Summarise the run in one line."""
        return (
            f"Answer({self.text[:60]!r}: "
            f"{self.outcome.value}, {self.stop_reason.value}, "
            f"{len(self.memory.attempts)} attempts, "
            f"{len(self.memory.evidence)} passages)"
        )

    def _repr_html_(self) -> str | None:
        return render_html("loop", self)

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
    def verdict(self) -> AnswerVerdict | None:
        """The verdict on the text; None when the text is not the best draft."""
        best = self.memory.best
        if best is None or self.text != best.candidate:
            return None
        return best.verdict

    @property
    def units(self) -> tuple[ClaimVerdict, ...]:
        """The verdict on each unit of the text: a sentence, a list item, a table's row.

        Each has its exact characters; () where the text was not judged.
        """
        verdict = self.verdict
        return () if verdict is None else verdict.units


NO_ANSWER = "No answer can be given: {why}."
_NO_DRAFT_REASONS = {
    StopReason.BUDGET: "the budget was spent before there was one",
    StopReason.DEADLINE: "the time was up before there was one",
}
# With these nothing in the evidence answers. With any other reason, a withheld draft of
# which nothing is known, such as one whose judge failed, may have been right.
_ABSTAINING_REASONS = (StopReason.ABSTAINED, StopReason.NO_EVIDENCE)
_UNKNOWN_REASONS = {
    "judge_error": StopReason.JUDGE_ERROR,
    "unjudged": StopReason.UNJUDGED,
    "no_judge": StopReason.UNJUDGED,
    "empty_evidence": StopReason.NO_EVIDENCE,
}
_PART_NAMES = {
    "draft": "the writing of a draft",
    "search": "the search",
    "policy": "the policy",
}


def finish_answer(
    memory: WorkingMemory,
    stop_reason: StopReason,
    limits: LoopLimits,
    task: Task,
    utility: Utility,
) -> Answer:
    """Send the best attempt exactly as it was written, with the outcome it earns.

    Only where nothing was written, or nothing but ``<think>`` and what follows, or where
    the limits or the policy say that nothing of it may be sent, is the text a sentence
    of ours.

    Args:
        memory: Everything known at the end.
        stop_reason: Why the loop ended.
        limits: Says what to send when no draft passed.
        task: Holds the words of an abstention that no model wrote.
        utility: What judged.

    Returns:
        The answer, without its trace.
    """
    best = memory.best
    if best is None:
        text, outcome, stop_reason = _text_without_draft(memory, stop_reason, task)
    else:
        outcome, stop_reason = _attempt_outcome(best, stop_reason)
        text = best.candidate
        if outcome is Outcome.FAILED and text.lstrip().startswith("<think"):
            text = ""  # it has no more than this
        if not _may_send(outcome, stop_reason, limits):
            text = task.abstention_text
            is_abstaining = stop_reason in _ABSTAINING_REASONS
            if outcome is not Outcome.UNKNOWN or is_abstaining:
                outcome = Outcome.ABSTAINED
        if not text.strip() and best.fields is None:
            text = NO_ANSWER.format(why="the model wrote no answer")
    citations: tuple[Passage, ...] = ()
    if best is not None and text == best.candidate:
        citations = cited_passages(best)
    judge_name = utility_name(utility)
    return Answer(
        text,
        outcome,
        stop_reason,
        memory,
        citations=citations,
        judge=judge_name,
    )


def _text_without_draft(
    memory: WorkingMemory, stop_reason: StopReason, task: Task
) -> tuple[str, Outcome, StopReason]:
    """The sentence sent when nobody wrote anything, with outcome and reason."""
    if stop_reason is StopReason.ABSTAINED:
        if not memory.evidence:
            stop_reason = StopReason.NO_EVIDENCE
        return task.abstention_text, Outcome.ABSTAINED, stop_reason
    reason_text = _NO_DRAFT_REASONS.get(stop_reason) or _describe_last_failure(memory)
    failure_text = NO_ANSWER.format(why=reason_text)
    return failure_text, Outcome.FAILED, stop_reason


def _attempt_outcome(
    best: Attempt, stop_reason: StopReason
) -> tuple[Outcome, StopReason]:
    """What the best attempt's verdict makes of it, and the reason to report."""
    verdict = best.verdict
    if best.is_abstention:
        return Outcome.ABSTAINED, StopReason.ABSTAINED
    if verdict.passed:
        return Outcome.SUPPORTED, StopReason.PASSED
    if not best.has_text:
        return Outcome.FAILED, stop_reason
    if verdict.outcome == "partial":
        return Outcome.PARTLY_SUPPORTED, stop_reason
    if verdict.outcome == "fail":
        return Outcome.UNSUPPORTED, stop_reason
    if stop_reason in (StopReason.SENT, StopReason.NOT_REPEATABLE):
        stop_reason = _UNKNOWN_REASONS.get(verdict.kind, StopReason.JUDGE_UNDECIDED)
    return Outcome.UNKNOWN, stop_reason


def _may_send(outcome: Outcome, stop_reason: StopReason, limits: LoopLimits) -> bool:
    """Whether the attempt itself is sent, not a sentence that there is no answer."""
    if outcome in (Outcome.SUPPORTED, Outcome.ABSTAINED, Outcome.FAILED):
        return True
    if stop_reason is StopReason.ABSTAINED:  # the policy's choice
        return False
    return stop_reason is StopReason.UNJUDGED or limits.unsupported == "send"


def _describe_last_failure(memory: WorkingMemory) -> str:
    """Name the part that failed last and its error's class.

    The message stays in the record: it may quote anything.
    """
    for part, error in reversed(memory.failures):
        if part in _PART_NAMES:
            part_name = _PART_NAMES[part]
            error_class, _, _ = error.partition(":")
            return f"{part_name} failed ({error_class})"
    return "there is no draft"
