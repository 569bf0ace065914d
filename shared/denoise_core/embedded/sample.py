"""Forty real questions of Natural Questions with twenty real passages each, shipped for demos and tests.

None of them was used to fit anything that ships. Sources and licences: ``data/ATTRIBUTION.md``.
"""

from __future__ import annotations

from functools import cache
from importlib.resources import as_file, files

from denoise_core.evaluate.datasets import read_questions
from denoise_core.question import Question


@cache
def sample() -> tuple[Question, ...]:
    """The questions; one passage of each holds the answer, and titles stand in the metadata too."""
    with as_file(files("denoise_core.embedded") / "data" / "nq_sample.jsonl.gz") as path:
        return read_questions(path).questions
