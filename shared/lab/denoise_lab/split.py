"""Which real questions the shipped data was fitted on, and which its figures are of, decided by a hash."""

from __future__ import annotations

import hashlib
import lzma
from collections.abc import Sequence
from pathlib import Path

from denoise_core.errors import InputError
from denoise_core.evaluate.datasets import read_questions
from denoise_core.question import Question
from denoise_lab.noisy_retrieval import format_questions

NQ, XQUAD = "NQ", "XQuAD"
# File names by set.
SETS = {
    NQ: "nq_gold_distractors20",
    "HotpotQA": "hotpotqa_distractor",
    "MuSiQue": "musique",
    "2Wiki": "2wikimultihopqa",
    "OTT-QA": "ottqa",
    "DSTC11": "dstc11_track5",
    XQUAD: "xquad_en",
}
# Sets on which nothing is fitted.
POISONED_SETS = {
    "PoisonedNQ": "poisoned_nq",
    "RAMDocs": "ramdocs",
}
FITTING_BELOW = 0.5  # questions with a lower hash fraction are for fitting
NQ_REPORTED_FROM = 0.6  # figures of NQ are of questions from here on


def hash_fraction(key: str) -> float:
    """Return a number in [0, 1) that is always the same for a key."""
    digest = hashlib.sha256(f"rag-denoise:{key}".encode()).hexdigest()
    return int(digest[:12], 16) / 16**12


def question_fraction(set_name: str, question: Question) -> float:
    """The hash fraction of a question's id; in XQuAD, where questions share paragraphs, of its gold text."""
    key = question.id
    if set_name == XQUAD:
        gold_texts = [p.text for p in question.passages if p.id in question.gold]
        key = gold_texts[0]
    return hash_fraction(key)


def is_for_fitting(question_id: str) -> bool:
    """Whether an NQ question may have been fitted on."""
    return hash_fraction(question_id) < NQ_REPORTED_FROM


def order_by_hash(questions: Sequence[Question]) -> list[Question]:
    """Sort questions by a hash of their id, so that the first ones are a random sample."""
    return sorted(
        questions, key=lambda q: hashlib.sha256(f"s{q.id}".encode()).hexdigest()
    )


def read_halves(
    folder: Path, set_name: str, limit: int | None = None
) -> tuple[list[Question], list[Question]]:
    """Return a set's questions for fitting and for figures, in an order given by a hash.

    Questions without a relevant or without another passage are left out.

    Args:
        folder: The folder with the sets' files.
        set_name: A name of `SETS` or `POISONED_SETS`.
        limit: The most questions of each half.

    Raises:
        InputError: The set's file is not in the folder.
    """
    file_name = (SETS | POISONED_SETS)[set_name]
    path = folder / f"{file_name}.jsonl.gz"
    if not path.is_file():
        raise InputError(
            f"{path} is not there: expected a folder that holds {file_name}.jsonl.gz"
        )
    reported_from = FITTING_BELOW
    if set_name == NQ:
        reported_from = NQ_REPORTED_FROM
    fitting_half = []
    reported_half = []
    for question in order_by_hash(read_questions(path).questions):
        if 0 < len(question.gold) < len(question.passages):
            fraction = question_fraction(set_name, question)
            if fraction < FITTING_BELOW:
                fitting_half.append(question)
            elif fraction >= reported_from:
                reported_half.append(question)
    return fitting_half[:limit], reported_half[:limit]


def write_sample(questions: Sequence[Question], path: Path) -> None:
    """Write questions as JSON lines, compressed by xz, in the shape that `evaluate.datasets` reads."""
    lines = format_questions(questions)
    path.write_bytes(lzma.compress(lines.encode(), preset=9))
