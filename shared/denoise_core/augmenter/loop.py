"""The loop: search -> draft -> judge -> (send | feedback | other evidence) -> again, within limits and budget.

Whatever fails outside, the result is an `Answer` with an `Outcome` and a `StopReason`; only cancellation and
mistakes (`denoise_core.errors.is_user_error`: settings, types, a refused key) are raised. What is sent is the best
attempt, never merely the last.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from denoise_core.augmenter import steps
from denoise_core.augmenter.actions import (
    Abstain,
    Action,
    Draft,
    Readmit,
    Search,
    SelfAsk,
    Send,
)
from denoise_core.augmenter.answer import Answer, StopReason, finish_answer
from denoise_core.augmenter.drafting.drafter import Drafter
from denoise_core.augmenter.feedback import Feedback, TemplateFeedback
from denoise_core.augmenter.knowledge.consolidate import Consolidator
from denoise_core.augmenter.memory import WorkingMemory
from denoise_core.augmenter.policy import LoopLimits, Policy, Rules
from denoise_core.augmenter.prompts import QUESTION_ANSWERING, Task
from denoise_core.augmenter.utility import Utility, When, as_utility
from denoise_core.errors import BudgetExceeded, InputError
from denoise_core.protocols import LLM, Denoiser, Retriever, expect_llm
from denoise_core.runtime.budget import Budget
from denoise_core.runtime.effects import Flow
from denoise_core.runtime.flow import arun, run
from denoise_core.support.judging import Judge
from denoise_core.types import Message, Passage


class Augmenter:
    """LLM-Augmenter (arXiv 2302.12813, section 2) around a black-box model, or around whatever writes drafts.

    ``retriever`` is any retriever, or a `Consolidator` for several sources, queries or chains; without one there
    are no searches of the loop's own. ``denoiser`` stands between search and prompt. ``judge`` is any judge, an
    LLM (which then quotes) or a function; None is ``llm`` by its quotes, and without a model nobody judges.
    ``policy`` decides (`Rules`), ``feedback`` explains (`TemplateFeedback`).
    ``when(question, answer)`` decides what is judged at all (`states_something` leaves out greetings and
    questions back).
    ``budget`` covers generator, judge and retriever together. A `Drafter` given to `answer` writes in the place of
    ``llm``: a chain, an agent, an engine. Raises `InputError` when both a `Consolidator` and a ``denoiser`` are
    given: it has its own.
    """

    def __init__(
        self,
        llm: LLM | None = None,
        retriever: Retriever | Consolidator | None = None,
        *,
        denoiser: Denoiser | None = None,
        judge: Judge | Utility | LLM | Callable[..., Any] | None = None,
        policy: Policy | None = None,
        feedback: Feedback | None = None,
        budget: Budget | None = None,
        limits: LoopLimits | None = None,
        task: Task = QUESTION_ANSWERING,
        when: When | None = None,
    ) -> None:
        if isinstance(retriever, Consolidator):
            if denoiser is not None:
                raise InputError(
                    "give the denoiser to the Consolidator: Consolidator(sources, denoiser=...)"
                )
            self.consolidator = retriever
        elif retriever is None:
            if denoiser is not None:
                raise InputError(
                    "denoiser= stands behind a retriever; without one there is nothing to denoise"
                )
            self.consolidator = Consolidator(())
        else:
            self.consolidator = Consolidator(retriever, denoiser=denoiser)
        self.llm = None if llm is None else expect_llm(llm)
        self.utility = as_utility(judge, self.llm)
        self.policy = policy or Rules()
        self.feedback = feedback or TemplateFeedback()
        self.budget = budget
        self.limits = limits or LoopLimits()
        self.task = task
        self.when = when

    def answer(
        self,
        question: str,
        history: Sequence[Message] = (),
        *,
        drafter: Drafter | None = None,
        evidence: Sequence[Passage] = (),
    ) -> Answer:
        """The best answer there is, and how far it can be trusted. Starts no event loop.

        ``drafter`` writes the drafts in the place of the model; ``evidence`` is what is at hand already.
        """
        answer, trace = run(
            self.flow(question, history, drafter=drafter, evidence=evidence),
            **self.run_options(),
        )
        return replace(answer, trace=trace)

    async def aanswer(
        self,
        question: str,
        history: Sequence[Message] = (),
        *,
        drafter: Drafter | None = None,
        evidence: Sequence[Passage] = (),
    ) -> Answer:
        """`answer` for async: the same steps; a call that hangs is cancelled when its time is up."""
        flow = self.flow(question, history, drafter=drafter, evidence=evidence)
        answer, trace = await arun(flow, **self.run_options())
        return replace(answer, trace=trace)

    def run_options(self) -> dict[str, Any]:
        """What `run` or `arun` is to be given with `flow`: the model, the budget, the time for one call."""
        return {
            "llm": self.llm,
            "budget": self.budget,
            "call_seconds": self.limits.call_seconds,
        }

    def flow(
        self,
        question: str,
        history: Sequence[Message] = (),
        *,
        drafter: Drafter | None = None,
        evidence: Sequence[Passage] = (),
        wrap_server: steps.WrapServer | None = None,
    ) -> Flow[Answer]:
        """The loop as a flow, to be driven by `run`, `arun` or another flow. Its `Answer` has no trace yet.

        ``wrap_server`` maps the server of each draft (None: the model) to the one that is asked: a stream listens
        there. Raises `InputError` for a question without text, and when nobody is there to write.
        """
        if drafter is not None and not isinstance(drafter, Drafter):
            raise InputError(
                f"drafter: expected draft, adraft and repeatable, got a {type(drafter).__name__}; a text that "
                "stands already is FixedText(text, evidence)"
            )
        if drafter is None and self.llm is None:
            raise InputError(
                "nobody writes: give Augmenter(llm, ...) a model, or answer(..., drafter=...) a drafter"
            )
        if (
            self.llm is None
            and isinstance(self.policy, Rules)
            and self.policy.consult == "self_ask"
        ):
            raise InputError(
                "consult='self_ask' asks a model: give Augmenter(llm, ...) one"
            )
        if not isinstance(question, str) or not question.strip():
            raise InputError(
                f"question: expected a text that is not blank, got {question!r}"
            )
        memory = WorkingMemory(
            question,
            history=tuple(history),
            searchable=bool(self.consolidator.sources or self.consolidator.wide),
            drafter_brings_evidence=drafter is not None,
        )
        own = (self.task, self.utility, self.feedback, self.limits, self.llm, self.when)
        return self._loop(
            steps.with_evidence(memory, evidence, self.limits),
            steps.LoopParts(*own, drafter, wrap_server),
        )

    def _loop(self, memory: WorkingMemory, parts: steps.LoopParts) -> Flow[Answer]:
        state: WorkingMemory | Answer = memory
        while isinstance(state, WorkingMemory):
            state = yield from self._turn(state, parts)
        return state

    def _turn(
        self, memory: WorkingMemory, parts: steps.LoopParts
    ) -> Flow[WorkingMemory | Answer]:
        """One turn of the loop: what the policy chooses, carried out; an `Answer` when that was the last."""
        stop = self._must_stop(memory)
        if stop:
            return self._end(memory, stop)
        try:
            action = self.policy.choose(memory)
        except Exception as error:
            memory = steps.record_failure(memory, "policy", error, "the loop ended")
            return self._end(memory, StopReason.POLICY_ERROR)
        if not isinstance(action, Action):
            raise InputError(
                f"Policy.choose must return an Action, got {type(action).__name__}"
            )
        memory = memory.with_action(action)
        if isinstance(action, Draft) and (
            stop := self._no_more_drafts(memory, parts.drafter)
        ):
            return self._end(memory, stop)
        try:
            match action:
                case Search():
                    memory = yield from steps.search(
                        memory, self.consolidator, self.limits, wide=action.wide
                    )
                case SelfAsk():
                    memory = yield from steps.self_ask(memory)
                case Readmit():
                    memory = steps.restore_evidence(memory, action.count, self.limits)
                case Draft():
                    memory = yield from steps.draft(memory, parts)
                case Send():
                    return self._end(memory, StopReason.SENT)
                case Abstain():
                    return self._end(memory, StopReason.ABSTAINED)
        except steps.BudgetExhausted as spent:
            return self._end(spent.memory, _spent(spent.error))
        return memory

    def _end(self, memory: WorkingMemory, stop: StopReason) -> Answer:
        return finish_answer(memory, stop, self.limits, self.task, self.utility)

    def _must_stop(self, memory: WorkingMemory) -> StopReason | None:
        """What ends the loop before the policy is asked."""
        if memory.last and memory.last.verdict.passed:
            return StopReason.PASSED
        if memory.last and memory.last.verdict.kind == "unjudged":
            return StopReason.UNJUDGED
        counted = [
            steps.FAILURE_REASONS[what]
            for what, _ in memory.failures
            if what in steps.FAILURE_REASONS
        ]
        if len(counted) >= self.limits.failures:
            return counted[-1]
        if len(memory.actions) >= self.limits.steps:
            return StopReason.STEPS
        return None

    def _no_more_drafts(
        self, memory: WorkingMemory, drafter: Drafter | None
    ) -> StopReason | None:
        """What ends the loop when the policy wants another draft."""
        once = drafter is not None and not drafter.repeatable and not self.limits.rerun
        if once and any(isinstance(a, Draft) for a in memory.actions[:-1]):
            failed = any(what == "draft" for what, _ in memory.failures)
            return (
                StopReason.NOT_REPEATABLE
                if memory.attempts or not failed
                else StopReason.LLM_ERROR
            )
        if not memory.attempts:
            return None
        if memory.draft_count >= self.limits.attempts:
            return StopReason.ATTEMPTS
        if memory.repeats and memory.attempts[-1].evidence == memory.evidence:
            return StopReason.REPEATED_ANSWER
        if memory.attempts_since_best() >= self.limits.patience:
            return StopReason.NO_PROGRESS
        return None


def _spent(error: Exception) -> StopReason:
    if isinstance(error, BudgetExceeded):
        return StopReason.DEADLINE if error.resource == "seconds" else StopReason.BUDGET
    return StopReason.NOT_RECORDED
