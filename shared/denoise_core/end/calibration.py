"""Calibration: find how much to keep for a stated risk of losing relevant text.

Conformal Risk Control (arXiv 2208.02814) with the question as the unit. From questions
*not* used for fitting or for choosing the layer, one number is kept for each risk: how
far below the best score a chunk may be. The guarantee, for a new question drawn like
them: the expected fraction of relevant chunks dropped is at most ``risk``, on average
over calibration sets.

The guarantee is void when new questions are not like the calibration questions:
another corpus, retriever, number or length of chunks, prompt layout, model, dtype or
scorer; when calibration questions were used for fitting; and when `max_keep` cuts what
the rule keeps. Then calibrate again.

`calibrate_scorer` and, from scores, `calibrate_margins` give the `ScoreCalibration` that
``keep="auto"`` needs.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from denoise_core.end.selection import (
    Floats,
    Mask,
    ScoreCalibration,
    check_no_nan,
    list_length_factor,
)
from denoise_core.errors import InputError
from denoise_core.protocols import Scorer
from denoise_core.question import Question

CALIBRATED_RISKS = (0.05, 0.10, 0.20)
FLOOR_MISS_RATE = 0.03  # fraction of answerable questions below the floor
GOLD_TARGETS = (0.90, 0.95, 0.99)  # gold to keep, for `required_text_fraction`

Doubles: TypeAlias = NDArray[np.float64]
ScoredList: TypeAlias = tuple[Floats, Mask]  # scores and labels of one question


def calibrate_scorer(
    scorer: Scorer, questions: Iterable[Question], *, risk: float | None = None
) -> ScoreCalibration:
    """Score the questions' passages and find the margins for ``keep="auto"``.

    Args:
        scorer: The scorer to calibrate.
        questions: Questions not used for fitting the scorer or choosing its layer;
            those without a relevant passage are left out.
        risk: One more risk to find a margin for, in addition to those of `CALIBRATED_RISKS`
            that so many questions can promise.

    Raises:
        BadScores: The scorer gave NaN.
        InputError: Too few questions for the risk.
    """
    scored_lists = []
    for question in questions:
        if question.gold:
            texts = [p.text_with_header for p in question.passages]
            scores = check_no_nan(scorer.score(question.text, texts))
            scored_lists.append((scores, question.labels))
    risks = promised_risks(len(scored_lists), risk)
    return calibrate_margins({"your questions": scored_lists}, risks=risks)


def promised_risks(question_count: int, risk: float | None = None) -> list[float]:
    """The risks that so many questions can promise, with the requested one.

    Raises:
        InputError: A risk out of range, or too few questions for it.
    """
    if risk is not None and not 0 < risk < 1:
        raise InputError(f"risk={risk}: expected a share between 0 and 1, such as 0.05")
    requested_risk = risk or max(CALIBRATED_RISKS)
    _check_question_count(question_count, requested_risk)
    risks = {requested_risk}
    for calibrated_risk in CALIBRATED_RISKS:
        if question_count >= min_question_count(calibrated_risk):
            risks.add(calibrated_risk)
    return sorted(risks)


def _check_question_count(question_count: int, risk: float) -> None:
    if question_count < min_question_count(risk):
        raise InputError(
            f"a risk of {100 * risk:g} % needs {min_question_count(risk)} "
            f"calibration questions with a relevant passage, here are {question_count}: "
            "give more, or accept a higher risk"
        )


def min_question_count(risk: float) -> int:
    """The fewest calibration questions with which a risk can be promised at all.

    >>> min_question_count(0.05)
    19
    """
    return math.ceil(1 / risk - 1 - 1e-9)


def _mean_loss_limit(
    keep_cost: Doubles, loss_weight: Doubles, n: int, risk: float
) -> float:
    """The smallest limit whose mean loss over ``n`` questions is within the risk.

    Args:
        keep_cost: ``(m,)``, what it costs to keep each relevant chunk.
        loss_weight: ``(m,)``, each chunk's part of the mean loss; sums to 1.
        n: Number of questions.
        risk: Upper bound of the mean loss.
    """
    cost_order = np.argsort(keep_cost)
    sorted_cost = keep_cost[cost_order]
    kept_weight = np.cumsum(loss_weight[cost_order])
    # A limit at a cost keeps every chunk of that cost: take the last of each tie.
    last_of_ties = np.searchsorted(sorted_cost, sorted_cost, side="right") - 1
    mean_losses = np.clip(1 - kept_weight[last_of_ties], 0, 1)
    # With one more question that loses all, the mean must be within the risk.
    total_losses = n * mean_losses + 1
    is_safe = total_losses / (n + 1) <= risk + 1e-12
    return float(sorted_cost[np.argmax(is_safe)])  # monotone, and the last is safe


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
    question_sets: dict[str, list[ScoredList]] = {}
    best_scores = []
    list_lengths = []
    for set_name, scored_lists in scored_sets.items():
        for scores, labels in scored_lists:
            is_gold = np.asarray(labels, dtype=np.bool_)
            if is_gold.any():
                question_sets.setdefault(set_name, []).append((scores, is_gold))
                best_scores.append(float(scores.max()))
                list_lengths.append(len(scores))
    if not question_sets:
        raise InputError(
            "no question has a relevant passage: there is nothing to calibrate on"
        )
    floor_score = None
    if miss_rate is not None:
        floor_score = float(np.quantile(best_scores, miss_rate))
    return ScoreCalibration(
        {risk: _smallest_margin(question_sets, risk) for risk in risks},
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
    _check_question_count(n, risk)
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
    question_of_passage = np.unique(groups, return_inverse=True)[1]
    passage_rows = np.column_stack([scores, gold, sizes]).astype(np.float64)
    question_rows: list[Doubles] = []
    for question in range(question_of_passage.max() + 1):
        own_rows = passage_rows[question_of_passage == question]
        own_scores, own_gold, own_sizes = own_rows.T
        if own_gold.any():
            distance = own_scores.max() - own_scores
            columns = (
                distance / np.log1p(len(own_rows)),
                own_gold / own_gold.sum(),
                own_sizes / max(1e-9, own_sizes.sum()),
                np.full(len(own_rows), len(question_rows)),
            )
            question_rows.append(np.column_stack(columns))
    rows = np.concatenate(question_rows)
    distance, gold_fraction, text_fraction, row_questions = rows[
        np.argsort(rows[:, 0], kind="stable")
    ].T
    # Passages of equal distance are kept together.
    end_of_ties = np.searchsorted(distance, distance, side="right")
    n = len(question_rows)
    generator = np.random.default_rng(0)
    bootstrap_samples = generator.multinomial(n, np.full(n, 1 / n), resamples)
    text_estimates = []
    for repeat_counts in (np.ones(n), *bootstrap_samples):
        row_weight = repeat_counts[row_questions.astype(np.intp)]
        kept_gold = np.cumsum(gold_fraction * row_weight)
        first_enough = int(np.searchsorted(kept_gold, fraction * n - 1e-9))
        stop_row = end_of_ties[min(first_enough, len(rows) - 1)]
        kept_text = (text_fraction * row_weight)[:stop_row].sum()
        text_estimates.append(float(kept_text / n))
    return np.array(text_estimates)
