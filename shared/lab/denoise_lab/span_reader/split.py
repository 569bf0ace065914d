"""Which questions the reader was trained on, and which texts it must not have seen: the rule that keeps
figures honest.

Every question has a place in [0, 1), a hash (`denoise_lab.split.place`) of its id, for XQuAD of the
text of its gold passage, since many questions share one. Places below `SHARE` are for training.
"""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterable
from functools import cache
from pathlib import Path
from typing import Literal

from denoise_core.embedded.sample import sample
from denoise_core.evaluate.datasets import read_questions
from denoise_core.question import Question
from denoise_core.text.words import words
from denoise_core.types import Passage
from denoise_lab.split import place

Part = Literal["training", "calibration", "figures"]
SHARE = {  # weights made by an earlier recipe had smaller shares of the same places
    "nq_gold_distractors20": 0.6,
    "xquad_en": 0.6,
    "hotpotqa_distractor": 0.55,
    "ramdocs": 0.5,
    "2wikimultihopqa": 0.65,
    "ottqa": 0.65,
    "noiserbench_multihop": 0.65,
    "halueval_qa": 0.65,
    "musique": 0.5,
    "poisoned_nq": 0.0,
}
CALIBRATED = 0.15  # of a set, next to its training part: what calibration and operating points are chosen on
DEVELOPMENT = 0.1  # of the training part, for choices made while building
SHINGLE = 13  # words in a row that show two passages to be the same text


def read(folder: Path, name: str) -> tuple[Question, ...]:
    """A set's questions, with titles as `read_questions` puts them."""
    path = folder / f"{name}.jsonl.gz"
    with gzip.open(path, "rt", encoding="utf-8") as file:
        rows = [json.loads(line) for line in file]
    if name != "halueval_qa":
        return read_questions(path).questions if rows else ()
    return tuple(
        Question(r["question"], (Passage(r["context"], "p0"),), frozenset(["p0"]), (r["right_answer"],), r["id"])
        for r in rows
    )


def part(name: str, question: Question) -> Part:
    """Which part of the set ``name`` a question is in; the training part has its development tenth in it."""
    key = question.id
    if name == "xquad_en":
        key = next(p.text for p in question.passages if p.id in question.gold)
    at = place(key) - SHARE[name]
    if name == "nq_gold_distractors20" and question.id in _shown():
        return "figures"
    return "training" if at < 0 else "calibration" if at < CALIBRATED else "figures"


@cache
def _shown() -> frozenset[str]:
    """The demo's questions: nothing is trained or calibrated on them."""
    return frozenset(q.id for q in sample())


def for_training(name: str, question: Question) -> bool:
    """Whether a question of the set ``name`` is in the training part."""
    return part(name, question) == "training"


def for_development(question: Question) -> bool:
    """Whether a question of the training part is kept for choices made while building."""
    gold = next((p.text for p in question.passages if p.id in question.gold), question.id)
    return place(f"development:{gold}") < DEVELOPMENT


class Guard:
    """Texts of the held-out part: nothing that shares a line of them is trained on."""

    def __init__(self, held_out: Iterable[Question]) -> None:
        self._texts: set[int] = set()
        self._questions: set[tuple[str, ...]] = set()
        for q in held_out:
            self._questions.add(tuple(words(q.text)))
            for p in q.passages:
                if p.id in q.gold:
                    self._texts.update(_shingles(p.text))

    def knows_text(self, passage: Passage) -> bool:
        """Whether the passage shares `SHINGLE` words in a row with a held-out gold passage."""
        return not self._texts.isdisjoint(_shingles(passage.text))

    def knows(self, question: Question) -> bool:
        """Whether the question, or a gold passage of it, is in the held-out part too."""
        gold = (p for p in question.passages if p.id in question.gold)
        return tuple(words(question.text)) in self._questions or any(map(self.knows_text, gold))


def _shingles(text: str) -> set[int]:
    found = words(text)
    if len(found) <= SHINGLE:
        return {hash(tuple(found))} if found else set()
    return {hash(tuple(found[i : i + SHINGLE])) for i in range(len(found) - SHINGLE + 1)}
