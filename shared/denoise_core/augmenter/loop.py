"""The loop: search -> draft -> judge -> (send | feedback | other evidence) -> again, within limits and budget.

Whatever the outside does, the result is an `Answer` with an `Outcome` and a `StopReason`; only cancellation
and errors in the arguments are raised. What is sent is the best attempt, never merely the last.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from denoise_core.augmenter import steps
from denoise_core.augmenter.actions import Abstain, Draft, Readmit, Search, SelfAsk, Send
from denoise_core.augmenter.answer import Answer, StopReason
from denoise_core.augmenter.feedback import Feedback, TemplateFeedback
from denoise_core.augmenter.finish import finish
from denoise_core.augmenter.knowledge.consolidate import Consolidator
from denoise_core.augmenter.knowledge.readmit import readmit
from denoise_core.augmenter.limits import LoopLimits
from denoise_core.augmenter.memory import WorkingMemory
from denoise_core.augmenter.policy import Policy, Rules
from denoise_core.augmenter.prompts import QUESTION_ANSWERING, Task
from denoise_core.augmenter.utilities.groundedness import Groundedness
from denoise_core.augmenter.utility import Utility
from denoise_core.errors import BudgetExceeded, InputError
from denoise_core.protocols import LLM, Denoiser, Retriever
from denoise_core.running.budget import Budget
from denoise_core.running.effects import Flow
from denoise_core.running.flow import arun, run
from denoise_core.types import Message


class Augmenter:
    """LLM-Augmenter around a black-box model.

    ``retriever`` is any retriever, or a `Consolidator` for several sources, queries or chains. ``denoiser``
    stands between search and prompt. ``utility`` judges (`Groundedness`), ``policy`` decides (`Rules`),
    ``feedback`` explains (`TemplateFeedback`). ``budget`` covers generator, judge and retriever together.
    Raises `InputError` when both a `Consolidator` and a ``denoiser`` are given: it has its own.
    """

    def __init__(
        self,
        llm: LLM,
        retriever: Retriever | Consolidator,
        *,
        denoiser: Denoiser | None = None,
        utility: Utility | None = None,
        policy: Policy | None = None,
        feedback: Feedback | None = None,
        budget: Budget | None = None,
        limits: LoopLimits | None = None,
        task: Task = QUESTION_ANSWERING,
    ) -> None:
        if isinstance(retriever, Consolidator):
            if denoiser is not None:
                raise InputError("give the denoiser to the Consolidator: Consolidator(sources, denoiser=...)")
            self.consolidator = retriever
        else:
            self.consolidator = Consolidator(retriever, denoiser=denoiser)
        self.llm = llm
        self.utility = utility or Groundedness()
        self.policy = policy or Rules()
        self.feedback = feedback or TemplateFeedback()
        self.budget = budget
        self.limits = limits or LoopLimits()
        self.task = task

    def answer(self, question: str, history: Sequence[Message] = ()) -> Answer:
        """The best answer there is, and how far it can be trusted. Starts no event loop."""
        flow = self.flow(question, history)
        answer, trace = run(flow, llm=self.llm, budget=self.budget, call_seconds=self.limits.call_seconds)
        return replace(answer, trace=trace)

    async def aanswer(self, question: str, history: Sequence[Message] = ()) -> Answer:
        """`answer` for async: the same steps; a call that hangs is cancelled when its time is up."""
        flow = self.flow(question, history)
        answer, trace = await arun(flow, llm=self.llm, budget=self.budget, call_seconds=self.limits.call_seconds)
        return replace(answer, trace=trace)

    def flow(self, question: str, history: Sequence[Message] = ()) -> Flow[Answer]:
        """The loop as a flow, to be driven by `run`, `arun` or another flow. Its `Answer` has no trace yet.

        Raises `InputError` for a question without text.
        """
        if not isinstance(question, str) or not question.strip():
            raise InputError(f"question: expected a text that is not blank, got {question!r}")
        return self._loop(WorkingMemory(question, history=tuple(history)))

    def _loop(self, memory: WorkingMemory) -> Flow[Answer]:
        state: WorkingMemory | Answer = memory
        while isinstance(state, WorkingMemory):
            state = yield from self.turn(state)
        return state

    def turn(self, memory: WorkingMemory) -> Flow[WorkingMemory | Answer]:
        """One turn of the loop: what the policy chooses, carried out; an `Answer` when that was the last.

        For those who keep the state between turns elsewhere: a workflow, a graph, a queue. The budget holds
        within one turn only; over several it is theirs to keep.
        """
        stop = self._must_stop(memory)
        if stop:
            return finish(memory, stop, self.limits, self.task)
        try:
            action = self.policy.choose(memory)
        except Exception as error:
            return finish(memory.failed("policy", error), StopReason.POLICY_ERROR, self.limits, self.task)
        memory = memory.acted(action)
        if isinstance(action, Draft) and (stop := self._no_more_drafts(memory)):
            return finish(memory, stop, self.limits, self.task)
        try:
            match action:
                case Search():
                    memory = yield from steps.search(memory, self.consolidator, wide=action.wide)
                case SelfAsk():
                    memory = yield from steps.self_ask(memory)
                case Readmit():
                    memory = readmit(memory, action.count)
                case Draft():
                    memory = yield from steps.draft(memory, self.task, self.utility, self.feedback)
                case Send():
                    return finish(memory, StopReason.SENT, self.limits, self.task)
                case Abstain():
                    return finish(memory, StopReason.ABSTAINED, self.limits, self.task)
                case _:
                    error = TypeError(f"expected an Action, got {type(action).__name__}")
                    memory = memory.failed("policy", error)
                    return finish(memory, StopReason.POLICY_ERROR, self.limits, self.task)
        except steps.Spent as spent:
            return finish(spent.memory, _spent(spent.error), self.limits, self.task)
        return memory

    def _must_stop(self, memory: WorkingMemory) -> StopReason | None:
        """What ends the loop before the policy is asked."""
        if memory.last and memory.last.verdict.passed:
            return StopReason.PASSED
        if len(memory.failures) >= self.limits.failures:
            return steps.REASONS.get(memory.failures[-1][0], StopReason.LLM_ERROR)
        if len(memory.actions) >= self.limits.steps:
            return StopReason.STEPS
        return None

    def _no_more_drafts(self, memory: WorkingMemory) -> StopReason | None:
        """What ends the loop when the policy wants another draft."""
        if not memory.attempts:
            return None
        if len(memory.attempts) >= self.limits.attempts:
            return StopReason.ATTEMPTS
        if memory.repeats and memory.attempts[-1].evidence == memory.evidence:
            return StopReason.REPEATED_ANSWER
        if memory.attempts_since_best() >= self.limits.patience:
            return StopReason.NO_PROGRESS
        return None


def _spent(error: Exception) -> StopReason:
    if isinstance(error, BudgetExceeded):
        return StopReason.DEADLINE if error.what == "seconds" else StopReason.BUDGET
    return StopReason.NOT_RECORDED
