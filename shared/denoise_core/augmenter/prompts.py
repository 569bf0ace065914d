"""Prompts: instruction, history, numbered evidence, feedback (paper, section 2.3.2).

The wording is ours; the paper's is not available. `VERSION` changes with every text, so
that recorded runs can be distinguished. Evidence is numbered from 1 in the order
shown and labelled by sentence; a model cites ``[1.2]`` and never sees our ids.

A draft's prompt has a plain form too, for small models, which copy the envelopes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from denoise_core.augmenter.memory import Attempt, WorkingMemory
from denoise_core.support.answer_prompt import INSTRUCTION as PLAIN_INSTRUCTION
from denoise_core.support.answer_prompt import answer_messages
from denoise_core.support.citing import find_citations
from denoise_core.support.labels import (
    EVIDENCE_SYSTEM,
    LabelledEvidence,
    evidence_prefix,
)
from denoise_core.text.delimit import sanitize_text, wrap_in_envelope
from denoise_core.types import Message, Passage, join_header

_DRAFT_CHARACTERS = 4000  # of an earlier candidate shown back to the model
VERSION = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class Task:
    """A kind of work.

    Attributes:
        instruction: What the model must do.
        abstention_text: The sentence sent where nobody wrote one: there was no
            evidence, or ``LoopLimits(unsupported="abstain")``.
        plain_instruction: What the model must do in a plain prompt, which has no labels;
            ``instruction`` if it is empty.
    """

    instruction: str
    abstention_text: str = "I found no answer to this in the evidence at hand."
    plain_instruction: str = ""


QUESTION_ANSWERING = Task(
    instruction="Answer the "
    "question from the evidence alone, as briefly as it can be answered and in the evidence's own "
    "words. Behind each statement put the labels of the sentences that say it in square brackets, like [1.2] or "
    "[1.2, 3.1]. A statement that only follows from the evidence (a count, a sum, a conclusion) gets none. If the "
    "evidence does not hold the answer, say so in one sentence, in the language of the question.",
    plain_instruction=PLAIN_INSTRUCTION,
)

REVISE = (
    "Your draft above was checked against the evidence and did not hold. Write a new answer that puts right every "
    "point listed below. Do not mention the check or the draft."
)


def draft_prompt(
    memory: WorkingMemory, task: Task, *, is_plain: bool = False
) -> tuple[Message, ...]:
    """The messages that ask for a candidate; after a failed one, with that draft and its feedback.

    They begin as those to the judge do, with the labelled evidence and the question: a
    provider's prefix cache then reads the evidence once. ``is_plain``: see
    `plain_draft_prompt`.
    """
    if is_plain:
        return plain_draft_prompt(memory, task)
    prompt_parts = [labelled_prefix(memory)]
    if memory.history:
        history_text = history_block(memory.history)
        prompt_parts.append(history_text)
    prompt_parts.append(task.instruction)
    prompt_text = "\n\n".join(prompt_parts)
    system_message = Message("system", EVIDENCE_SYSTEM)
    task_message = Message("user", prompt_text)
    messages = [system_message, task_message]
    last = memory.last
    if last is not None and last.feedback:
        feedback_text = wrap_in_envelope(last.feedback, "feedback")
        draft_text = draft_block(last.text_without_reasoning)
        revision_text = f"{draft_text}\n\n{REVISE}\n\n{feedback_text}"
        revision_message = Message("user", revision_text)
        messages.append(revision_message)
    return tuple(messages)


def plain_draft_prompt(memory: WorkingMemory, task: Task) -> tuple[Message, ...]:
    """`draft_prompt` without envelopes and labels: END's prompt, which small models follow.

    Texts that are not ours are sanitized, but their marks are the same in every prompt:
    an instruction inside a passage is easier to obey than in `draft_prompt`. A model is
    not asked for citations, and titles in metadata are not shown.
    """
    shown_passages = []
    for passage in memory.evidence:
        shown_text = sanitize_text(passage.text_with_header)
        shown_passage = Passage(shown_text, passage.id)
        shown_passages.append(shown_passage)
    shown_question = sanitize_text(memory.question)
    _, user_message = answer_messages(shown_question, shown_passages)
    prompt_parts = []
    for message in memory.history:
        turn_text = sanitize_text(message.content)
        prompt_parts.append(f"{message.role}: {turn_text}")
    prompt_parts.append(user_message.content)
    prompt_text = "\n\n".join(prompt_parts)
    instruction = task.plain_instruction or task.instruction
    system_message = Message("system", instruction)
    task_message = Message("user", prompt_text)
    messages = [system_message, task_message]
    last = memory.last
    if last is not None and last.feedback:
        draft_start = last.text_without_reasoning[:_DRAFT_CHARACTERS]
        draft_text = sanitize_text(draft_start)
        feedback_text = sanitize_text(last.feedback)
        revision_text = f"Your draft: {draft_text}\n\n{REVISE}\n\n{feedback_text}"
        revision_message = Message("user", revision_text)
        messages.append(revision_message)
    return tuple(messages)


def labelled_prefix(memory: WorkingMemory) -> str:
    """The labelled evidence and the question, with which every prompt about both begins."""
    if not memory.evidence:
        return question_block(memory.question)
    labelled_evidence = LabelledEvidence(memory.evidence)
    return evidence_prefix(labelled_evidence, memory.question)


def question_block(question: str) -> str:
    """The question in its envelope."""
    enclosed_question = wrap_in_envelope(question, "question")
    return f"The question:\n{enclosed_question}"


def history_block(history: Sequence[Message]) -> str:
    """The conversation in its envelope."""
    turn_lines = [f"{message.role}: {message.content}" for message in history]
    conversation_text = "\n".join(turn_lines)
    return wrap_in_envelope(conversation_text, "history")


def draft_block(candidate: str) -> str:
    """The beginning of a draft in its envelope."""
    draft_start = candidate[:_DRAFT_CHARACTERS]
    return wrap_in_envelope(draft_start, "draft")


def with_title_line(passage: Passage) -> str:
    """The text behind its header, or else behind its title.

    The title of the metadata is left out when the text begins with it.
    """
    shown_header = passage.header or title_of(passage)
    return join_header(shown_header, passage.text)


def title_of(passage: Passage) -> str:
    """The title of the metadata; "" where there is none or the text begins with it."""
    title = passage.metadata.get("title")
    has_title = isinstance(title, str) and not passage.text.startswith(title)
    return str(title) if has_title else ""


def cited_passages(attempt: Attempt) -> tuple[Passage, ...]:
    """The passages that a draft cites, in order of first mention."""
    evidence = attempt.evidence
    passages_by_id = {passage.id: passage for passage in evidence}
    cited_ids: dict[str, None] = {}  # ordered, each once
    citations = find_citations(
        attempt.candidate,
        evidence,
        attempt.citations,
        is_numbered=attempt.evidence_is_numbered,
    )
    for citation in citations:
        cited_ids |= dict.fromkeys(citation.ids)
    return tuple(passages_by_id[passage_id] for passage_id in cited_ids)
