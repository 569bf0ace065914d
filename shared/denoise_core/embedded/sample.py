"""Forty real questions of Natural Questions with twenty real passages each, shipped for demos and tests.

None of them was used to fit anything that ships. Sources and licences: ``data/ATTRIBUTION.md``.
"""

from __future__ import annotations

import gzip
import json
from dataclasses import dataclass
from functools import cache
from importlib.resources import files

from denoise_core.types import Passage


@dataclass(frozen=True, slots=True)
class Question:
    """A question, its accepted answers, its passages, and the ids of those that hold an answer."""

    text: str
    answers: tuple[str, ...]
    passages: tuple[Passage, ...]
    gold: frozenset[str]


@cache
def sample() -> tuple[Question, ...]:
    """The questions; ids of passages are unique within a question, titles stand in the metadata."""
    packed = (files("denoise_core.embedded") / "data" / "nq_sample.jsonl.gz").read_bytes()
    records = map(json.loads, gzip.decompress(packed).decode("utf-8").strip().split("\n"))
    return tuple(
        Question(
            r["question"],
            tuple(r["answers"]),
            tuple(Passage(p["text"], p["id"], metadata={"title": p["title"]}) for p in r["passages"]),
            frozenset(p["id"] for p in r["passages"] if p["is_gold"]),
        )
        for r in records
    )
