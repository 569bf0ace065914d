"""Which questions the reader was trained on, and which texts it must not have seen: the rule that keeps
figures honest.

Every question has a place in [0, 1), a hash (`denoise_lab.split.place`) of its id, for XQuAD of the
text of its gold passage, since many questions share one. Places below `SHARE` are for training.
"""

from __future__ import annotations

import gzip
import hashlib
import json
from collections.abc import Iterable
from pathlib import Path

from denoise_core.evaluate.datasets import read_questions
from denoise_core.question import Question
from denoise_core.text.words import words
from denoise_core.types import Passage


def place(key: str) -> float:
    """A number in [0, 1) that is always the same for an id (as `denoise_lab.split.place`)."""
    return int(hashlib.sha256(f"rag-denoise:{key}".encode()).hexdigest()[:12], 16) / 16**12


SHARE = {
    "nq_gold_distractors20": 0.6,
    "xquad_en": 0.5,
    "hotpotqa_distractor": 0.35,
    "ramdocs": 0.4,
    "2wikimultihopqa": 0.5,
    "ottqa": 0.5,
    "noiserbench_multihop": 0.5,
    "halueval_qa": 0.5,
    "musique": 0.0,
    "poisoned_nq": 0.0,
}
DEVELOPMENT = 0.1  # of the training part, for choices made while building
SHINGLE = 13  # words in a row that show two passages to be the same text


def read(folder: Path, name: str) -> tuple[Question, ...]:
    """A set's questions, with titles as `read_questions` puts them."""
    path = folder / f"{name}.jsonl.gz"
    if name != "halueval_qa":
        return read_questions(path).questions
    with gzip.open(path, "rt", encoding="utf-8") as file:
        rows = [json.loads(line) for line in file]
    return tuple(
        Question(r["question"], (Passage(r["context"], "p0"),), frozenset(["p0"]), (r["right_answer"],), r["id"])
        for r in rows
    )


def for_training(name: str, question: Question) -> bool:
    """Whether a question of the set ``name`` is in the training part, its development tenth included."""
    key = question.id
    if name == "xquad_en":
        key = next(p.text for p in question.passages if p.id in question.gold)
    return place(key) < SHARE[name]


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
