"""Figures of strategies with 95 % intervals, and whether two strategies differ at all."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from denoise_core.evaluate.datasets import (
    EvaluationCase,
    holds_texts,
    join_passages,
)
from denoise_core.evaluate.metrics import (
    bootstrap_interval,
    contains_answer,
    wilson_interval,
)
from denoise_core.result import DenoiseResult
from denoise_core.types import Reply, Usage

NEEDED_KEPT = "needed kept"
RIGHT_ANSWERS = "right answers"

TokenCounter = Callable[[str], int]


@dataclass(frozen=True, slots=True)
class QuestionOutcome:
    """What one strategy did with one question. None means unknown.

    Attributes:
        case: The question.
        result: What the denoiser returned.
        kept_tokens: The tokens of the kept text.
        kept_ids: The passages of which something is kept.
        needed_kept: Whether the kept text still has what is needed, 0 to 1; see
            `needed_measure`.
        reply: The answer from the kept text.
        is_correct: Whether the answer is right.
        seconds: The denoiser's time; None when it was not timed.
        error: What failed: the denoiser, then everything else is empty, or the answer to
            what it kept.
    """

    case: EvaluationCase
    result: DenoiseResult | None = None
    kept_tokens: float | None = None
    kept_ids: frozenset[str] = frozenset()
    needed_kept: float | None = None
    reply: Reply | None = None
    is_correct: bool | None = None
    seconds: float | None = None
    error: str | None = None


def measure_outcome(
    case: EvaluationCase,
    result: DenoiseResult,
    count_tokens: TokenCounter,
) -> QuestionOutcome:
    """Measure what a denoiser kept of a question's passages.

    Args:
        case: The question.
        result: The denoiser's result.
        count_tokens: Counts the tokens of a text.
    """
    gold_ids = case.question.gold
    kept_ids: set[str] = set()
    kept_tokens = 0.0
    for passage in result.passages:
        kept_tokens += count_tokens(passage.text_with_header)
        kept_ids.update(span.passage_id for span in passage.source_spans)
    needed_kept = None
    measure = needed_measure(case)
    kept_text = join_passages(result.passages)
    if measure == NEEDED_TEXTS:
        needed_kept = float(holds_texts(kept_text, case.needs))
    elif measure == ANSWER_KEPT:
        needed_kept = float(contains_answer(kept_text, case.question.answers))
    elif measure == GOLD_TOUCHED:
        needed_kept = len(kept_ids & gold_ids) / len(gold_ids)
    return QuestionOutcome(case, result, kept_tokens, frozenset(kept_ids), needed_kept)


NEEDED_TEXTS = "by all texts that they need"
ANSWER_KEPT = "by an answer that is still in the kept text"
GOLD_TOUCHED = "by gold passages of which something is kept"
NOT_MEASURED = "not measured"


def needed_measure(case: EvaluationCase) -> str:
    """Say by what "needed kept" is measured: the first of these that the passages can show.

    All texts that the case needs, white space aside; an accepted answer; the gold
    passages of which something is kept. What the passages never had, no strategy can
    keep: it counts for none.
    """
    all_text = join_passages(case.question.passages)
    if case.needs and holds_texts(all_text, case.needs):
        return NEEDED_TEXTS
    if contains_answer(all_text, case.question.answers):
        return ANSWER_KEPT
    if case.question.gold:
        return GOLD_TOUCHED
    return NOT_MEASURED


def count_case_tokens(case: EvaluationCase, count_tokens: TokenCounter) -> int:
    """Count the tokens of all passages of a question."""
    return sum(count_tokens(p.text_with_header) for p in case.question.passages)


@dataclass(frozen=True, slots=True)
class MeanInterval:
    """A mean over ``count`` questions with its 95 % interval.

    The interval is Wilson's for yes and no, else the bootstrap's.
    """

    value: float
    low: float
    high: float
    count: int

    @property
    def points(self) -> str:
        """A difference in percentage points, with its interval."""
        low = 100 * self.low
        high = 100 * self.high
        points = 100 * self.value
        return f"{points:+.1f} points ({low:+.1f} to {high:+.1f})"


@dataclass(frozen=True, slots=True)
class AnswerChange:
    """Answers from the kept text compared with those from all passages.

    Attributes:
        harmed: Lines of questions that are right from everything and wrong here.
        helped: Lines of questions for which it is the reverse.
        net: Helped minus harmed, paired, over the questions that both answered.
    """

    harmed: tuple[int, ...]
    helped: tuple[int, ...]
    net: MeanInterval


@dataclass(frozen=True, slots=True)
class StrategyFigures:
    """One strategy over all questions. None means that no question can tell.

    Attributes:
        name: The strategy's name.
        questions: The questions without an error.
        failures: Lines and errors of the others. Where only the answer failed, what was
            kept counts all the same.
        needed_kept: How often the kept text still has what the question needs.
        accuracy: The share of right answers.
        accuracy_change: Answers harmed and helped.
        kept_tokens: Word pieces kept per question.
        kept_fraction: The same as a share of all passages' tokens.
        seconds: Time to denoise a question.
        input_tokens: Tokens the model read per question, to denoise and to answer.
        output_tokens: Tokens it wrote.
    """

    name: str
    questions: int
    failures: tuple[tuple[int, str], ...]
    needed_kept: MeanInterval | None
    accuracy: MeanInterval | None
    accuracy_change: AnswerChange | None
    kept_tokens: float
    kept_fraction: float
    seconds: float | None
    input_tokens: float | None
    output_tokens: float | None


def strategy_figures(
    name: str,
    outcomes: Sequence[QuestionOutcome],
    all_outcomes: Sequence[QuestionOutcome],
) -> StrategyFigures:
    """Compute the figures of a strategy.

    Args:
        name: The strategy's name.
        outcomes: Its outcomes.
        all_outcomes: Those of the same questions with all passages.
    """
    failed_lines = [
        (outcome.case.line_number, outcome.error)
        for outcome in outcomes
        if outcome.error is not None
    ]
    total_tokens = _mean_known(outcome.kept_tokens for outcome in all_outcomes)
    kept_tokens = _mean_known(outcome.kept_tokens for outcome in outcomes) or 0.0
    known_usages = [
        usage for usage in map(_outcome_usage, outcomes) if usage is not None
    ]
    return StrategyFigures(
        name,
        len(outcomes) - len(failed_lines),
        tuple(failed_lines),
        needed_kept=mean_interval(
            _known_values(outcome.needed_kept for outcome in outcomes)
        ),
        accuracy=mean_interval(
            _known_values(outcome.is_correct for outcome in outcomes)
        ),
        accuracy_change=_answer_change(outcomes, all_outcomes),
        kept_tokens=kept_tokens,
        kept_fraction=kept_tokens / total_tokens if total_tokens else 1.0,
        seconds=_mean_known(outcome.seconds for outcome in outcomes),
        **mean_usage(known_usages),
    )


@dataclass(frozen=True, slots=True)
class SignificanceTest:
    """Whether the two best strategies differ on a measure.

    Attributes:
        measure: `NEEDED_KEPT` or `RIGHT_ANSWERS`.
        first: The best strategy.
        second: The second best.
        difference: First minus second, paired.
    """

    measure: str
    first: str
    second: str
    difference: MeanInterval

    @property
    def is_significant(self) -> bool:
        """Whether the interval excludes 0."""
        return not self.difference.low <= 0 <= self.difference.high

    def __str__(self) -> str:
        """The result in one sentence."""
        difference_text = (
            f"{self.difference.points} on {self.difference.count} questions"
        )
        if self.is_significant:
            return f"{self.first} is ahead of {self.second} in {self.measure}: {difference_text}"
        return (
            f"no difference found between {self.first} and {self.second} in "
            f"{self.measure}: {difference_text}"
        )


def compare_best(
    measure: str,
    names: Sequence[str],
    outcomes: Mapping[str, Sequence[QuestionOutcome]],
) -> SignificanceTest | None:
    """Compare the first two of ``names``, on the questions for which both have a value.

    Returns:
        None when there are fewer than two names, or no such question.
    """
    if len(names) < 2:
        return None
    value_pairs = []
    for outcome_pair in zip(outcomes[names[0]], outcomes[names[1]], strict=True):
        pair_values = [_outcome_value(outcome, measure) for outcome in outcome_pair]
        if None not in pair_values:
            value_pairs.append(pair_values)
    if not value_pairs:
        return None
    first_values, second_values = np.array(value_pairs, dtype=np.float64).T
    return SignificanceTest(
        measure,
        names[0],
        names[1],
        paired_difference(first_values, second_values),
    )


def _outcome_value(outcome: QuestionOutcome, measure: str) -> float | None:
    return outcome.needed_kept if measure == NEEDED_KEPT else outcome.is_correct


def mean_interval(pair_values: ArrayLike) -> MeanInterval | None:
    """Compute a mean with its interval; None without values."""
    value_array = np.asarray(pair_values, dtype=np.float64)
    if not len(value_array):
        return None
    if np.isin(value_array, (0.0, 1.0)).all():
        low, high = wilson_interval(int(value_array.sum()), len(value_array))
    else:
        low, high = bootstrap_interval(value_array)
    return MeanInterval(float(value_array.mean()), low, high, len(value_array))


def paired_difference(
    first_values: ArrayLike, second_values: ArrayLike
) -> MeanInterval:
    """Compute the mean of first minus second over the same questions."""
    paired_differences = np.subtract(first_values, second_values, dtype=np.float64)
    low, high = bootstrap_interval(paired_differences)
    return MeanInterval(
        float(paired_differences.mean()), low, high, len(paired_differences)
    )


def mean_usage(known_usages: Sequence[Usage]) -> dict[str, float | None]:
    """Average tokens, as arguments for `StrategyFigures`.

    Returns:
        ``input_tokens`` and ``output_tokens``, each None when nothing is known.
    """
    return {
        "input_tokens": _mean_known(usage.input_tokens for usage in known_usages),
        "output_tokens": _mean_known(usage.output_tokens for usage in known_usages),
    }


def _outcome_usage(outcome: QuestionOutcome) -> Usage | None:
    """What denoising and answering used together."""
    reply = outcome.reply
    result = outcome.result
    if reply is None or reply.usage is None or result is None:
        return None
    answer_usage = reply.usage
    denoise_usage = result.trace.usage
    return Usage(
        answer_usage.input_tokens + denoise_usage.input_tokens,
        answer_usage.output_tokens + denoise_usage.output_tokens,
        answer_usage.is_estimated or denoise_usage.is_estimated,
        answer_usage.cached_tokens + denoise_usage.cached_tokens,
    )


def _answer_change(
    outcomes: Sequence[QuestionOutcome], all_outcomes: Sequence[QuestionOutcome]
) -> AnswerChange | None:
    harmed_lines = []
    helped_lines = []
    paired_differences = []
    for outcome, all_outcome in zip(outcomes, all_outcomes, strict=True):
        if outcome.is_correct is None or all_outcome.is_correct is None:
            continue
        difference = outcome.is_correct - all_outcome.is_correct
        paired_differences.append(difference)
        if difference < 0:
            harmed_lines.append(outcome.case.line_number)
        elif difference > 0:
            helped_lines.append(outcome.case.line_number)
    if not paired_differences:
        return None
    net_change = paired_difference(
        paired_differences, np.zeros(len(paired_differences))
    )
    return AnswerChange(tuple(harmed_lines), tuple(helped_lines), net_change)


def _known_values(pair_values: Iterable[float | None]) -> list[float]:
    return [float(value) for value in pair_values if value is not None]


def _mean_known(pair_values: Iterable[float | None]) -> float | None:
    known_values = _known_values(pair_values)
    return float(np.mean(known_values)) if known_values else None
