"""`Verifier`: how answers are judged, explained and asked for again."""

from __future__ import annotations

from collections.abc import Callable, Sequence
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
from denoise_core.augmenter.drafting import RetrievedEvidence
from denoise_core.augmenter.drafting.conversation import conversation_evidence
from denoise_core.augmenter.prompts import QUESTION_ANSWERING, Task
from denoise_core.augmenter.traces.record import claims_record
from denoise_core.augmenter.utility import JUDGE_OFF, When, as_utility
from denoise_core.runtime.record import RECORD_KEY
from denoise_core.support.judging import Judge
from denoise_core.support.quoting import LLMJudge
from langchain_denoise.convert.messages import block_text, to_core_messages
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
        judge: Judge
        | Utility
        | Runnable[Any, Any]
        | str
        | Callable[..., Any]
        | None = None,
        feedback: Feedback | None = None,
        limits: LoopLimits | None = None,
        budget: Budget | None = None,
        should_judge: When | None = None,
        task: Task = QUESTION_ANSWERING,
        on_answer: Callable[[Answer], None] | None = None,
        annotate: bool = False,
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
            on_answer: Called with each `denoise_core.augmenter.Answer`.
            annotate: Write the verdict into an answer that is a message, as annotations
                of its text: a citation for each quote, a note on each unsupported claim.
        """
        if on_answer is not None and not callable(on_answer):
            type_name = type(on_answer).__name__
            raise InputError(
                f"on_answer: expected a function of an Answer, got {type_name}"
            )
        self.loop = Augmenter(
            judge=None if judge is None else utility_from_judge(judge),
            feedback=feedback,
            limits=limits,
            budget=budget,
            when=should_judge,
            task=task,
        )
        self.on_answer = on_answer
        self.annotate = annotate

    @property
    def limits(self) -> LoopLimits:
        """How many drafts, how much time and how many calls the loop may use."""
        return self.loop.limits

    def loop_for(self, model: AnyRunnable | None) -> Augmenter:
        """The loop, judged by the model that drafts unless ``judge`` says otherwise."""
        if model is None:
            return self.loop
        return self.loop.with_judge_model(ChatModelLLM(model))

    def notify(self, answer: Answer) -> Answer:
        """Call ``on_answer``, and return the answer."""
        if self.on_answer is not None:
            self.on_answer(answer)
        return answer


def utility_from_judge(judge: Any) -> Utility:
    """The loop's utility for a judge of any kind.

    Raises:
        InputError: For an object that cannot judge.
    """
    if isinstance(judge, (Runnable, str)) and judge != JUDGE_OFF:
        return as_utility(LLMJudge(as_llm(judge, "judge")))
    return as_utility(judge)


def earlier_evidence(
    messages: Sequence[BaseMessage],
) -> tuple[RetrievedEvidence, ...]:
    """What the conversation's earlier answers rested on, from their records."""
    states = []
    for message in reversed(messages):
        record = stored_record(message)
        states.append(record.get(CITED_KEY))
    return conversation_evidence(states)


def stored_record(message: BaseMessage) -> Record:
    """The record of the answer in a message; {} where there is none of this package."""
    record = message.response_metadata.get(RECORD_KEY)
    return record if isinstance(record, dict) else {}


def history_before_question(messages: Sequence[Any]) -> tuple[Any, ...]:
    """The messages before the last human message, as the core's messages."""
    for position in reversed(range(len(messages))):
        if messages[position].type == "human":
            return to_core_messages(messages[:position])
    return ()


def annotate_message(message: BaseMessage, answer: Answer) -> BaseMessage:
    """The message with annotations on the text block that holds the answer.

    A string content becomes one such block. Unchanged if no block holds the answer, or if
    there is nothing to annotate.
    """
    is_text_only = isinstance(message.content, str)
    content: list[Any] = [message.content] if is_text_only else list(message.content)
    for position, block in enumerate(content):
        text = block_text(block)
        if text is None or answer.text not in text:
            continue
        notes = claim_annotations(answer, text.find(answer.text))
        if notes:
            is_string = isinstance(block, str)
            text_block = {"type": "text", "text": text} if is_string else block
            annotations = [*(text_block.get("annotations") or []), *notes]
            content[position] = {**text_block, "annotations": annotations}
            return message.model_copy(update={"content": content})
    return message


def claim_annotations(answer: Answer, offset: int = 0) -> list[Record]:
    """The annotations of an answer's claims, in LangChain's standard form.

    Args:
        answer: The judged answer.
        offset: Where the answer starts in the text.

    Returns:
        For each supported claim one citation per quote: ``start_index`` and ``end_index``
        are the claim's characters in the text, ``cited_text`` is the document's,
        ``extras`` its id and the quote's half-open range in it. For each other claim a
        ``non_standard_annotation``.
    """
    metadata_by_id = {
        passage.id: passage.metadata for passage in answer.memory.evidence
    }
    annotations: list[Record] = []
    for claim in claims_record(answer):
        char_range = {
            "start_index": offset + claim["start"],
            "end_index": offset + claim["end"],
        }
        if not claim["supported"]:
            note = {
                **char_range,
                "supported": claim["supported"],
                "why": claim["why"],
            }
            value = {RECORD_KEY: note}
            annotations.append({"type": "non_standard_annotation", "value": value})
            continue
        for quote in claim["quotes"]:
            source = _citation_source(metadata_by_id.get(quote["id"], {}))
            extras = {"id": quote["id"], "span": [quote["start"], quote["end"]]}
            citation = {"cited_text": quote["text"], "extras": extras}
            annotations.append({"type": "citation", **char_range, **source, **citation})
    return annotations


def _citation_source(metadata: Any) -> dict[str, str]:
    url = metadata.get("url") or metadata.get("source")
    title = metadata.get("title")
    values = {"url": url, "title": title}
    return {key: str(value) for key, value in values.items() if value}
