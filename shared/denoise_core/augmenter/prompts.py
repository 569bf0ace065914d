"""Prompt engine: instruction, history, evidence with numbers, feedback (paper, section 2.3.2), and their texts.

The wording is ours; the paper's is not available. `VERSION` changes whenever a text does, so that recorded runs
can be told apart. Evidence is numbered from 1 in the order shown; a model cites ``[1]`` and never sees our ids.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from denoise_core.augmenter.memory import WorkingMemory
from denoise_core.support.citing import find_citations
from denoise_core.text.delimit import ENVELOPE_NOTE, wrap_in_envelope
from denoise_core.types import Message, Passage

_DRAFT_CHARACTERS = 4000  # of an earlier candidate shown back to the model
VERSION = 3


@dataclass(frozen=True, slots=True)
class Task:
    """A kind of work: what the model is told to do, what it says when the evidence does not suffice (``unknown_reply``,
    for the loop to recognise, as `NO_ANSWER_MARK` is), and what the user is told then (``abstention_text``, a sentence)."""

    name: str
    instruction: str
    unknown_reply: str
    abstention_text: str = "I found no answer to this in the evidence at hand."


NO_ANSWER_MARK = '{"answered": false, "nearest": "one sentence of what the evidence says that comes nearest"}'
"""What a draft is to be, by contract, when the evidence does not hold the answer."""

QUESTION_ANSWERING = Task(
    "question_answering",
    "Answer the question from the evidence alone, as briefly as it can be answered. After each statement put "
    "the number of the evidence it rests on in square brackets, like [1]. If the evidence does not hold the "
    f"answer, reply with this object and nothing else: {NO_ANSWER_MARK}",
    "unknown",
)

SELF_ASK = (
    "Could you answer the question below correctly and completely without looking anything up? "
    "Reply with one word: yes or no."
)

REVISE = (
    "Your draft above was checked against the evidence and did not hold. Write a new answer that puts right every "
    "point listed below. Do not mention the check or the draft."
)


def draft_prompt(memory: WorkingMemory, task: Task) -> tuple[Message, ...]:
    """The messages that ask for a candidate; after a failed one, with that draft and its feedback."""
    parts = []
    if memory.history:
        parts.append(history_block(memory.history))
    parts += [evidence_block(memory.evidence), question_block(memory.question)]
    messages = [
        Message("system", f"{task.instruction}\n{ENVELOPE_NOTE}"),
        Message("user", "\n\n".join(parts)),
    ]
    last = memory.last
    if last and not last.verdict.passed and last.feedback:
        feedback = wrap_in_envelope(last.feedback, "feedback")
        messages.append(
            Message("user", f"{draft_block(last.candidate)}\n\n{REVISE}\n\n{feedback}")
        )
    return tuple(messages)


def self_ask_prompt(memory: WorkingMemory) -> tuple[Message, ...]:
    return (
        Message("system", SELF_ASK),
        Message("user", question_block(memory.question)),
    )


def question_block(question: str) -> str:
    return f"The question:\n{wrap_in_envelope(question, 'question')}"


def history_block(history: Sequence[Message]) -> str:
    return wrap_in_envelope(
        "\n".join(f"{m.role}: {m.content}" for m in history), "history"
    )


def draft_block(candidate: str) -> str:
    return wrap_in_envelope(candidate[:_DRAFT_CHARACTERS], "draft")


def evidence_block(evidence: Sequence[Passage]) -> str:
    """The passages under their numbers; one without text keeps its number and is not shown."""
    shown = [
        wrap_in_envelope(with_title_line(p), f"evidence {n}")
        for n, p in enumerate(evidence, 1)
        if p.text.strip()
    ]
    return "\n".join(shown) or "(There is no evidence.)"


def with_title_line(passage: Passage) -> str:
    """The text as it is read: behind its header, or else its title when the metadata has one that the text does
    not begin with."""
    if passage.header:
        return passage.text_with_header
    title = passage.metadata.get("title")
    if not isinstance(title, str) or not title or passage.text.startswith(title):
        return passage.text
    return f"{title}\n{passage.text}"


def cited_passages(candidate: str, evidence: Sequence[Passage]) -> tuple[Passage, ...]:
    """The passages a candidate names, in order of first mention; what names none is left out."""
    by_id = {p.id: p for p in evidence}
    return tuple(
        by_id[i]
        for i in dict.fromkeys(
            i for c in find_citations(candidate, evidence) for i in c.ids
        )
    )
