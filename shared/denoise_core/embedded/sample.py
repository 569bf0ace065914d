"""Samples for demos and tests: forty questions with twenty passages each, and twelve files.

The questions are of Natural Questions, the files invented. Nothing that ships was fitted on
either. Sources and licences: ``data/ATTRIBUTION.md``.
"""

from __future__ import annotations

import json
import lzma
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any

from denoise_core.question import Question
from denoise_core.types import Passage


@dataclass(frozen=True, slots=True)
class AnsweredQuestion:
    """A question of the sample with a right and a wrong answer, both written by hand.

    The wrong answer is of the right one's type and occurs in another passage.
    """

    question: Question
    right_answer: str
    wrong_answer: str


@cache
def sample_questions() -> tuple[Question, ...]:
    """Load the questions. One passage of each holds the answer; titles are in the metadata."""
    parsed_questions = map(_parse_question, _read_records())
    return tuple(parsed_questions)


@cache
def sample_answers() -> tuple[AnsweredQuestion, ...]:
    """Load a right and a wrong answer to each of the `sample_questions`, in their order."""
    return tuple(
        AnsweredQuestion(question, record["right"], record["wrong"])
        for question, record in zip(sample_questions(), _read_records(), strict=True)
    )


def sample_folder() -> Path:
    """Return the folder of twelve small files: course sheets, a log, mails, a timetable, rules."""
    folder = files("denoise_core.embedded") / "data" / "files"
    return Path(str(folder))


def _read_records() -> list[dict[str, Any]]:
    data_file = files("denoise_core.embedded") / "data" / "nq_sample.jsonl.xz"
    packed_bytes = data_file.read_bytes()
    json_bytes = lzma.decompress(packed_bytes)
    json_lines = json_bytes.decode("utf-8").splitlines()
    return [json.loads(line) for line in json_lines]


def _parse_question(record: dict[str, Any]) -> Question:
    passages = []
    gold_ids = set()
    for row in record["passages"]:
        passages.append(
            Passage(row["text"], row["id"], metadata={"title": row["title"]})
        )
        if row["is_gold"]:
            gold_ids.add(row["id"])
    answers = tuple(record["answers"])
    return Question(
        record["question"], tuple(passages), frozenset(gold_ids), answers, record["id"]
    )
