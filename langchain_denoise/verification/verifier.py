"""`Verifier`: how answers are judged, explained and asked for again; the loop of LLM-Augmenter around your own."""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from langchain_core.messages import BaseMessage
from langchain_core.runnables import Runnable

from denoise_core import Budget, InputError
from denoise_core.augmenter import (
    Answer,
    Augmenter,
    Feedback,
    LoopLimits,
    Policy,
    Utility,
)
from denoise_core.augmenter.prompts import QUESTION_ANSWERING, Task
from denoise_core.augmenter.traces.record import claims_record
from denoise_core.augmenter.utility import When, as_utility
from denoise_core.runtime.record import RECORD_KEY
from denoise_core.support.judging import Judge
from denoise_core.support.quoting import LLMJudge
from langchain_denoise.convert.messages import block_text, to_core_messages


class Verifier:
    """The settings of verification, shared by `verified` and the agent middleware.

    ``judge`` judges: any judge of the core, a function, or a chat model (a runnable or its
    name), which then judges by its quotes; None is the core's own. ``feedback`` explains, ``policy`` decides,
    ``limits`` bounds the drafts and says what is sent when none holds, ``budget`` covers drafts, judge and
    feedback together. ``when(question, answer)`` says what is judged at all; None judges everything. ``task``
    holds the words sent when abstaining. ``on_answer`` is called with each `denoise_core.augmenter.Answer`.
    ``annotate`` puts the verdict into an answer that is a message, as annotations of its text: a citation for each
    quote, a note on each claim without one.

    >>> from denoise_core.augmenter import LoopLimits
    >>> Verifier(judge=lambda question, evidence, claim: 0.9, limits=LoopLimits(attempts=2)).limits.attempts
    2
    """

    def __init__(
        self,
        *,
        judge: Judge
        | Utility
        | Runnable[Any, Any]
        | str
        | Callable[..., Any]
        | None = None,
        feedback: Feedback | None = None,
        policy: Policy | None = None,
        limits: LoopLimits | None = None,
        budget: Budget | None = None,
        should_judge: When | None = None,
        task: Task = QUESTION_ANSWERING,
        on_answer: Callable[[Answer], None] | None = None,
        annotate: bool = False,
    ) -> None:
        if on_answer is not None and not callable(on_answer):
            raise InputError(
                f"on_answer: expected a function of an Answer, got {type(on_answer).__name__}"
            )
        for name, value, kind in (
            ("limits", limits, LoopLimits),
            ("budget", budget, Budget),
        ):
            if value is not None and not isinstance(value, kind):
                raise InputError(
                    f"{name}: expected {kind.__name__}(...), got {value!r:.60}"
                )
        self.loop = Augmenter(
            judge=None if judge is None else utility_from_judge(judge),
            feedback=feedback,
            policy=policy,
            limits=limits,
            budget=budget,
            when=should_judge,
            task=task,
        )
        self.on_answer = on_answer
        self.annotate = annotate

    @property
    def limits(self) -> LoopLimits:
        """How often, how long and how much the loop tries."""
        return self.loop.limits

    def loop_with_limits(self, **limits: Any) -> Augmenter:
        """The loop under other limits, as for an agent that has made some of its drafts already."""
        loop = copy.copy(self.loop)
        loop.limits = replace(loop.limits, **limits)
        return loop

    def notify(self, answer: Answer) -> Answer:
        """The answer, after ``on_answer`` has seen it."""
        if self.on_answer is not None:
            self.on_answer(answer)
        return answer


def utility_from_judge(judge: Any) -> Utility:
    """What the loop asks, from whatever judges. Raises `InputError` for what does not."""
    if isinstance(judge, (Runnable, str)):
        from langchain_denoise.models.chat_llm import as_llm

        return as_utility(LLMJudge(as_llm(judge, "judge")))
    return as_utility(judge)


def history_before_question(messages: Sequence[Any]) -> tuple[Any, ...]:
    """What was said before the last human message, as the core's messages."""
    last = max((i for i, m in enumerate(messages) if m.type == "human"), default=0)
    return to_core_messages(messages[:last])


def annotate_message(message: BaseMessage, answer: Answer) -> BaseMessage:
    """The message with annotations on the text block that holds the answer; a content that was a string becomes
    one such block. As it came where the answer is not what was judged, or nothing was said of it."""
    content: list[Any] = (
        [message.content] if isinstance(message.content, str) else list(message.content)
    )
    for at, block in enumerate(content):
        text = block_text(block)
        if (
            text is not None
            and answer.text in text
            and (notes := claim_annotations(answer, text.find(answer.text)))
        ):
            whole = {"type": "text", "text": text} if isinstance(block, str) else block
            content[at] = {
                **whole,
                "annotations": [*(whole.get("annotations") or []), *notes],
            }
            return message.model_copy(update={"content": content})
    return message


def claim_annotations(answer: Answer, offset: int = 0) -> list[dict[str, Any]]:
    """For each claim of the answer that is supported a citation for each quote: ``start_index`` and ``end_index``
    are the claim's characters in the text, ``offset`` later, ``cited_text`` the document's, ``extras`` its id and
    the quote's half-open range in it. For each other claim a note of LangChain's kind for what is ours alone."""
    about = {p.id: p.metadata for p in answer.memory.evidence}
    notes: list[dict[str, Any]] = []
    for claim in claims_record(answer):
        where = {
            "start_index": offset + claim["start"],
            "end_index": offset + claim["end"],
        }
        for quote in claim["quotes"] if claim["supported"] else ():
            named = about.get(quote["id"], {})
            known = {
                "url": named.get("url") or named.get("source"),
                "title": named.get("title"),
            }
            extras = {"id": quote["id"], "span": [quote["start"], quote["end"]]}
            named = {key: str(value) for key, value in known.items() if value}
            notes.append(
                {
                    "type": "citation",
                    **where,
                    **named,
                    "cited_text": quote["text"],
                    "extras": extras,
                }
            )
        if not claim["supported"]:
            value = {
                RECORD_KEY: {
                    **where,
                    "supported": claim["supported"],
                    "why": claim["why"],
                }
            }
            notes.append({"type": "non_standard_annotation", "value": value})
    return notes
