"""The loop: search -> draft -> judge -> (send | feedback | other evidence) -> again.

Whatever fails outside, the result is an `Answer` with an `Outcome` and a `StopReason`;
only cancellation and user errors (`denoise_core.errors.is_user_error`: settings, types, a
refused key) are raised. What is sent is the best attempt, never merely the last.
"""

from __future__ import annotations

import copy
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
    Send,
)
from denoise_core.augmenter.answer import Answer, StopReason, finish_answer
from denoise_core.augmenter.drafting.drafter import Drafter
from denoise_core.augmenter.feedback import Feedback, TemplateFeedback
from denoise_core.augmenter.knowledge.consolidate import Consolidator
from denoise_core.augmenter.memory import WorkingMemory
from denoise_core.augmenter.policy import LoopLimits, Policy, Rules
from denoise_core.augmenter.prompts import QUESTION_ANSWERING, Task
from denoise_core.augmenter.utility import Groundedness, Utility, When, as_utility
from denoise_core.errors import InputError
from denoise_core.protocols import LLM, Denoiser, Retriever, expect_llm
from denoise_core.runtime.budget import Budget
from denoise_core.runtime.effects import Flow
from denoise_core.runtime.fallbacks import log_fallback
from denoise_core.runtime.flow import arun, run
from denoise_core.support.judging import Judge
from denoise_core.types import Message, Passage


class Augmenter:
    """LLM-Augmenter (arXiv 2302.12813, section 2) around a model or any other drafter.

    Args:
        llm: Writes the drafts, unless `answer` gets a `Drafter`.
        retriever: Any retriever, or a `Consolidator` for several sources, queries or
            chains. Without one the loop does not search.
        denoiser: Denoises what is retrieved before the prompt.
        judge: Any judge, an LLM (which then judges unit by unit) or a function. None is
            ``llm`` for what does not repeat a sentence that it cites (`CitationJudge`),
            ``"off"`` is nobody; without a model nobody judges.
        policy: Chooses the actions; `Rules` by default.
        feedback: Explains a failed draft; `TemplateFeedback` by default.
        budget: Covers model, judge and retriever together.
        limits: The bounds of the loop.
        task: The instruction, and the words of an abstention that no model wrote.
        when: ``when(question, answer)`` says what is judged; by default
            everything.
        plain_prompts: True asks ``llm`` for drafts without delimiters around the evidence,
            for small models, which copy them, and for trusted texts
            (`prompts.plain_draft_prompt`). By default a draft with such a copy is asked
            for once more in this way; with False it fails.

    Raises:
        InputError: For a setting of another type, and for a ``denoiser`` without a
            retriever, or with a `Consolidator`, which takes it itself.
    """

    def __init__(
        self,
        llm: LLM | None = None,
        retriever: Retriever | Consolidator | None = None,
        *,
        denoiser: Denoiser | None = None,
        judge: Judge | Utility | LLM | Callable[..., Any] | str | None = None,
        policy: Policy | None = None,
        feedback: Feedback | None = None,
        budget: Budget | None = None,
        limits: LoopLimits | None = None,
        task: Task = QUESTION_ANSWERING,
        when: When | None = None,
        plain_prompts: bool | None = None,
    ) -> None:
        is_consolidator = isinstance(retriever, Consolidator)
        if denoiser is not None and (retriever is None or is_consolidator):
            raise InputError(
                "denoiser= needs a retriever; to a Consolidator it is given as "
                "Consolidator(sources, denoiser=...)"
            )
        if isinstance(retriever, Consolidator):
            self.consolidator = retriever
        else:
            sources = () if retriever is None else (retriever,)
            self.consolidator = Consolidator(sources, denoiser=denoiser)
        _expect_settings("limits", limits, LoopLimits)
        _expect_settings("budget", budget, Budget)
        self.llm = None if llm is None else expect_llm(llm)
        self.utility = as_utility(judge, self.llm)
        self._lacks_judge = judge is None and self.llm is None
        self.policy = policy or Rules()
        self.feedback = feedback or TemplateFeedback()
        self.budget = budget
        self.limits = limits or LoopLimits()
        self.task = task
        self.when = when
        self.plain_prompts = plain_prompts

    def with_limits(self, **limits: Any) -> Augmenter:
        """The loop under other limits; see `LoopLimits`."""
        loop = copy.copy(self)
        loop.limits = replace(self.limits, **limits)
        return loop

    def with_judge_model(self, llm: LLM | None) -> Augmenter:
        """A loop that ``llm`` judges, if nothing says who judges; else this loop.

        An adapter gives the model that it finds in the user's chain or engine.
        """
        if llm is None or not self._lacks_judge:
            return self
        loop = copy.copy(self)
        loop.utility = Groundedness.for_model(llm)
        loop._lacks_judge = False
        return loop

    def answer(
        self,
        question: str,
        history: Sequence[Message] = (),
        *,
        drafter: Drafter | None = None,
        evidence: Sequence[Passage] = (),
    ) -> Answer:
        """Answer a question as well as the evidence allows. Starts no event loop.

        Args:
            question: The question.
            history: The conversation before it.
            drafter: Writes the drafts instead of the model.
            evidence: Passages at hand already.

        Returns:
            The best answer, and how far it can be trusted.
        """
        flow = self.flow(question, history, drafter=drafter, evidence=evidence)
        run_options = self.run_options()
        answer, trace = run(flow, **run_options)
        return replace(answer, trace=trace)

    async def aanswer(
        self,
        question: str,
        history: Sequence[Message] = (),
        *,
        drafter: Drafter | None = None,
        evidence: Sequence[Passage] = (),
    ) -> Answer:
        """Answer without blocking the event loop; a call that times out is cancelled."""
        flow = self.flow(question, history, drafter=drafter, evidence=evidence)
        run_options = self.run_options()
        answer, trace = await arun(flow, **run_options)
        return replace(answer, trace=trace)

    def run_options(self) -> dict[str, Any]:
        """The arguments of `run` or `arun` for `flow`: model, budget, time for a call."""
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
        """Return the loop as a flow for `run`, `arun` or another flow.

        Its `Answer` has no trace yet. ``wrap_server`` maps the server of each draft to
        the one that is asked: a stream listens there.

        Raises:
            InputError: For a question without text, or when nothing can write.
        """
        self._check_question(question, drafter)
        if self._lacks_judge:
            log_fallback(
                "Augmenter",
                'no judge= and no model at hand; judge="off" wants it so',
                "answers are not judged",
            )
        search_sources = self.consolidator.sources or self.consolidator.wide
        has_drafter = drafter is not None
        memory = WorkingMemory(
            question,
            history=tuple(history),
            searchable=bool(search_sources),
            drafter_brings_evidence=has_drafter,
        )
        parts = steps.LoopParts(
            self.task,
            self.utility,
            self.feedback,
            self.limits,
            self.llm,
            self.when,
            drafter,
            wrap_server,
            self.plain_prompts,
        )
        memory = steps.with_evidence(memory, evidence, self.limits)
        return self._run_loop(memory, parts)

    def _check_question(self, question: str, drafter: Drafter | None) -> None:
        if drafter is not None and not isinstance(drafter, Drafter):
            raise InputError(
                "drafter: expected draft, adraft and repeatable, got a "
                f"{type(drafter).__name__}; for a text that is written already use "
                "FixedText(text, evidence)"
            )
        if self.llm is None and drafter is None:
            raise InputError(
                "nobody writes: give Augmenter(llm, ...) a model, or "
                "answer(..., drafter=...) a drafter"
            )
        if not isinstance(question, str) or not question.strip():
            raise InputError(
                f"question: expected a text that is not blank, got {question!r}"
            )

    def _run_loop(self, memory: WorkingMemory, parts: steps.LoopParts) -> Flow[Answer]:
        while True:
            stop_reason = self._stop_reason(memory)
            if stop_reason is not None:
                return self._finish(memory, stop_reason)
            try:
                action = self.policy.choose(memory)
            except Exception as error:
                memory = steps.record_failure(memory, "policy", error, "the loop ended")
                return self._finish(memory, StopReason.POLICY_ERROR)
            if not isinstance(action, Action):
                action_type = type(action).__name__
                raise InputError(
                    f"Policy.choose must return an Action, got {action_type}"
                )
            memory = memory.with_action(action)
            stop_reason = self._action_stop_reason(memory, action, parts.drafter)
            if stop_reason is not None:
                return self._finish(memory, stop_reason)
            try:
                memory = yield from self._take_action(memory, action, parts)
            except steps.BudgetExhausted as exhausted:
                is_late = exhausted.error.resource == "seconds"
                stop_reason = StopReason.DEADLINE if is_late else StopReason.BUDGET
                return self._finish(exhausted.memory, stop_reason)

    def _take_action(
        self, memory: WorkingMemory, action: Action, parts: steps.LoopParts
    ) -> Flow[WorkingMemory]:
        match action:
            case Search():
                return (
                    yield from steps.search(
                        memory, self.consolidator, self.limits, wide=action.wide
                    )
                )
            case Readmit():
                return steps.restore_evidence(memory, action.count, self.limits)
            case _:
                return (yield from steps.draft(memory, parts))

    def _finish(self, memory: WorkingMemory, stop_reason: StopReason) -> Answer:
        return finish_answer(memory, stop_reason, self.limits, self.task, self.utility)

    def _stop_reason(self, memory: WorkingMemory) -> StopReason | None:
        """What ends the loop before the policy is asked; None to go on."""
        last = memory.last
        if last is not None and last.verdict.passed:
            return StopReason.PASSED
        if last is not None and last.verdict.kind == "unjudged":
            return StopReason.UNJUDGED
        failed_parts = [what for what, _ in memory.failures]
        loop_failures = [what for what in failed_parts if what in steps.FAILURE_REASONS]
        if len(loop_failures) >= self.limits.failures:
            last_failure = loop_failures[-1]
            return steps.FAILURE_REASONS[last_failure]
        if len(memory.actions) >= self.limits.steps:
            return StopReason.STEPS
        return None

    def _action_stop_reason(
        self, memory: WorkingMemory, action: Action, drafter: Drafter | None
    ) -> StopReason | None:
        """What ends the loop with the chosen action; None to carry it out."""
        if isinstance(action, Send):
            return StopReason.SENT
        if isinstance(action, Abstain):
            return StopReason.ABSTAINED
        if isinstance(action, Draft):
            return self._draft_stop_reason(memory, drafter)
        return None

    def _draft_stop_reason(
        self, memory: WorkingMemory, drafter: Drafter | None
    ) -> StopReason | None:
        """What ends the loop when the policy wants another draft."""
        is_once = drafter is not None and not drafter.repeatable
        earlier_actions = memory.actions[:-1]
        has_drafted = any(isinstance(action, Draft) for action in earlier_actions)
        if is_once and has_drafted and not self.limits.rerun:
            has_failed = any(what == "draft" for what, _ in memory.failures)
            if has_failed and not memory.attempts:
                return StopReason.LLM_ERROR
            return StopReason.NOT_REPEATABLE
        if not memory.attempts:
            return None
        if memory.draft_count >= self.limits.attempts:
            return StopReason.ATTEMPTS
        if memory.repeats and memory.attempts[-1].evidence == memory.evidence:
            return StopReason.REPEATED_ANSWER
        if memory.attempts_since_best() >= self.limits.patience:
            return StopReason.NO_PROGRESS
        return None


def _expect_settings(name: str, value: Any, settings_class: type) -> None:
    if value is not None and not isinstance(value, settings_class):
        class_name = settings_class.__name__
        raise InputError(f"{name}: expected {class_name}(...), got {value!r:.60}")


def answer_with_citations(
    llm: LLM,
    question: str,
    passages: Sequence[Passage],
    *,
    history: Sequence[Message] = (),
    budget: Budget | None = None,
) -> Answer:
    """Answer from passages in one draft, whose citations code checks before the model.

    The model cites the sentences behind each statement. A second call judges the
    statements that do not repeat a cited sentence word for word, in a prompt that begins
    with the same evidence; if all do, it says only whether they answer the question. A
    third one asks for lines that are missing. Nothing is written again: for that, and in
    async code, use `Augmenter`.

    Args:
        llm: Writes the answer, and judges what code cannot check.
        question: The question.
        passages: The evidence.
        history: The conversation before it.
        budget: Bounds all calls together.

    Returns:
        The answer as the model wrote it, with the verdict on each unit.
    """
    draft_rules = Rules(consult="never")
    one_draft = LoopLimits(attempts=1)
    loop = Augmenter(llm, policy=draft_rules, limits=one_draft, budget=budget)
    return loop.answer(question, history, evidence=passages)
