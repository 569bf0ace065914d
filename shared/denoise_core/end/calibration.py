"""Calibration: find how much to keep for a stated risk of losing relevant text.

Split-conformal prediction (Vovk et al.) with the question as the unit. From questions
*not* used for fitting or for choosing the layer, one number each is kept: how deep in
the ranking their relevant chunks are. The guarantee, for a new question drawn like
them:

* ``loss="any"``: a relevant chunk is dropped with probability at most ``risk``;
* ``loss="share"`` (Conformal Risk Control, arXiv 2208.02814, for several relevant
  chunks): the expected fraction of relevant chunks dropped is at most ``risk``.

Both hold on average over calibration sets. With ``confidence=0.95`` they hold for this
calibration set, except that one in twenty such sets would not be good enough; that
takes more questions and keeps more (for ``loss="share"`` by Learn then Test, arXiv
2110.01052).

The guarantee is void when new questions are not like the calibration questions:
another corpus, retriever, number or length of chunks, prompt layout, model, dtype or
scorer; when calibration questions were used for fitting; and when `max_keep` cuts what
the rule keeps. Then calibrate again.

`calibrate` gives a `ConformalRule` through `Calibration.rule`; `calibrate_margins`
gives the `ScoreCalibration` that ``keep="auto"`` needs.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

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
FLOOR_MISS_RATE = 0.03  # fraction of answerable questions below the floor
GOLD_TARGETS = (0.90, 0.95, 0.99)  # gold to keep, for `required_text_fraction`

LossKind = Literal["any", "share"]
Doubles: TypeAlias = NDArray[np.float64]
ScoredList: TypeAlias = tuple[Floats, Mask]  # scores and labels of one question


@dataclass(frozen=True, slots=True, eq=False)
class Calibration:
    """Ranks of the relevant chunks of ``n`` calibration questions.

    Attributes:
        question: int32 ``(m,)``, the question of each relevant chunk, 0 to n - 1.
        depth: float64 ``(m,)``, the fraction of the question's chunks that rank above
            the chunk; 0 for the best.
    """

    question: NDArray[np.int32]
    depth: Doubles

    def __post_init__(self) -> None:
        for field_name, dtype in (("question", np.int32), ("depth", np.float64)):
            field_values = np.array(getattr(self, field_name), dtype=dtype)
            field_values.setflags(write=False)
            object.__setattr__(self, field_name, field_values)
        if self.question.shape != self.depth.shape or self.question.ndim != 1:
            raise InputError(
                "a calibration is two arrays of one length, got shapes "
                f"{self.question.shape} and {self.depth.shape}"
            )
        if self.question.size:
            question_numbers = set(self.question.tolist())
            if question_numbers != set(range(self.n)):
                raise InputError(
                    "a calibration counts its questions 0, 1, 2, ... without a gap"
                )
        valid_depth = (self.depth >= 0) & (self.depth < 1)
        if not valid_depth.all():
            raise InputError("a calibration's depths are in [0, 1)")

    @property
    def n(self) -> int:
        """Number of calibration questions."""
        if not self.question.size:
            return 0
        return int(self.question.max()) + 1

    def rule(
        self,
        risk: float = 0.05,
        *,
        loss: LossKind = "any",
        confidence: float | None = None,
    ) -> ConformalRule:
        """The rule that keeps the smallest fraction of each question's chunks at this risk.

        Args:
            risk: Between 0 and 1.
            loss: What the risk is of; see the module's docstring.
            confidence: Probability that this calibration set is good enough; None for
                a guarantee on average over calibration sets.

        Raises:
            InputError: A setting out of range, or too few questions to promise this.
        """
        self._check_settings(risk, loss, confidence)
        if loss == "any":
            worst_cost = np.full(self.n, -np.inf)
            np.maximum.at(worst_cost, self.question, self.depth)
            cost_limit = _any_loss_limit(worst_cost, risk, confidence)
        else:
            chunk_counts = np.bincount(self.question, minlength=self.n)
            loss_weight = 1 / chunk_counts[self.question] / self.n
            cost_limit = _mean_loss_limit(
                self.depth, loss_weight, self.n, risk, confidence
            )
        return ConformalRule(float(cost_limit), risk, loss, confidence, self.n)

    def _check_settings(self, risk: float, loss: str, confidence: float | None) -> None:
        if not 0 < risk < 1:
            raise InputError(
                f"risk={risk}: expected a fraction between 0 and 1, such as 0.05"
            )
        if confidence is not None and not 0 < confidence < 1:
            raise InputError(
                f"confidence={confidence}: expected a fraction between 0 and 1, "
                "such as 0.95, or None"
            )
        if loss not in ("any", "share"):
            raise InputError(f"loss={loss!r}: expected 'any' or 'share'")
        min_count = min_question_count(risk, confidence)
        if self.n < min_count:
            certainty_text = ""
            if confidence is not None:
                certainty_text = f" with {100 * confidence:g} % confidence"
            raise InputError(
                f"a risk of {100 * risk:g} %{certainty_text} needs {min_count} calibration "
                f"questions with a relevant chunk, here are {self.n}: calibrate on "
                "more, or accept a higher risk"
            )

    def to_arrays(self) -> dict[str, NDArray[Any]]:
        """The arrays by name; `from_arrays` reads them."""
        return {"question": self.question, "depth": self.depth}

    @classmethod
    def from_arrays(cls, named_arrays: Mapping[str, NDArray[Any]]) -> Calibration:
        """Raises `InputError` when an array is missing or has another length."""
        try:
            return cls(named_arrays["question"], named_arrays["depth"])
        except KeyError as error:
            raise InputError(f"a calibration lacks its array {error}") from error


@dataclass(frozen=True, slots=True)
class ConformalRule:
    """A selection rule with a guarantee; ``limit`` bounds a kept chunk's depth."""

    limit: float
    risk: float
    loss: LossKind
    confidence: float | None
    questions: int

    @property
    def guarantee(self) -> str:
        """What holds, for which questions, in one sentence."""
        percent_text = f"at most {100 * self.risk:g} % of"
        promise_text = (
            f"on average {percent_text} a question's relevant chunks are dropped"
        )
        if self.loss == "any":
            promise_text = f"a relevant chunk is dropped in {percent_text} questions"
        certainty_text = "on average over calibration sets"
        if self.confidence is not None:
            certainty_text = (
                f"with {100 * self.confidence:g} % confidence in this calibration set"
            )
        return (
            f"{promise_text}, {certainty_text}, for questions drawn like the {self.questions} "
            "calibration questions (same corpus, retriever, chunks, scorer); void for "
            "others"
        )

    def choose(self, scores: Floats, texts: Sequence[str]) -> Mask:
        """True for each chunk within the limit."""
        return np.asarray(rank_depths(scores) <= self.limit, dtype=np.bool_)

    def reason(self) -> str:
        """Why the other chunks are dropped."""
        return (
            f"deeper than {100 * self.limit:.3g} %, calibrated for a risk of "
            f"{100 * self.risk:g} %"
        )


def calibrate(scorer: Scorer, questions: Iterable[Question]) -> Calibration:
    """Score the questions' passages and note the ranks of the relevant ones.

    Args:
        scorer: The scorer to calibrate.
        questions: Questions not used for fitting the scorer or choosing its layer;
            those without a relevant passage are left out.

    Raises:
        InputError: The scorer gave NaN.
    """
    return calibrate_from_scores(
        (
            scorer.score(
                question.text, [p.text_with_header for p in question.passages]
            ),
            question.labels,
        )
        for question in questions
        if question.gold
    )


def calibrate_from_scores(
    scored_lists: Iterable[tuple[Floats, Sequence[bool]]],
) -> Calibration:
    """`calibrate` from each question's scores ``(m,)`` and labels ``(m,)``."""
    question_numbers: list[int] = []
    gold_depths: list[float] = []
    for number, (chunk_scores, is_gold) in enumerate(_lists_with_gold(scored_lists)):
        if np.isnan(chunk_scores).any():
            raise InputError(
                "the scorer gave NaN for a calibration question; check its "
                "model's dtype"
            )
        question_numbers += [number] * int(is_gold.sum())
        gold_depths += rank_depths(chunk_scores)[is_gold].tolist()
    return Calibration(
        np.array(question_numbers, dtype=np.int32), np.array(gold_depths)
    )


def _lists_with_gold(
    scored_lists: Iterable[tuple[Floats, Sequence[bool]]],
) -> list[ScoredList]:
    """The questions with a relevant chunk, their labels as a mask."""
    gold_lists = []
    for chunk_scores, chunk_labels in scored_lists:
        is_gold = np.asarray(chunk_labels, dtype=np.bool_)
        if is_gold.any():
            gold_lists.append((chunk_scores, is_gold))
    return gold_lists


def rank_depths(chunk_scores: Floats) -> Doubles:
    """For each chunk the fraction of chunks that rank above it, in [0, 1).

    Of equal scores the earlier chunk ranks higher.
    """
    ranks = np.empty(len(chunk_scores))
    ranks[rank_by_score(chunk_scores)] = np.arange(len(chunk_scores))
    return ranks / max(1, len(chunk_scores))


def min_question_count(risk: float, confidence: float | None = None) -> int:
    """The fewest calibration questions with which a risk can be promised at all.

    >>> min_question_count(0.05), min_question_count(0.05, 0.95)
    (19, 59)
    """
    if confidence is None:
        return math.ceil(1 / risk - 1 - 1e-9)
    return math.ceil(math.log(1 - confidence) / math.log(1 - risk) - 1e-9)


def _any_loss_limit(
    worst_cost: Doubles, risk: float, confidence: float | None
) -> float:
    """The cost of the k-th costliest question, where k questions may lose a chunk."""
    n = len(worst_cost)
    k = math.floor(risk * (n + 1) + 1e-9)
    if confidence is not None:
        beta_distribution = require("scipy.stats", extra="end").beta
        # Given the set, the limit's true risk is at most Beta(k, n + 1 - k).
        while k > 0 and beta_distribution.ppf(confidence, k, n + 1 - k) > risk:
            k -= 1
    # Keeping is `cost <= limit`: with the k-th largest cost k - 1 questions lose one.
    return float(np.sort(worst_cost)[::-1][k - 1])


def _mean_loss_limit(
    keep_cost: Doubles,
    loss_weight: Doubles,
    n: int,
    risk: float,
    confidence: float | None = None,
) -> float:
    """The smallest limit whose mean loss over ``n`` questions is within the risk.

    Args:
        keep_cost: ``(m,)``, what it costs to keep each relevant chunk.
        loss_weight: ``(m,)``, each chunk's part of the mean loss; sums to 1.
        n: Number of questions.
        risk: Upper bound of the mean loss.
        confidence: As in `Calibration.rule`.
    """
    cost_order = np.argsort(keep_cost)
    sorted_cost = keep_cost[cost_order]
    kept_weight = np.cumsum(loss_weight[cost_order])
    # A limit at a cost keeps every chunk of that cost: take the last of each tie.
    last_of_ties = np.searchsorted(sorted_cost, sorted_cost, side="right") - 1
    mean_losses = np.clip(1 - kept_weight[last_of_ties], 0, 1)
    if confidence is None:
        # With one more question that loses all, the mean must be within the risk.
        is_safe = n / (n + 1) * mean_losses + 1 / (n + 1) <= risk + 1e-12
    else:
        p_values = [_hoeffding_bentkus(float(loss), n, risk) for loss in mean_losses]
        is_safe = np.array(p_values) <= 1 - confidence
    return float(sorted_cost[np.argmax(is_safe)])  # monotone, and the last is safe


def _hoeffding_bentkus(loss: float, n: int, risk: float) -> float:
    """Chance of a mean loss this low if the true one is above the risk."""
    if loss >= risk:
        return 1.0
    binomial = require("scipy.stats", extra="end").binom
    kept_fraction = 1 - loss
    loss_entropy = kept_fraction * math.log(kept_fraction / (1 - risk))
    if loss > 0:
        loss_entropy += loss * math.log(loss / risk)
    bentkus_bound = math.e * float(binomial.cdf(math.ceil(n * loss - 1e-9), n, risk))
    return min(math.exp(-n * loss_entropy), bentkus_bound)


def calibrate_margins(
    scored_sets: Mapping[str, Iterable[tuple[Floats, Sequence[bool]]]],
    *,
    risks: Sequence[float] = CALIBRATED_RISKS,
    miss_rate: float | None = None,
) -> ScoreCalibration:
    """A `ScoreCalibration` from questions that the scorer was not fitted on.

    The risk is that of a question drawn from the mix, each set being equally likely.

    Args:
        scored_sets: By name of the set, scores ``(m,)`` and labels ``(m,)`` of each
            question; questions without a relevant chunk are left out.
        risks: Risks to find a margin for.
        miss_rate: Fraction of the questions whose best score is below the floor; None
            for no floor.

    Raises:
        InputError: Too few questions for a risk.
    """
    question_sets = {}
    for set_name, scored_lists in scored_sets.items():
        gold_lists = _lists_with_gold(scored_lists)
        if gold_lists:
            question_sets[set_name] = gold_lists
    if not question_sets:
        raise InputError(
            "no question has a relevant passage: there is nothing to calibrate on"
        )
    best_scores: list[float] = []
    list_lengths: list[int] = []
    for gold_lists in question_sets.values():
        best_scores += [float(list_scores.max()) for list_scores, _ in gold_lists]
        list_lengths += [len(list_scores) for list_scores, _ in gold_lists]
    floor_score = None
    if miss_rate is not None:
        floor_score = float(np.quantile(best_scores, miss_rate))
    margin_of_risk = {risk: _smallest_margin(question_sets, risk) for risk in risks}
    return ScoreCalibration(
        margin_of_risk,
        floor_score,
        max(best_scores),
        len(best_scores),
        tuple(question_sets),
        longest_list=max(list_lengths),
    )


def _smallest_margin(
    question_sets: Mapping[str, Sequence[ScoredList]], risk: float
) -> float:
    """The smallest margin that drops at most ``risk`` of a question's relevant chunks.

    On average over the mix; raises `InputError` for too few questions.
    """
    n = sum(map(len, question_sets.values()))
    min_count = min_question_count(risk)
    if n < min_count:
        raise InputError(
            f"a risk of {100 * risk:g} % needs {min_count} calibration questions, here "
            f"are {n}: calibrate on more, or accept a higher risk"
        )
    margin_costs = []
    loss_weights = []
    for scored_lists in question_sets.values():
        for chunk_scores, is_gold in scored_lists:
            exact_scores = chunk_scores.astype(np.float64)
            score_distance = exact_scores.max() - exact_scores[is_gold]
            # No bound: none of these lists is longer than the longest of them.
            length_factor = list_length_factor(len(chunk_scores), None)
            margin_costs.append(score_distance / length_factor)
            question_weight = 1 / (len(question_sets) * len(scored_lists))
            chunk_weight = question_weight / len(score_distance)
            loss_weights.append(np.full(len(score_distance), chunk_weight))
    return _mean_loss_limit(
        np.concatenate(margin_costs), np.concatenate(loss_weights), n, risk
    )


def required_text_fraction(
    scores: ArrayLike,
    gold: ArrayLike,
    sizes: ArrayLike,
    groups: ArrayLike,
    *,
    fraction: float,
    resamples: int = 500,
) -> Doubles:
    """Mean fraction of text kept by the smallest margin that keeps enough gold.

    One margin for all questions; both means are over questions with gold.

    Args:
        scores: ``(n,)``, one per passage.
        gold: ``(n,)``, whether each is relevant.
        sizes: ``(n,)``, the passages' sizes in any unit.
        groups: ``(n,)``, the question of each passage.
        fraction: Mean fraction of a question's gold to keep.
        resamples: Bootstrap samples of the questions; the seed is fixed.

    Returns:
        ``(1 + resamples,)``: the estimate, then one value per bootstrap sample.
    """
    all_scores = np.asarray(scores, dtype=np.float64)
    question_of_passage = np.unique(groups, return_inverse=True)[1]
    gold_counts = np.bincount(question_of_passage, np.asarray(gold, dtype=np.float64))
    has_gold = gold_counts[question_of_passage] > 0
    passage_scores = all_scores[has_gold]
    owners_with_gold = question_of_passage[has_gold]
    question_of_passage = np.unique(owners_with_gold, return_inverse=True)[1]
    best_scores = np.full(question_of_passage.max() + 1, -np.inf)
    np.maximum.at(best_scores, question_of_passage, passage_scores)
    list_lengths = np.bincount(question_of_passage)
    score_distance = best_scores[question_of_passage] - passage_scores
    score_distance /= np.log1p(list_lengths)[question_of_passage]
    distance_order = np.argsort(score_distance, kind="stable")
    # Passages of equal distance are kept together.
    ascending = score_distance[distance_order]
    last_of_ties = np.searchsorted(ascending, ascending, side="right") - 1
    question_of_row = question_of_passage[distance_order]
    row_fractions = []
    for amount_column in (gold, sizes):
        row_amount = np.asarray(amount_column, dtype=np.float64)[has_gold]
        question_total = np.maximum(1e-9, np.bincount(question_of_passage, row_amount))
        row_fraction = row_amount / question_total[question_of_passage]
        row_fractions.append(row_fraction[distance_order])
    gold_fraction, text_fraction = row_fractions
    n = len(best_scores)
    generator = np.random.default_rng(0)
    bootstrap_samples = generator.multinomial(n, np.full(n, 1 / n), resamples)
    text_estimates = []
    for repeat_counts in (np.ones(n), *bootstrap_samples):
        row_weight = repeat_counts[question_of_row]
        kept_gold = np.cumsum(gold_fraction * row_weight)
        first_enough = int(np.searchsorted(kept_gold, fraction * n - 1e-9))
        stop_row = last_of_ties[min(first_enough, len(distance_order) - 1)] + 1
        weighted_text = text_fraction * row_weight
        kept_text = weighted_text[:stop_row].sum()
        text_estimates.append(float(kept_text / n))
    return np.array(text_estimates)
