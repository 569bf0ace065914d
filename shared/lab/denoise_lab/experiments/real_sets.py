"""What the benchmarks of END on real data share: sets, small questions, readings kept between runs.

Reading the passages is what takes the time, so it is done once: what the encoder reads is kept in the system's
temporary folder.
"""

from __future__ import annotations

import tempfile
from dataclasses import replace
from pathlib import Path

from denoise_core.embedded import sample_questions
from denoise_core.embedded.encoder import SentenceEncoder
from denoise_core.embedded.minilm import HUB_NAME, minilm_folder
from denoise_core.question import Question

SETS = {  # name here: name of the file
    "NQ": "nq_gold_distractors20",
    "HotpotQA": "hotpotqa_distractor",
    "MuSiQue": "musique",
    "OTT-QA": "ottqa",
    "DSTC11": "dstc11_track5",
    "RAMDocs": "ramdocs",
}


def quick_questions(n: int = 8, passages: int = 5) -> list[Question]:
    """A few of the shipped questions, cut to their gold and a few other passages."""
    return [cut_question(q, passages) for q in sample_questions()[:n]]


def cut_question(
    question: Question, count: int, characters: int | None = None
) -> Question:
    """The needed passages and the first others, each up to so many characters."""
    others = [p.id for p in question.passages if p.id not in question.gold]
    chosen = question.gold | set(others[: max(1, count - len(question.gold))])
    passages = []
    for passage in question.passages:
        if passage.id in chosen:
            passages.append(replace(passage, text=passage.text[:characters]))
    return replace(question, passages=tuple(passages))


def bench_encoder() -> SentenceEncoder:
    """The default's encoder; what it reads stays in the system's temporary folder for another run."""
    return SentenceEncoder(
        minilm_folder(), name=HUB_NAME, cache_folder=cache_folder() / "readings"
    )


def cache_folder() -> Path:
    folder = Path(tempfile.gettempdir()) / "rag-denoise-bench"
    folder.mkdir(exist_ok=True)
    return folder
