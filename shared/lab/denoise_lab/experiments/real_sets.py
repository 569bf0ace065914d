"""What the benchmarks of END on real data share: sets, the part that is measured, readings kept between runs.

Only questions that were not used for fitting what ships are measured (`denoise_lab.split.for_fitting`, a hash of
the id).

Reading the passages is what takes the time, so it is done once: what the encoder reads is kept in the system's
temporary folder.
"""

from __future__ import annotations

import hashlib
import tempfile
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from denoise_core.embedded import default_stack, sample_questions
from denoise_core.embedded.encoder import SentenceEncoder
from denoise_core.embedded.minilm import HUB_NAME, minilm_folder
from denoise_core.evaluate.datasets import parse_cases
from denoise_core.evaluate.metrics import bootstrap_interval, recall_at
from denoise_core.question import Question
from denoise_core.scorers.bm25 import BM25Scorer
from denoise_lab.experiments import Options, read
from denoise_lab.split import for_fitting

NQ = "NQ"
SETS = {  # name here: name of the file, and how many questions at most are measured
    NQ: ("nq_gold_distractors20", 250),
    "HotpotQA": ("hotpotqa_distractor", 250),
    "MuSiQue": ("musique", 250),
    "OTT-QA": ("ottqa", 69),
    "DSTC11": ("dstc11_track5", 50),
    "RAMDocs": ("ramdocs", 250),
}
SHARES = (0.3, 0.1)


def measured(
    options: Options, names: Iterable[str] = SETS
) -> dict[str, list[Question]]:
    """The questions of each set that nothing that ships was fitted on, in an order given by a hash."""
    if options.quick:
        return {NQ: quick_questions()}
    return {name: part(options, name, fitting=False) for name in names}


def part(
    options: Options, name: str, *, fitting: bool, limit: int | None = None
) -> list[Question]:
    file, most = SETS[name]
    questions = parse_cases(
        enumerate(read(options.data, file), 1), labelled=True, skip_bad=False
    ).questions
    chosen = [
        q
        for q in questions
        if q.gold and len(q.passages) > 1 and for_fitting(q.id) == fitting
    ]
    chosen.sort(
        key=lambda q: hashlib.sha256(f"rag-denoise:{q.id}".encode()).hexdigest()
    )
    return chosen[: limit or most]


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


@dataclass(frozen=True)
class Scores:
    """Scores of every passage of a set by each scorer, one row a passage in the questions' order."""

    by_scorer: dict[str, NDArray[np.float32]]
    gold: NDArray[np.bool_]
    groups: NDArray[np.intp]

    def kept(self, scorer: str, share: float) -> NDArray[np.float64]:
        """For each question the share of its gold passages that is kept."""
        return recall_at(self.by_scorer[scorer], self.gold, self.groups, share)

    def of_questions(
        self, scorer: str
    ) -> list[tuple[NDArray[np.float32], NDArray[np.bool_]]]:
        """Scores and labels of each question."""
        edges = np.flatnonzero(np.diff(self.groups)) + 1
        return list(
            zip(
                np.split(self.by_scorer[scorer], edges),
                np.split(self.gold, edges),
                strict=True,
            )
        )


def scored(name: str, questions: Sequence[Question]) -> Scores:
    """Scores of the default, of its cosine alone, and of BM25."""
    read = bench_encoder()
    signals = [
        read.signals(q.text, [p.text_with_header for p in q.passages])
        for q in questions
    ]
    words = BM25Scorer()
    by_words = [
        words.score(q.text, [p.text_with_header for p in q.passages]) for q in questions
    ]
    whole = np.concatenate(signals)
    by = {
        "BM25": np.concatenate(by_words),
        "cosine": whole[:, 0],
        "default": default_stack().combine(whole),
    }
    labels = np.array([label for q in questions for label in q.labels])
    return Scores(
        by,
        labels,
        np.repeat(np.arange(len(questions)), [len(q.passages) for q in questions]),
    )


def bench_encoder() -> SentenceEncoder:
    """The default's encoder; what it reads stays in the system's temporary folder for another run."""
    return SentenceEncoder(
        minilm_folder(), name=HUB_NAME, cache_folder=cache_folder() / "readings"
    )


def cache_folder() -> Path:
    folder = Path(tempfile.gettempdir()) / "rag-denoise-bench"
    folder.mkdir(exist_ok=True)
    return folder


def difference(
    a: NDArray[np.float64], b: NDArray[np.float64]
) -> tuple[float, tuple[float, float]]:
    """Mean of a - b over the same questions, with its 95 % interval."""
    return float((a - b).mean()), bootstrap_interval(a - b)
