"""Calibration and operating points, on the parts of the sets that nothing was trained on."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from denoise_core.embedded.reader.judge import POINTS, Logistic, Read, ShippedJudge
from denoise_core.embedded.reader.span_reader import NOWHERE
from numpy.typing import NDArray

from denoise_core._optional import require
from denoise_core.question import Question
from denoise_lab.span_reader.claims import Pair
from denoise_lab.span_reader.measure import sentence
from denoise_lab.span_reader.split import Part, part, read
from denoise_lab.span_reader.wrong import from_distractor, other_span

PASSED = dict(zip(POINTS, (0.3, 0.2, 0.1), strict=True))  # of the wrong ones, at most
REFUSED = {"answers": 0.1, "claims": 0.05}  # of the right ones, at most
ANSWERED = 0.9  # share of questions that the floor leaves an answer to
SETS: Mapping[str, Callable[[Question, random.Random], str]] = {
    "nq_gold_distractors20": from_distractor,
    "hotpotqa_distractor": from_distractor,
    "musique": from_distractor,
    "xquad_en": other_span,
}


@dataclass(frozen=True, slots=True)
class Case:
    """One claim as it was read, in a set, and whether it is right; ``said``: an answer as a sentence."""

    name: str
    right: bool
    said: bool
    read: Read


def of_answers(judge: ShippedJudge, questions: Iterable[Question], name: str) -> list[Case]:
    """A right and a wrong answer to each question that has both, bare and as sentences."""
    out = []
    for q in questions:
        rng = random.Random(q.id)
        wrong = SETS[name](q, rng)
        if not wrong:
            continue
        made = [(q.answers[0], True, False), (wrong, False, False)]
        made += [(sentence(q.text, text, rng), ok, True) for text, ok, _ in made]
        read_as = judge.read(q.text, [text for text, *_ in made], q.passages)
        out += [Case(name, ok, said, r) for (_, ok, said), r in zip(made, read_as, strict=True)]
    return out


def of_claims(judge: ShippedJudge, pairs: Iterable[Pair]) -> list[Case]:
    """Claims as they are read without the search for spans."""
    return [
        Case(p.name, p.supported, True, judge._read(p.question, [p.claim], p.passages, [NOWHERE])[0])
        for p in pairs
    ]


def questions(data: Path, name: str, of: Part) -> list[Question]:
    """Questions of one part of a set that have gold passages and ask for neither yes nor no."""
    return [
        q
        for q in read(data, name)
        if q.gold and q.answers and part(name, q) == of and q.answers[0].casefold() not in ("yes", "no")
    ]


def fitted(features: Sequence[Mapping[str, float]], cases: Sequence[Case], kind: str) -> Logistic:
    """A logistic over the cases, sets and both labels weighing the same, with its operating points.

    A point is the lowest probability at which no more of the wrong ones pass than `PASSED` says: of answers in the
    mean of the sets, of claims in each set.
    """
    names = sorted(features[0])
    x = np.array([[f[n] for n in names] for f in features])
    right = np.array([c.right for c in cases])
    sets = np.array([c.name for c in cases])
    weight = np.zeros(len(cases))
    for name in set(sets):
        for label in (True, False):
            own = (sets == name) & (right == label)
            weight[own] = 1 / max(1, own.sum())
    spread = x.std(0) + 1e-9
    model = require("sklearn.linear_model", extra="end").LogisticRegression(C=10.0, max_iter=5000)
    model.fit(x / spread, right, sample_weight=weight * len(cases) / weight.sum())
    weights = {n: round(float(w), 4) for n, w in zip(names, model.coef_[0] / spread, strict=True)}
    bare = Logistic(weights, round(float(model.intercept_[0]), 4))
    p = np.array([bare.probability(f) for f in features])
    points: dict[str, float] = {
        point: line(p, right, sets, share, each=kind == "claims") for point, share in PASSED.items()
    }
    refused = min(float(np.quantile(p[right], REFUSED[kind])), points["lenient"])
    return Logistic(weights, bare.bias, points, round(refused, 4))


def line(
    p: NDArray[np.float64], right: NDArray[np.bool_], sets: NDArray[np.str_], share: float, *, each: bool
) -> float:
    """The lowest probability, to three places, at which at most ``share`` of the wrong ones pass."""
    for at in np.arange(0.0, 1.0, 0.001):
        passed = [float((p[(sets == name) & ~right] >= at).mean()) for name in sorted(set(sets))]
        if (max(passed) if each else float(np.mean(passed))) <= share:
            return round(float(at), 3)
    return 1.0
