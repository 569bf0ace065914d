"""What the benchmarks of END on real data share: sets, small questions, embeddings cached between runs.

Embedding the passages takes most of the time, so it is done once: the embeddings stay in the system's temporary
folder.
"""

from __future__ import annotations

import tempfile
from dataclasses import replace
from pathlib import Path

from denoise_core.embedded import sample_questions
from denoise_core.embedded.encoder import SentenceEncoder
from denoise_core.embedded.minilm import HUB_NAME, minilm_folder
from denoise_core.question import Question

# File names by set.
SETS = {
    "NQ": "nq_gold_distractors20",
    "HotpotQA": "hotpotqa_distractor",
    "MuSiQue": "musique",
    "OTT-QA": "ottqa",
    "DSTC11": "dstc11_track5",
    "RAMDocs": "ramdocs",
}


def quick_questions(count: int = 8, passage_count: int = 5) -> list[Question]:
    """A few of the shipped questions, cut to their gold and a few other passages."""
    questions = sample_questions()[:count]
    return [cut_question(question, passage_count) for question in questions]


def cut_question(
    question: Question, passage_count: int, characters: int | None = None
) -> Question:
    """Cut a question to its gold passages and the first others, at least one, each up to so many characters."""
    others_left = max(1, passage_count - len(question.gold))
    passages = []
    for passage in question.passages:
        if passage.id not in question.gold:
            if others_left == 0:
                continue
            others_left -= 1
        passages.append(replace(passage, text=passage.text[:characters]))
    return replace(question, passages=tuple(passages))


def bench_encoder() -> SentenceEncoder:
    """The default's encoder; embeddings stay in the system's temporary folder for another run."""
    return SentenceEncoder(
        minilm_folder(), name=HUB_NAME, cache_folder=cache_folder() / "readings"
    )


def cache_folder() -> Path:
    """The folder in which benchmarks cache what takes long."""
    folder = Path(tempfile.gettempdir()) / "rag-denoise-bench"
    folder.mkdir(exist_ok=True)
    return folder
