"""`Verifier`: how answers are judged, explained and asked for again."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from langchain_core.messages import BaseMessage
from langchain_core.runnables import Runnable

from denoise_core import Budget, InputError
from denoise_core.augmenter import (
    Answer,
    Augmenter,
    Feedback,
    LoopLimits,
    Utility,
)
from denoise_core.augmenter.drafting.conversation import (
    cited_state,
    conversation_evidence,
)
from denoise_core.augmenter.prompts import QUESTION_ANSWERING, Task
from denoise_core.augmenter.traces.record import answer_record, claims_record
from denoise_core.augmenter.utility import JUDGE_OFF, When
from denoise_core.runtime.record import RECORD_KEY
from denoise_core.support.judging import Judge
from denoise_core.support.quoting import LLMJudge
from langchain_denoise.convert.chain_values import Evidence
from langchain_denoise.convert.messages import Messages
from langchain_denoise.models.bindings import AnyRunnable
from langchain_denoise.models.chat_llm import ChatModelLLM, as_llm
from langchain_denoise.observe import Record

CITED_KEY = "cited"
"""In the record of an answer, the passages that it rests on."""


class Verifier:
    """The settings of verification, shared by `verified` and the agent middleware.

    >>> from denoise_core.augmenter import LoopLimits
    >>> judge = lambda question, evidence, claim: 0.9
    >>> Verifier(judge=judge, limits=LoopLimits(attempts=2)).limits.attempts
    2
    """

    def __init__(
        self,
        *,
        judge: Judge | Utility | AnyRunnable | str | Callable[..., Any] | None = None,
        feedback: Feedback | None = None,
        limits: LoopLimits | None = None,
        budget: Budget | None = None,
        should_judge: When | None = None,
        task: Task = QUESTION_ANSWERING,
    ) -> None:
        """Check and store the settings.

        Args:
            judge: Any judge of the core, a function, or a chat model (a runnable or its
                name), which then judges by its quotes. None is the model that writes the
                answer, ``"off"`` is nobody.
            feedback: Explains to the model what is wrong with a draft.
            limits: Bounds the drafts, and says what is sent when none holds.
            budget: Covers drafts, judge and feedback together.
            should_judge: ``should_judge(question, answer)`` decides whether an answer is
                judged; None judges everything.
            task: The texts that are sent when abstaining.
        """
        core_judge: Any = judge
        if isinstance(judge, (Runnable, str)) and judge != JUDGE_OFF:
            core_judge = LLMJudge(as_llm(judge, "judge"))
        self.loop = Augmenter(
            judge=core_judge,
            feedback=feedback,
            limits=limits,
            budget=budget,
            when=should_judge,
            task=task,
        )

    @property
    def limits(self) -> LoopLimits:
        """How many drafts, how much time and how many calls the loop may use."""
        return self.loop.limits

    def loop_for(self, model: AnyRunnable | None) -> Augmenter:
        """The loop, judged by the model that drafts unless ``judge`` says otherwise."""
        if model is None:
            return self.loop
        return self.loop.with_judge_model(ChatModelLLM(model))


def verifier_or_default(verifier: Verifier | None) -> Verifier:
    """The verifier; without one, the model that writes the answer judges it.

    Raises:
        InputError: For another object.
    """
    if verifier is None:
        return Verifier()
    if not isinstance(verifier, Verifier):
        raise InputError(
            f"verifier: expected a Verifier, got {type(verifier).__name__}; "
            "Verifier(judge=...)"
        )
    return verifier


def earlier_evidence(messages: Messages) -> Evidence:
    """What the conversation's earlier answers rested on, from their records."""
    records = map(stored_record, reversed(messages))
    return conversation_evidence([record.get(CITED_KEY) for record in records])


def record_for_output(answer: Answer) -> Record:
    """The record as an output has it: with the verdict on each claim and what is cited."""
    return {
        **answer_record(answer),
        "claims": claims_record(answer),
        CITED_KEY: cited_state(answer),
    }


def stored_record(message: BaseMessage) -> Record:
    """The record of the answer in a message; {} where there is none of this package."""
    record = message.response_metadata.get(RECORD_KEY)
    return record if isinstance(record, dict) else {}
