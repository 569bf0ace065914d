"""Forty real questions of Natural Questions with twenty real passages each, shipped for demos and tests.

None of them was used to fit anything that ships. Sources and licences: ``data/ATTRIBUTION.md``.
"""

from __future__ import annotations

import json
import lzma
from dataclasses import dataclass
from functools import cache
from importlib.resources import as_file, files

from denoise_core.evaluate.datasets import read_questions
from denoise_core.question import Question


@dataclass(frozen=True, slots=True)
class Prepared:
    """A question of the sample with a right answer and a wrong one, both written by hand.

    The wrong one is of the right one's type and stands in the distractor ``suggested_by``, a passage's id.
    """

    question: Question
    right: str
    wrong: str
    suggested_by: str


@cache
def sample() -> tuple[Question, ...]:
    """The questions; one passage of each holds the answer, and titles stand in the metadata too."""
    with as_file(files("denoise_core.embedded") / "data" / "nq_sample.jsonl.xz") as path:
        return read_questions(path).questions


@cache
def prepared_answers() -> tuple[Prepared, ...]:
    """A right and a wrong answer to each question of `sample`, in its order."""
    packed = (files("denoise_core.embedded") / "data" / "nq_sample.jsonl.xz").read_bytes()
    records = [json.loads(line) for line in lzma.decompress(packed).decode("utf-8").splitlines()]
    return tuple(
        Prepared(question, record["right"], record["wrong"], record["suggested_by"])
        for question, record in zip(sample(), records, strict=True)
    )
