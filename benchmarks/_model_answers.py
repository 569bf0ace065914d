"""Answers of a local model by what it reads and by how it is asked; each reply is greedy.

``answer_replies``: from 1, 5, 10 and all 20 passages, and from what END keeps of them. ``draft_replies``: the
loop's first draft over five passages by its plain prompt, next to END's own prompt.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TypeAlias

from denoise_core.augmenter.memory import WorkingMemory
from denoise_core.augmenter.prompts import QUESTION_ANSWERING, draft_prompt
from denoise_core.end.denoiser import ENDDenoiser
from denoise_core.evaluate.metrics import contains_answer
from denoise_core.local.generation import LocalLLM
from denoise_core.protocols import Scorer
from denoise_core.question import Question
from denoise_core.support.answer_prompt import answer_messages
from denoise_core.text.delimit import copies_envelope
from denoise_core.types import Message, Passage
from denoise_lab.experiments.real_sets import cut_question

Messages: TypeAlias = tuple[Message, ...]
Ask: TypeAlias = Callable[[Question], Messages]

READ_COUNTS = (5, 1, 10, 20)
KEPT_COUNTS = (6, 3)
FIVE, PLAIN = "5 passages", "plain draft"
ALL = "20 passages"
NEW_TOKENS = 24


@dataclass(frozen=True)
class ModelReply:
    """What the model replied to a question in one way, and the CPU seconds of it, scoring included."""

    text: str
    is_right: bool
    seconds: float

    @property
    def has_envelope(self) -> bool:
        return copies_envelope(self.text)


Replies: TypeAlias = Mapping[
    str, Sequence[ModelReply]
]  # by way, in one order of questions


def draft_replies(llm: LocalLLM, questions: Sequence[Question]) -> Replies:
    """END's own prompt over five passages, and the loop's first draft over the same."""
    ways: dict[str, Ask] = {
        FIVE: lambda question: _read(question, 5),
        PLAIN: _plain_draft,
    }
    return ask_all(llm, ways, questions)


def answer_replies(
    llm: LocalLLM, scorer: Scorer, questions: Sequence[Question]
) -> Replies:
    """From so many passages, and from so many that END keeps of all."""
    ways: dict[str, Ask] = {}
    for count in READ_COUNTS:
        ways[f"{count} passages"] = partial(_read, count=count)
    for count in KEPT_COUNTS:
        denoiser = ENDDenoiser(scorer, keep=count)
        ways[f"END keeps {count}"] = partial(_read_kept, denoiser=denoiser)
    return ask_all(llm, ways, questions)


def ask_all(
    llm: LocalLLM, ways: Mapping[str, Ask], questions: Sequence[Question]
) -> Replies:
    """The replies to each question in every way."""
    replies: dict[str, list[ModelReply]] = {way: [] for way in ways}
    for question in questions:
        for way, ask in ways.items():
            start_time = time.process_time()
            text = llm.complete(ask(question)).text
            seconds = time.process_time() - start_time
            is_right = contains_answer(text, question.answers)
            replies[way].append(ModelReply(text, is_right, seconds))
    return replies


def _read_kept(question: Question, denoiser: ENDDenoiser) -> Messages:
    kept = denoiser.denoise(question.text, question.passages)
    return answer_messages(question.text, kept.passages)


def _read(question: Question, count: int) -> Messages:
    return answer_messages(question.text, _passages(question, count))


def _passages(question: Question, count: int) -> tuple[Passage, ...]:
    """The needed passages and the first others; one that is needed if that is all that is read."""
    if count > 1:
        return cut_question(question, count).passages
    needed = [passage for passage in question.passages if passage.id in question.gold]
    return tuple(needed[:1])


def _plain_draft(question: Question) -> Messages:
    memory = WorkingMemory(question.text, evidence=_passages(question, 5))
    return draft_prompt(memory, QUESTION_ANSWERING, is_plain=True)
