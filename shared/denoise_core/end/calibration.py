"""Calibration: keep as much as a stated risk of losing relevant text asks for, instead of a blind 30 %.

Split-conformal prediction (Vovk et al.), with the question as the unit. From questions *not* used for fitting or
for choosing the layer, one number each is kept: how deep in the ranking their relevant chunks lie. What is
guaranteed, for a new question drawn like them:

* ``loss="any"``: a relevant chunk is dropped with probability at most ``risk``;
* ``loss="share"`` (Conformal Risk Control, arXiv 2208.02814, for several relevant chunks): the expected share of
  relevant chunks that is dropped is at most ``risk``.

Both hold on average over calibration sets. With ``confidence=0.95`` they hold for this very calibration set,
except that one in twenty such sets would not be good enough; that takes more questions and keeps more (for
``loss="share"`` by Learn then Test, arXiv 2110.01052).

The guarantee is void when new questions are not like the calibration questions: another corpus, retriever,
number or length of chunks, prompt layout, model, dtype or scorer; when calibration questions were used for
fitting; and when `max_keep` cuts what the rule keeps. Then calibrate again.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from denoise_core._optional import require
from denoise_core.end.selection import (
    Floats,
    Mask,
    ScoreCalibration,
    list_length_factor,
    rank_by_score,
)
from denoise_core.errors import InputError
from denoise_core.protocols import Scorer
from denoise_core.question import Question

CALIBRATED_RISKS = (0.05, 0.10, 0.20)
FLOOR_MISS_RATE = 0.03  # of answerable questions lie below the floor
GOLD_TARGETS = (0.90, 0.95, 0.99)  # of the gold, for which `text_needed` is told

By = Literal["rank", "score"]
Loss = Literal["any", "share"]


@dataclass(frozen=True, slots=True, eq=False)
class Calibration:
    """The relevant chunks of ``n`` calibration questions: where they stand and what they score.

    Three arrays of one entry for each relevant chunk: ``question`` counts 0 to n - 1, ``depth`` is the share
    of the question's chunks that rank above the chunk (0 for the best), ``score`` its score.
    """

    question: NDArray[np.int32]
    depth: NDArray[np.float64]
    score: Floats

    def __post_init__(self) -> None:
        for name, kind in (
            ("question", np.int32),
            ("depth", np.float64),
            ("score", np.float32),
        ):
            values = np.array(getattr(self, name), dtype=kind)
            values.setflags(write=False)
            object.__setattr__(self, name, values)
        sizes = {self.question.shape, self.depth.shape, self.score.shape}
        if len(sizes) != 1 or self.question.ndim != 1:
            raise InputError(
                f"a calibration is three arrays of one length, got shapes {sorted(map(str, sizes))}"
            )
        if self.question.size and set(self.question.tolist()) != set(range(self.n)):
            raise InputError(
                "a calibration counts its questions 0, 1, 2, ... without a gap"
            )
        if (
            np.isnan(self.score).any()
            or not ((self.depth >= 0) & (self.depth < 1)).all()
        ):
            raise InputError(
                "a calibration's scores are numbers and its depths lie in [0, 1)"
            )

    @property
    def n(self) -> int:
        """Calibration questions."""
        return int(self.question.max()) + 1 if self.question.size else 0

    def rule(
        self,
        risk: float = 0.05,
        *,
        loss: Loss = "any",
        by: By = "rank",
        confidence: float | None = None,
    ) -> ConformalRule:
        """The rule that keeps least at this risk; see the module's docstring for what it guarantees.

        ``by="rank"`` keeps a fixed share of each question's chunks, ``by="score"`` all above a fixed score.
        Ranks keep less when some questions score higher throughout; scores keep less when questions differ
        in how much relevant text they have.

        Raises `InputError` when there are too few questions to promise this; it names how many are needed.
        """
        if not 0 < risk < 1:
            raise InputError(
                f"risk={risk}: expected a share between 0 and 1, such as 0.05"
            )
        if confidence is not None and not 0 < confidence < 1:
            raise InputError(
                f"confidence={confidence}: expected a share between 0 and 1, such as 0.95, or None"
            )
        if loss not in ("any", "share") or by not in ("rank", "score"):
            raise InputError(
                f"loss={loss!r}, by={by!r}: expected loss 'any' or 'share', by 'rank' or 'score'"
            )
        needed = min_question_count(risk, confidence)
        if self.n < needed:
            sure = (
                "" if confidence is None else f" with {100 * confidence:g} % confidence"
            )
            raise InputError(
                f"a risk of {100 * risk:g} %{sure} needs {needed} calibration questions with a relevant chunk, "
                f"here are {self.n}: calibrate on more, or accept a higher risk"
            )
        # Cost is what must be paid to keep a chunk: a deeper cut, or a lower score.
        cost = self.depth if by == "rank" else -self.score.astype(np.float64)
        if loss == "any":
            worst = np.full(self.n, -np.inf)
            np.maximum.at(worst, self.question, cost)
            limit = _indicator_limit(worst, risk, confidence)
        else:
            weight = (
                1 / np.bincount(self.question, minlength=self.n)[self.question] / self.n
            )
            limit = share_limit(cost, weight, self.n, risk, confidence)
        return ConformalRule(by, float(limit), risk, loss, confidence, self.n)

    def to_arrays(self) -> dict[str, NDArray[Any]]:
        return {"question": self.question, "depth": self.depth, "score": self.score}

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, NDArray[Any]]) -> Calibration:
        """Raises `InputError` when an array is missing or has another length."""
        try:
            return cls(arrays["question"], arrays["depth"], arrays["score"])
        except KeyError as error:
            raise InputError(f"a calibration lacks its array {error}") from error


@dataclass(frozen=True, slots=True)
class ConformalRule:
    """A selection rule with a guarantee. ``limit`` bounds a kept chunk's depth, or its negated score."""

    by: By
    limit: float
    risk: float
    loss: Loss
    confidence: float | None
    questions: int

    @property
    def guarantee(self) -> str:
        """What holds, for whom, in one sentence."""
        what = (
            f"a relevant chunk is dropped in at most {100 * self.risk:g} % of questions"
            if self.loss == "any"
            else f"on average at most {100 * self.risk:g} % of a question's relevant chunks are dropped"
        )
        sure = (
            "on average over calibration sets"
            if self.confidence is None
            else f"with {100 * self.confidence:g} % confidence in this calibration set"
        )
        return (
            f"{what}, {sure}, for questions drawn like the {self.questions} calibration questions "
            "(same corpus, retriever, chunks, scorer); void for others"
        )

    def choose(self, scores: Floats, texts: Sequence[str]) -> Mask:
        if self.by == "score":
            return np.asarray(-scores.astype(np.float64) <= self.limit, dtype=np.bool_)
        return np.asarray(rank_depths(scores) <= self.limit, dtype=np.bool_)

    def reason(self) -> str:
        cut = (
            f"deeper than {100 * self.limit:.3g} %"
            if self.by == "rank"
            else f"score below {-self.limit:.4g}"
        )
        return f"{cut}, calibrated for a risk of {100 * self.risk:g} %"


def calibrate(scorer: Scorer, questions: Iterable[Question]) -> Calibration:
    """Score the questions' passages and note where the relevant ones stand.

    Use questions that were not used for fitting the scorer or choosing its layer. Questions without a
    relevant passage say nothing about losing one and are left out. Raises `InputError` for NaN scores.
    """
    return calibrate_from_scores(
        (scorer.score(q.text, [p.text for p in q.passages]), q.labels)
        for q in questions
        if q.gold
    )


def calibrate_from_scores(
    scored: Iterable[tuple[Floats, Sequence[bool]]],
) -> Calibration:
    """`calibrate` from scores at hand: for each question its scores ``(m,)`` and labels ``(m,)``."""
    rows: list[tuple[int, float, float]] = []
    asked = (
        (s, gold)
        for s, labels in scored
        if (gold := np.asarray(labels, dtype=np.bool_)).any()
    )
    for n, (scores, gold) in enumerate(asked):
        if np.isnan(scores).any():
            raise InputError(
                "the scorer gave NaN for a calibration question; check its model's dtype"
            )
        own = np.asarray(scores, dtype=np.float32)[gold].tolist()
        rows += [
            (n, deep, score)
            for deep, score in zip(rank_depths(scores)[gold].tolist(), own, strict=True)
        ]
    return Calibration(*np.array(rows).reshape(-1, 3).T)


def rank_depths(scores: Floats) -> NDArray[np.float64]:
    """For each chunk the share of chunks that rank above it, in [0, 1); ties rank in their order."""
    above = np.empty(len(scores))
    above[rank_by_score(scores)] = np.arange(len(scores))
    return above / max(1, len(scores))


def min_question_count(risk: float, confidence: float | None = None) -> int:
    """The fewest calibration questions with which a risk can be promised at all.

    >>> min_question_count(0.05), min_question_count(0.05, 0.95)
    (19, 59)
    """
    if confidence is None:
        return math.ceil(1 / risk - 1 - 1e-9)
    return math.ceil(math.log(1 - confidence) / math.log(1 - risk) - 1e-9)


def _indicator_limit(
    worst: NDArray[np.float64], risk: float, confidence: float | None
) -> float:
    """The limit that the k-th costliest question still passes: k questions may lose a chunk, no more."""
    n = len(worst)
    k = math.floor(risk * (n + 1) + 1e-9)
    if confidence is not None:
        beta = require("scipy.stats", extra="end").beta
        # Given the calibration set, the true risk of this limit is at most Beta(k, n + 1 - k).
        while k > 0 and beta.ppf(confidence, k, n + 1 - k) > risk:
            k -= 1
    # Keeping is `cost <= limit`, so with limit = the k-th largest cost, k - 1 calibration questions lose one.
    return float(np.sort(worst)[::-1][k - 1])


def share_limit(
    cost: NDArray[np.float64],
    weight: NDArray[np.float64],
    n: int,
    risk: float,
    confidence: float | None = None,
) -> float:
    """The smallest limit at which the mean loss over ``n`` questions is within the risk (conformal risk control).

    ``cost`` ``(m,)`` is what must be paid to keep each relevant chunk, ``weight`` ``(m,)`` its part of the mean
    loss, which falls as the limit rises.
    """
    order = np.argsort(cost)
    # With the limit at the i-th cheapest cost, what is dearer is lost (ties are kept together).
    costs, kept = cost[order], np.cumsum(weight[order])
    last_of_ties = np.searchsorted(costs, costs, side="right") - 1
    losses = np.clip(1 - kept[last_of_ties], 0, 1)
    if (
        confidence is None
    ):  # with one more question that loses all, the mean must be within the risk
        fine = n / (n + 1) * losses + 1 / (n + 1) <= risk + 1e-12
    else:
        fine = np.array(
            [_p_value(float(loss), n, risk) <= 1 - confidence for loss in losses]
        )
    return float(
        costs[np.argmax(fine)]
    )  # monotone: the first that is fine; the last always is


def _p_value(loss: float, n: int, risk: float) -> float:
    """Hoeffding-Bentkus: chance of a mean loss this low among ``n`` if the true one were above ``risk``."""
    if loss >= risk:
        return 1.0
    binom = require("scipy.stats", extra="end").binom
    kept = 1 - loss
    entropy = kept * math.log(kept / (1 - risk)) + (
        loss * math.log(loss / risk) if loss > 0 else 0.0
    )
    return min(
        math.exp(-n * entropy),
        math.e * float(binom.cdf(math.ceil(n * loss - 1e-9), n, risk)),
    )


def calibrate_margins(
    scored_sets: Mapping[str, Iterable[tuple[Floats, Sequence[bool]]]],
    *,
    risks: Sequence[float] = CALIBRATED_RISKS,
    miss_rate: float | None = None,
) -> ScoreCalibration:
    """An `ScoreCalibration` from scores and labels of questions that the scorer was not fitted on, by set.

    The risk is that of a question drawn from the mix, where each set is as likely as another. With ``missed`` the
    floor is the best score that all but this share of the questions reach. Raises `InputError` for too few
    questions.
    """
    used = {
        name: [
            (s, gold)
            for s, given in rows
            if (gold := np.asarray(given, dtype=np.bool_)).any()
        ]
        for name, rows in scored_sets.items()
    }
    used = {name: rows for name, rows in used.items() if rows}
    if not used:
        raise InputError(
            "no question has a relevant passage: there is nothing to calibrate on"
        )
    bests = [float(s.max()) for rows in used.values() for s, _ in rows]
    floor = None if miss_rate is None else float(np.quantile(bests, miss_rate))
    margins = {risk: _margin(used, risk) for risk in risks}
    return ScoreCalibration(margins, floor, float(max(bests)), len(bests), tuple(used))


def _margin(sets: Mapping[str, Sequence[tuple[Floats, Mask]]], risk: float) -> float:
    """The smallest margin that drops at most ``risk`` of a question's relevant chunks, on average over the mix.

    ``sets`` has scores and labels of questions, each with a relevant chunk. Raises `InputError` for too few.
    """
    n, needed = sum(map(len, sets.values())), min_question_count(risk)
    if n < needed:
        raise InputError(
            f"a risk of {100 * risk:g} % needs {needed} calibration questions, here are {n}: calibrate on more, "
            "or accept a higher risk"
        )
    cost, weight = [], []
    for rows in sets.values():
        for scores, gold in rows:
            below = (
                float(scores.max()) - scores[gold].astype(np.float64)
            ) / list_length_factor(len(scores))
            cost.append(below)
            weight.append(np.full(len(below), 1 / (len(sets) * len(rows) * len(below))))
    return share_limit(np.concatenate(cost), np.concatenate(weight), n, risk)


def required_text_fraction(
    scores: ArrayLike,
    gold: ArrayLike,
    sizes: ArrayLike,
    groups: ArrayLike,
    *,
    fraction: float,
    resamples: int = 500,
) -> NDArray[np.float64]:
    """The share of a question's text that one margin for all keeps when it keeps ``share`` of the gold, both means
    over questions: of the questions as they are, then of ``resamples`` samples of them, the same in every call.

    One entry a passage: its score, whether it is gold, its size in any unit, its question. Questions without gold
    are left out.
    """
    values, owner = (
        np.asarray(scores, dtype=np.float64),
        np.unique(groups, return_inverse=True)[1],
    )
    known = np.bincount(owner, np.asarray(gold, dtype=np.float64))[owner] > 0
    values, owner = values[known], np.unique(owner[known], return_inverse=True)[1]
    best = np.full(owner.max() + 1, -np.inf)
    np.maximum.at(best, owner, values)
    below = (best[owner] - values) / np.log1p(np.bincount(owner))[owner]
    order = np.argsort(below, kind="stable")
    last = (
        np.searchsorted(below[order], below[order], side="right") - 1
    )  # what scores alike is kept together
    parts = [np.asarray(v, dtype=np.float64)[known] for v in (gold, sizes)]
    kept, read = (
        (v / np.maximum(1e-9, np.bincount(owner, v))[owner])[order] for v in parts
    )
    n = len(best)
    drawn = np.random.default_rng(0).multinomial(n, np.full(n, 1 / n), resamples)
    out = []
    for times in (np.ones(n), *drawn):
        weight = times[owner[order]]
        at = np.searchsorted(np.cumsum(kept * weight), fraction * n - 1e-9)
        out.append(
            float((read * weight)[: last[min(int(at), len(last) - 1)] + 1].sum() / n)
        )
    return np.array(out)
