"""What the benchmarks of END on real data share: sets, the part that is measured, scores kept between runs.

Only questions that were not used for fitting what ships are measured (`embedded.make.for_fitting`, a hash
of the id). Scores are kept in the system's temporary folder under a name made of everything that decides
them, so that the three benchmarks read each passage once.
"""

from __future__ import annotations

import hashlib
import json
import tempfile
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from importlib.resources import files
from pathlib import Path

import numpy as np
from harness import Options, read
from numpy.typing import NDArray

from denoise_core.embedded import DefaultScorer, embedding_scorer, sample
from denoise_core.embedded.make import for_fitting
from denoise_core.evaluate.datasets import from_records
from denoise_core.evaluate.metrics import bootstrap, recall_at
from denoise_core.protocols import Scorer
from denoise_core.question import Question
from denoise_core.scorers.bm25 import BM25Scorer

NQ = "NQ"
SETS = {  # name here: name of the file, and how many questions at most are measured
    NQ: ("nq_gold_distractors20", 250),
    "HotpotQA": ("hotpotqa_distractor", 250),
    "MuSiQue": ("musique", 250),
    "OTT-QA": ("ottqa", 160),
    "DSTC11": ("dstc11_track5", 120),
    "RAMDocs": ("ramdocs", 250),
}
SHARES = (0.3, 0.1)
SCORERS: dict[str, Callable[[], Scorer]] = {
    "BM25": BM25Scorer,
    "cosine": embedding_scorer,
    "default": DefaultScorer,
}


def measured(options: Options, names: Iterable[str] = SETS) -> dict[str, list[Question]]:
    """The questions of each set that nothing that ships was fitted on, in an order given by a hash."""
    if options.quick:
        return {NQ: quick_questions()}
    return {name: part(options, name, fitting=False) for name in names}


def part(options: Options, name: str, *, fitting: bool, limit: int | None = None) -> list[Question]:
    file, most = SETS[name]
    questions = from_records(read(options.data, file)).questions
    chosen = [q for q in questions if q.gold and len(q.passages) > 1 and for_fitting(q.id) == fitting]
    chosen.sort(key=lambda q: hashlib.sha256(f"measured:{q.id}".encode()).hexdigest())
    return chosen[: limit or most]


def quick_questions(n: int = 8, passages: int = 5) -> list[Question]:
    """A few of the shipped questions, cut to their gold and a few other passages."""
    out = []
    for q in sample()[:n]:
        others = [p for p in q.passages if p.id not in q.gold][: passages - len(q.gold)]
        kept = {p.id for p in others} | set(q.gold)
        chosen = tuple(p for p in q.passages if p.id in kept)
        out.append(Question(q.text, chosen, q.gold, q.answers, q.id))
    return out


@dataclass(frozen=True)
class Scores:
    """Scores of every passage of a set by each scorer, one row a passage in the questions' order."""

    by_scorer: dict[str, NDArray[np.float32]]
    gold: NDArray[np.bool_]
    groups: NDArray[np.intp]

    def kept(self, scorer: str, share: float) -> NDArray[np.float64]:
        """For each question the share of its gold passages that is kept."""
        return recall_at(self.by_scorer[scorer], self.gold, self.groups, share)

    def of_questions(self, scorer: str) -> list[tuple[NDArray[np.float32], NDArray[np.bool_]]]:
        """Scores and labels of each question."""
        edges = np.flatnonzero(np.diff(self.groups)) + 1
        return list(zip(np.split(self.by_scorer[scorer], edges), np.split(self.gold, edges), strict=True))


def scored(name: str, questions: Sequence[Question], scorers: Iterable[str] = tuple(SCORERS)) -> Scores:
    by = {}
    for scorer in scorers:
        path = cache_folder() / f"{scorer}-{_digest(scorer, questions)}.npy"
        if not path.is_file():
            print(f"scoring {name} with {scorer} ({len(questions)} questions) ...", flush=True)
            made = SCORERS[scorer]()
            rows = [made.score(q.text, [p.text for p in q.passages]) for q in questions]
            scratch = path.with_suffix(".part.npy")
            np.save(scratch, np.concatenate(rows))
            scratch.replace(path)
        by[scorer] = np.load(path, allow_pickle=False)
    gold = np.array([label for q in questions for label in q.labels])
    return Scores(by, gold, np.repeat(np.arange(len(questions)), [len(q.passages) for q in questions]))


def cache_folder() -> Path:
    folder = Path(tempfile.gettempdir()) / "rag-denoise-bench"
    folder.mkdir(exist_ok=True)
    return folder


def questions_digest(questions: Sequence[Question]) -> str:
    digest = hashlib.sha256()
    for q in questions:
        digest.update(json.dumps([q.text, [p.text for p in q.passages]]).encode())
    return digest.hexdigest()


def _digest(scorer: str, questions: Sequence[Question]) -> str:
    digest = hashlib.sha256(questions_digest(questions).encode())
    if scorer == "default":
        data = files("denoise_core.embedded") / "data"
        for part_of_it in ("probe/probe.safetensors", "probe/probe.json", "stack.json"):
            digest.update((data / part_of_it).read_bytes())
    return digest.hexdigest()[:24]


def difference(a: NDArray[np.float64], b: NDArray[np.float64]) -> tuple[float, tuple[float, float]]:
    """Mean of a - b over the same questions, with its 95 % interval."""
    return float((a - b).mean()), bootstrap(a - b)


def without_text(questions: Sequence[Question], text: str) -> list[Question]:
    """The questions, all asking the same."""
    return [replace(q, text=text) for q in questions]
