"""Which real questions what ships was fitted on, and which its figures are of: a hash decides, not an order."""

from __future__ import annotations

import hashlib
import lzma
from collections.abc import Sequence
from pathlib import Path

from denoise_core.errors import InputError
from denoise_core.evaluate.datasets import read_questions
from denoise_core.question import Question

NQ, XQUAD = "NQ", "XQuAD"
SETS = {
    NQ: "nq_gold_distractors20",
    "HotpotQA": "hotpotqa_distractor",
    "MuSiQue": "musique",
    "2Wiki": "2wikimultihopqa",
    "OTT-QA": "ottqa",
    "DSTC11": "dstc11_track5",
    XQUAD: "xquad_en",
}
POISONED = {
    "PoisonedNQ": "poisoned_nq",
    "RAMDocs": "ramdocs",
}  # nothing is fitted on these
FITTING = 0.5
NQ_HELD_OUT = 0.6  # NQ's figures are of places from here on


def place(key: str) -> float:
    """A number in [0, 1) that is always the same for an id."""
    return (
        int(hashlib.sha256(f"rag-denoise:{key}".encode()).hexdigest()[:12], 16) / 16**12
    )


def place_of(name: str, question: Question) -> float:
    """The question's place: that of its id; in XQuAD, where questions share paragraphs, of its gold text."""
    if name == XQUAD:
        return place(next(p.text for p in question.passages if p.id in question.gold))
    return place(question.id)


def for_fitting(question_id: str) -> bool:
    """Whether an NQ question may have been fitted on."""
    return place(question_id) < NQ_HELD_OUT


def halves(
    data: Path, name: str, limit: int | None = None
) -> tuple[list[Question], list[Question]]:
    """Questions of a set for fitting and for figures, at most ``limit`` of each, in an order given by a hash.

    Only questions with a relevant and another passage. Raises `InputError` when the file is not there.
    """
    file = (SETS | POISONED)[name]
    path = data / f"{file}.jsonl.gz"
    if not path.is_file():
        raise InputError(
            f"{path} is not there: expected a folder that holds {file}.jsonl.gz"
        )
    usable = [
        q for q in read_questions(path).questions if 0 < len(q.gold) < len(q.passages)
    ]
    usable.sort(key=lambda q: hashlib.sha256(f"s{q.id}".encode()).hexdigest())
    held_out = FITTING
    if name == NQ:
        held_out = NQ_HELD_OUT
    fitting = [q for q in usable if place_of(name, q) < FITTING]
    reported = [q for q in usable if place_of(name, q) >= held_out]
    return fitting[:limit], reported[:limit]


def write_sample(questions: Sequence[Question], path: Path) -> None:
    """The questions as JSON lines, in the shape `evaluate.datasets` reads."""
    import json

    lines = []
    for q in questions:
        passages = [
            {
                "id": p.id,
                "title": p.metadata.get("title", ""),
                "text": p.text,
                "is_gold": is_gold,
            }
            for p, is_gold in zip(q.passages, q.labels, strict=True)
        ]
        record = {
            "id": q.id,
            "question": q.text,
            "answers": q.answers,
            "passages": passages,
        }
        lines.append(json.dumps(record, ensure_ascii=False) + "\n")
    path.write_bytes(lzma.compress("".join(lines).encode(), preset=9))
