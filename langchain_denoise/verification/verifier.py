"""`Verifier`: judge, feedback and retry around something that finds its own evidence and writes its own answers.

The loop of LLM-Augmenter (paper, section 2) for the case that a chain or an agent already stands: it drafts,
we judge the draft against the evidence it used, and hand back what is wrong with it. Knows no framework.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Protocol

from denoise_core import Budget, BudgetExceeded, Message, Passage, Reply, arun, run
from denoise_core.augmenter import (
    Answer,
    Attempt,
    Feedback,
    Groundedness,
    LoopLimits,
    Reason,
    StopReason,
    TemplateFeedback,
    Utility,
    Verdict,
    WorkingMemory,
)
from denoise_core.augmenter.finish import finish
from denoise_core.augmenter.memory import same_text
from denoise_core.augmenter.prompts import QUESTION_ANSWERING, REVISE, Task
from denoise_core.running.effects import Flow, complete


class Drafter(Protocol):
    """Writes drafts. It is asked as an LLM is: the question, and from the second time on what was wrong."""

    @property
    def evidence(self) -> Sequence[Passage]:
        """What the last draft was written from."""
        ...

    def complete(self, messages: Sequence[Message]) -> Reply: ...

    async def acomplete(self, messages: Sequence[Message]) -> Reply: ...


class Verifier:
    """The settings of verification, shared by `verified`, the agent middleware and the graph node.

    ``utility`` judges (`Groundedness`), ``feedback`` explains (`TemplateFeedback`), ``limits`` bounds the
    drafts and says what is sent when none passes, ``budget`` covers drafts, judge and feedback together;
    ``task`` holds the words sent when abstaining.
    """

    def __init__(
        self,
        *,
        utility: Utility | None = None,
        feedback: Feedback | None = None,
        limits: LoopLimits | None = None,
        budget: Budget | None = None,
        task: Task = QUESTION_ANSWERING,
    ) -> None:
        self.utility = utility or Groundedness()
        self.feedback = feedback or TemplateFeedback()
        self.limits = limits or LoopLimits()
        self.budget = budget
        self.task = task

    def answer(self, question: str, drafter: Drafter, earlier: Sequence[str] = ()) -> Answer:
        """The best draft and how far it holds. Raises what the drafter raises when it brings no draft at all.

        ``earlier`` are drafts that did not hold against other evidence: where no new one holds, they are judged
        against the evidence there is now, and may be the answer.
        """
        flow = self.flow(question, drafter, earlier)
        answer, trace = run(flow, budget=self.budget, call_seconds=self.limits.call_seconds)
        return replace(answer, trace=trace)

    async def aanswer(self, question: str, drafter: Drafter, earlier: Sequence[str] = ()) -> Answer:
        """`answer` for async; the same result."""
        flow = self.flow(question, drafter, earlier)
        answer, trace = await arun(flow, budget=self.budget, call_seconds=self.limits.call_seconds)
        return replace(answer, trace=trace)

    def flow(self, question: str, drafter: Drafter, earlier: Sequence[str] = ()) -> Flow[Answer]:
        """The logic, for `run`, `arun` or another flow."""
        memory = WorkingMemory(question)
        while True:
            try:
                reply = yield from complete(_request(memory), tag="draft", llm=drafter)
            except Exception as error:
                if memory.best is None:
                    raise
                return self._finish(memory.failed("draft", error), _reason(error))
            memory = replace(memory, evidence=tuple(drafter.evidence))
            candidate = reply.text.strip()
            try:
                verdict = yield from self.utility.assess(memory, candidate)
            except Exception as error:
                memory = memory.failed("judge", error)
                unknown = Verdict("unknown", 0.0, (Reason(f"the judge failed: {error}", "judge_error"),))
                memory = memory.attempted(Attempt(candidate, unknown, "", memory.evidence))
                spent = isinstance(error, BudgetExceeded)
                return self._finish(memory, _reason(error) if spent else StopReason.JUDGE_ERROR)
            memory = memory.attempted(Attempt(candidate, verdict, "", memory.evidence))
            stop = self._stop(memory)
            if stop:
                if stop is not StopReason.PASSED and memory.evidence:
                    memory = yield from self._reconsider(memory, earlier)
                return self._finish(memory, stop)
            try:
                words = yield from self.feedback.write(memory, candidate, verdict)
            except Exception as error:
                return self._finish(memory.failed("feedback", error), _reason(error))
            last = replace(memory.attempts[-1], feedback=words)
            memory = replace(memory, attempts=(*memory.attempts[:-1], last))

    def _reconsider(self, memory: WorkingMemory, earlier: Sequence[str]) -> Flow[WorkingMemory]:
        """With the earlier drafts among the attempts, judged against the evidence at hand."""
        for candidate in earlier:
            if any(same_text(a.candidate) == same_text(candidate) for a in memory.attempts):
                continue
            try:
                verdict = yield from self.utility.assess(memory, candidate)
            except Exception as error:
                return memory.failed("judge", error)
            memory = memory.attempted(Attempt(candidate, verdict, "", memory.evidence))
        return memory

    def _stop(self, memory: WorkingMemory) -> StopReason | None:
        if memory.attempts[-1].verdict.passed:
            return StopReason.PASSED
        if not memory.evidence:
            return StopReason.NO_EVIDENCE  # nothing to hold a draft against: another one would not help
        if len(memory.attempts) >= self.limits.attempts:
            return StopReason.ATTEMPTS
        if memory.repeats:
            return StopReason.REPEATED_ANSWER
        if memory.attempts_since_best() >= self.limits.patience:
            return StopReason.NO_PROGRESS
        return None

    def _finish(self, memory: WorkingMemory, stop: StopReason) -> Answer:
        return finish(memory, stop, self.limits, self.task)


def _request(memory: WorkingMemory) -> tuple[Message, ...]:
    """The question; after a draft that did not hold also that draft and what is to be put right."""
    asked = (Message("user", memory.question),)
    if memory.last is None:
        return asked
    draft = Message("assistant", memory.last.candidate)
    return (*asked, draft, Message("user", f"{REVISE}\n{memory.last.feedback}"))


def _reason(error: Exception) -> StopReason:
    if isinstance(error, BudgetExceeded):
        return StopReason.DEADLINE if error.what == "seconds" else StopReason.BUDGET
    return StopReason.LLM_ERROR
