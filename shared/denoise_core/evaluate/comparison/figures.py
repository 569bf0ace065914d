"""Figures of strategies with 95 % intervals, and whether two strategies differ at all."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import ArrayLike

from denoise_core.embedded.default import shared_encoder
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
from denoise_core.types import Passage, Reply, Usage

NEEDED_KEPT = "needed kept"
RIGHT_ANSWERS = "right answers"


@dataclass(frozen=True, slots=True)
class QuestionOutcome:
    """What one strategy did with one question. None means unknown.

    Attributes:
        case: The question.
        line_number: Its line in the file.
        result: What the denoiser returned.
        kept_tokens: The tokens of the kept text.
        kept_ids: The passages of which something is kept.
        needed_kept: Whether the kept text still has what is needed, 0 to 1.
        needed_by: By what that is measured; see `measure_outcome`.
        reply: The answer from the kept text.
        is_correct: Whether the answer is right.
        seconds: The denoiser's time; None when it was not timed.
        error: What failed: the denoiser, then everything else is empty, or the answer to
            what it kept.
    """

    case: EvaluationCase = field(compare=False)  # what is not compared is not in JSON
    line_number: int
    result: DenoiseResult | None = field(default=None, compare=False)
    kept_tokens: float | None = None
    kept_ids: tuple[str, ...] = ()
    needed_kept: float | None = None
    needed_by: str = ""
    reply: Reply | None = None
    is_correct: bool | None = None
    seconds: float | None = field(default=None, compare=False)
    error: str | None = None

    def value_of(self, measure: str) -> float | None:
        """The value of `NEEDED_KEPT` or `RIGHT_ANSWERS`."""
        if measure == NEEDED_KEPT:
            return self.needed_kept
        return self.is_correct


NEEDED_TEXTS = "by all texts that they need"
ANSWER_KEPT = "by an answer that is still in the kept text"
GOLD_TOUCHED = "by gold passages of which something is kept"
NOT_MEASURED = "not measured"


def measure_outcome(
    case: EvaluationCase, result: DenoiseResult, seconds: float | None
) -> QuestionOutcome:
    """Measure what a denoiser kept of a question's passages, in ``seconds``.

    "Needed kept" is measured by the first of these that the passages can show: all texts
    that the case needs, white space aside; an accepted answer; the gold passages of which
    something is kept. What the passages never had, no strategy can keep: it counts for
    none.
    """
    question = case.question
    kept_ids = set()
    for passage in result.passages:
        for span in passage.source_spans:
            kept_ids.add(span.passage_id)
    all_text = join_passages(question.passages)
    kept_text = join_passages(result.passages)
    needed_by = NOT_MEASURED
    needed_kept = None
    if case.needs and holds_texts(all_text, case.needs):
        needed_by = NEEDED_TEXTS
        holds_needs = holds_texts(kept_text, case.needs)
        needed_kept = float(holds_needs)
    elif contains_answer(all_text, question.answers):
        needed_by = ANSWER_KEPT
        holds_answer = contains_answer(kept_text, question.answers)
        needed_kept = float(holds_answer)
    elif question.gold:
        needed_by = GOLD_TOUCHED
        kept_gold = kept_ids & question.gold
        needed_kept = len(kept_gold) / len(question.gold)
    return QuestionOutcome(
        case,
        case.line_number,
        result,
        count_passage_tokens(result.passages),
        tuple(sorted(kept_ids)),
        needed_kept,
        needed_by,
        seconds=seconds,
    )


def count_passage_tokens(passages: Iterable[Passage]) -> int:
    """Count the word pieces of passages with their headers."""
    count_tokens = shared_encoder().count_tokens
    token_count = 0
    for passage in passages:
        token_count += count_tokens(passage.text_with_header)
    return token_count


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

    def mean_of(self, measure: str) -> MeanInterval | None:
        """The mean of `NEEDED_KEPT` or `RIGHT_ANSWERS`."""
        if measure == NEEDED_KEPT:
            return self.needed_kept
        return self.accuracy


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
        (outcome.line_number, outcome.error)
        for outcome in outcomes
        if outcome.error is not None
    ]
    total_tokens = _mean_known(outcome.kept_tokens for outcome in all_outcomes)
    kept_tokens = _mean_known(outcome.kept_tokens for outcome in outcomes) or 0.0
    known_usages = []
    for outcome in outcomes:
        usage = _outcome_usage(outcome)
        if usage is not None:
            known_usages.append(usage)
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
        relation = f"no difference found between {self.first} and {self.second}"
        if self.is_significant:
            relation = f"{self.first} is ahead of {self.second}"
        return f"{relation} in {self.measure}: {difference_text}"


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
    first, second = names[:2]
    difference = paired_difference(measure, outcomes[first], outcomes[second])
    if difference is None:
        return None
    return SignificanceTest(measure, first, second, difference)


def mean_interval(pair_values: ArrayLike) -> MeanInterval | None:
    """Compute a mean with its interval; None without values."""
    value_array = np.asarray(pair_values, dtype=np.float64)
    if not len(value_array):
        return None
    is_binary = np.isin(value_array, (0.0, 1.0))
    if is_binary.all():
        hits = int(value_array.sum())
        low, high = wilson_interval(hits, len(value_array))
    else:
        low, high = bootstrap_interval(value_array)
    mean_value = float(value_array.mean())
    return MeanInterval(mean_value, low, high, len(value_array))


def paired_difference(
    measure: str, first: Sequence[QuestionOutcome], second: Sequence[QuestionOutcome]
) -> MeanInterval | None:
    """Compute the mean of first minus second on the questions for which both have a value.

    None without such a question.
    """
    differences = []
    for first_outcome, second_outcome in zip(first, second, strict=True):
        first_value = first_outcome.value_of(measure)
        second_value = second_outcome.value_of(measure)
        if first_value is not None and second_value is not None:
            difference = float(first_value) - float(second_value)
            differences.append(difference)
    if not differences:
        return None
    low, high = bootstrap_interval(differences)
    mean_difference = float(np.mean(differences))
    return MeanInterval(mean_difference, low, high, len(differences))


def mean_usage(known_usages: Sequence[Usage]) -> dict[str, float | None]:
    """Average tokens, as arguments for `StrategyFigures`.

    Returns:
        ``input_tokens`` and ``output_tokens``, each None when nothing is known.
    """
    input_counts = [usage.input_tokens for usage in known_usages]
    output_counts = [usage.output_tokens for usage in known_usages]
    return {
        "input_tokens": _mean_known(input_counts),
        "output_tokens": _mean_known(output_counts),
    }


def _outcome_usage(outcome: QuestionOutcome) -> Usage | None:
    """What denoising and answering used together."""
    reply = outcome.reply
    result = outcome.result
    if reply is None or reply.usage is None or result is None:
        return None
    denoise_usage = result.trace.usage
    return Usage(
        reply.usage.input_tokens + denoise_usage.input_tokens,
        reply.usage.output_tokens + denoise_usage.output_tokens,
    )


def _answer_change(
    outcomes: Sequence[QuestionOutcome], all_outcomes: Sequence[QuestionOutcome]
) -> AnswerChange | None:
    net_change = paired_difference(RIGHT_ANSWERS, outcomes, all_outcomes)
    if net_change is None:
        return None
    harmed_lines = []
    helped_lines = []
    for outcome, all_outcome in zip(outcomes, all_outcomes, strict=True):
        verdicts = (all_outcome.is_correct, outcome.is_correct)
        if verdicts == (True, False):
            harmed_lines.append(outcome.line_number)
        elif verdicts == (False, True):
            helped_lines.append(outcome.line_number)
    return AnswerChange(tuple(harmed_lines), tuple(helped_lines), net_change)


def _known_values(pair_values: Iterable[float | None]) -> list[float]:
    known_values = []
    for value in pair_values:
        if value is not None:
            known_values.append(float(value))
    return known_values


def _mean_known(pair_values: Iterable[float | None]) -> float | None:
    known_values = _known_values(pair_values)
    if not known_values:
        return None
    mean_value = np.mean(known_values)
    return float(mean_value)
