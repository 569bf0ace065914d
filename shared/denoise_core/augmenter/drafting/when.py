"""What is judged at all: a greeting, thanks, a question back or a tool call makes no statement to check.

And what no judge need be asked about, nor can pass: an empty text, the word or mark that says "I do not know", the
question said back.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

from denoise_core.augmenter.memory import Reason, Verdict
from denoise_core.augmenter.prompts import Task
from denoise_core.support.abstention import ABSTAINS, abstains
from denoise_core.support.answers import parse
from denoise_core.support.citing import uncited
from denoise_core.text.words import words

When: TypeAlias = Callable[[str, str], bool]
"""``when(question, answer)``: whether this answer is to be judged."""


def states_something(question: str, answer: str) -> bool:
    """False for an answer that is nothing but small talk or questions back; everything else is judged.

    A statement among them makes it judged, and so does an empty answer.

    >>> [states_something("Hi", text) for text in ("Hello! How can I help you?", "It opened in 1889.")]
    [False, True]
    """
    parsed = parse(answer, question)
    return bool(parsed.claims) or not parsed.pieces


def says_nothing(question: str, answer: str, task: Task) -> Verdict | None:
    """The verdict on an answer that holds none, whoever the judge is; None for every other."""
    text = uncited(parse(answer, question).reply)
    said = words(text)
    if not said:
        return Verdict("fail", 0.0, (Reason("the answer is empty", "empty"),))
    if said == words(task.unknown) or abstains(text):
        return Verdict("unknown", 0.0, (Reason(ABSTAINS, "abstention"),))
    if said == words(question):
        return Verdict("fail", 0.0, (Reason("the answer only says the question again", "question", text.strip()),))
    return None
