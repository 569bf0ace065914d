"""Forty real questions of Natural Questions with twenty real passages each, shipped for demos and tests.

None of them was used to fit anything that ships. Sources and licences: ``data/ATTRIBUTION.md``.
"""

from __future__ import annotations

import json
import lzma
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any

from denoise_core.question import Question
from denoise_core.types import Passage


@dataclass(frozen=True, slots=True)
class AnsweredQuestion:
    """A question of the sample with a right answer and a wrong one, both written by hand.

    The wrong one is of the right one's type and stands in the distractor ``suggested_by``, a passage's id.
    """

    question: Question
    right_answer: str
    wrong_answer: str
    distractor_id: str


@cache
def sample_questions() -> tuple[Question, ...]:
    """The questions; one passage of each holds the answer, and titles stand in the metadata too."""
    return tuple(map(_question, _records()))


@cache
def sample_answers() -> tuple[AnsweredQuestion, ...]:
    """A right and a wrong answer to each question of `sample`, in its order."""
    return tuple(
        AnsweredQuestion(
            question, record["right"], record["wrong"], record["suggested_by"]
        )
        for question, record in zip(sample_questions(), _records(), strict=True)
    )


def _records() -> list[dict[str, Any]]:
    packed = (
        files("denoise_core.embedded") / "data" / "nq_sample.jsonl.xz"
    ).read_bytes()
    return [
        json.loads(line)
        for line in lzma.decompress(packed).decode("utf-8").splitlines()
    ]


def _question(record: dict[str, Any]) -> Question:
    passages = tuple(
        Passage(p["text"], p["id"], metadata={"title": p["title"]})
        for p in record["passages"]
    )
    gold = frozenset(p["id"] for p in record["passages"] if p["is_gold"])
    return Question(
        record["question"], passages, gold, tuple(record["answers"]), record["id"]
    )
