"""The texts LLM-Augmenter puts to a model: plain data. The wording is ours; the paper's is not available.

`VERSION` changes whenever a text does, so that recorded runs can be told apart.
"""

from __future__ import annotations

from dataclasses import dataclass

VERSION = 3


@dataclass(frozen=True, slots=True)
class Task:
    """A kind of work: what the model is told to do, what it says when the evidence does not suffice (``unknown``,
    for the loop to recognise, as `MARK` is), and what the user is told then (``abstaining``, a sentence)."""

    name: str
    instruction: str
    unknown: str
    abstaining: str = "I found no answer to this in the evidence at hand."


MARK = '{"answered": false, "nearest": "one sentence of what the evidence says that comes nearest"}'
"""What a draft is to be, by contract, when the evidence does not hold the answer."""

QUESTION_ANSWERING = Task(
    "question_answering",
    "Answer the question from the evidence alone, as briefly as it can be answered. After each statement put "
    "the number of the evidence it rests on in square brackets, like [1]. If the evidence does not hold the "
    f"answer, reply with this object and nothing else: {MARK}",
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
