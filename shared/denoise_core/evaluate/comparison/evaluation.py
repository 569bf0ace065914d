"""`evaluate`: run several strategies on the same questions and recommend one.

Everything undenoised is always among the strategies, and the default runs first, because
the strategies that rank get as many tokens as it keeps. An `Evaluation` has each strategy's
figures, whether the best two differ, and the setting to take.
"""

from __future__ import annotations

import itertools
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from denoise_core._files import write_whole
from denoise_core._optional import render_html, require
from denoise_core.embedded.default import shared_encoder
from denoise_core.errors import InputError, format_error, is_user_error
from denoise_core.evaluate.comparison.answering import (
    Answerer,
    AnswerGrader,
    MatchRule,
    make_grader,
)
from denoise_core.evaluate.comparison.figures import (
    NEEDED_KEPT,
    RIGHT_ANSWERS,
    MeanInterval,
    QuestionOutcome,
    SignificanceTest,
    StrategyFigures,
    TokenCounter,
    compare_best,
    count_case_tokens,
    measure_outcome,
    needed_measure,
    strategy_figures,
)
from denoise_core.evaluate.comparison.setting import (
    EVERYTHING,
    Strategy,
    StrategySource,
    empty_embedding_cache,
    save_setting,
    select_strategies,
)
from denoise_core.evaluate.datasets import (
    EvaluationCase,
    EvaluationCases,
    RecordProblem,
    parse_cases,
)
from denoise_core.jsonable import to_jsonable
from denoise_core.protocols import LLM, Retriever
from denoise_core.question import Question
from denoise_core.runtime.guard import validate_result

FORMAT = "rag-denoise evaluation"
VERSION = 3
# A strategy that keeps more than this times the budget does not compete on gold kept.
TOKEN_TOLERANCE = 1.15
MIN_NEEDED_KEPT = 0.95  # of what is needed; below it everything is recommended
# Kinds of settings by the work of choosing what is kept, least first.
KINDS_BY_WORK = (
    "first",
    "bm25",
    "cosine",
    "default",
    "fitted",
    "cross-encoder",
    "s2a",
)
TIMED_QUESTIONS = 3  # timed with an empty cache; more would only cost time
SHOWN_PROBLEMS = 5  # reasons, and lines of each

Progress = Callable[[int, int], None]


@dataclass(frozen=True, slots=True)
class Recommendation:
    """The strategy to take: its name, its setting as plain JSON, and the reason."""

    name: str
    setting: Mapping[str, Any]
    reason: str


@dataclass(frozen=True, slots=True)
class Evaluation:
    """What several strategies did with the same questions.

    Attributes:
        questions: How many questions there are.
        gold_from: Questions by the source of their gold (`EvaluationCase.gold_from`, or
            "nothing").
        answered_by: Who answered; None when only the kept text was measured.
        budget: Tokens per question for the strategies of equal length.
        figures: The figures of each strategy.
        comparisons: Whether the best two differ, per measure.
        recommendation: The strategy to take.
        rejected_records: Records that were left out.
        warnings: What is odd about records that count.
        notes: How questions or labels were made that are not the user's own.
        outcomes: Every strategy's outcomes, in the order of the questions.
    """

    questions: int
    gold_from: Mapping[str, int]
    answered_by: str | None
    budget: int | None
    figures: tuple[StrategyFigures, ...] = field(metadata={"json": "strategies"})
    comparisons: tuple[SignificanceTest, ...]
    recommendation: Recommendation
    rejected_records: tuple[RecordProblem, ...] = ()
    warnings: tuple[RecordProblem, ...] = ()
    notes: tuple[str, ...] = ()
    outcomes: Mapping[str, Sequence[QuestionOutcome]] = field(
        default_factory=dict, repr=False, compare=False
    )

    def figures_for(self, name: str) -> StrategyFigures:
        """Return the figures of a strategy.

        Raises:
            KeyError: No strategy has this name.
        """
        return {figures.name: figures for figures in self.figures}[name]

    @property
    def answer_failure(self) -> str | None:
        """Why no question was answered; None when one was, or nobody was to answer."""
        if self.answered_by is None:
            return None
        error = None
        for outcomes in self.outcomes.values():
            for outcome in outcomes:
                if outcome.reply is not None:
                    return None
                error = error or outcome.error
        return error

    def to_dict(self) -> dict[str, Any]:
        """Convert to plain JSON values. Questions are named by their line, without text."""
        question_records = {}
        for name, outcomes in self.outcomes.items():
            question_records[name] = [_outcome_record(outcome) for outcome in outcomes]
        return {
            "format": FORMAT,
            "version": VERSION,
            **to_jsonable(self),
            "by_question": question_records,
        }

    def save_setting(self, path: str | Path) -> Path:
        """Write the recommended setting and why, for `denoise_core.load_denoiser`."""
        evidence_record = {
            "reason": self.recommendation.reason,
            "questions": self.questions,
            "gold_from": dict(self.gold_from),
            "notes": list(self.notes),
            "answered_by": self.answered_by,
        }
        return save_setting(path, self.recommendation.setting, evidence_record)

    def save_page(self, path: str | Path) -> Path:
        """Write the HTML page. Needs the extra ``cli``."""
        report_module = require("denoise_core.report.evaluation", extra="cli")
        write_whole(Path(path), report_module.render_evaluation(self))
        return Path(path)

    def __repr__(self) -> str:
        """The recommendation and its figures."""
        return (
            f"Evaluation({self.questions} questions, {len(self.figures)} strategies; "
            f"recommended: {self.recommendation.name}, {self.recommendation.reason})"
        )

    def _repr_html_(self) -> str | None:
        return render_html("evaluation", self)


def _outcome_record(outcome: QuestionOutcome) -> dict[str, Any]:
    reply_text = None
    if outcome.reply is not None:
        reply_text = outcome.reply.text
    return {
        "line_number": outcome.case.line_number,
        "kept_ids": sorted(outcome.kept_ids),
        "kept_tokens": outcome.kept_tokens,
        "needed_kept": outcome.needed_kept,
        "reply": reply_text,
        "is_correct": outcome.is_correct,
        "error": outcome.error,
    }


def _rank_strategies(
    measure: str,
    strategies: Sequence[Strategy],
    figures: Sequence[StrategyFigures],
    token_budget: int | None,
) -> list[str]:
    """Strategies that leave something out, best first; of equal ones the cheapest."""
    sort_keys = []
    for strategy, figures_row in zip(strategies, figures, strict=True):
        mean_value = _measured_mean(measure, figures_row)
        if mean_value is None or strategy.name == EVERYTHING:
            continue
        budget_share = figures_row.kept_tokens / max(1, token_budget or 1)
        is_too_long = token_budget is not None and budget_share > TOKEN_TOLERANCE
        if is_too_long and measure == NEEDED_KEPT:
            continue
        cost_key = _cost_key(strategy.setting, figures_row)
        sort_keys.append((-mean_value.value, *cost_key, strategy.name))
    return [name for *_, name in sorted(sort_keys)]


def _measured_mean(measure: str, figures_row: StrategyFigures) -> MeanInterval | None:
    if measure == NEEDED_KEPT:
        return figures_row.needed_kept
    return figures_row.accuracy


def _cost_key(
    setting: Mapping[str, Any] | None, figures_row: StrategyFigures
) -> tuple[float, int]:
    """Order strategies by cost: the share of the text kept, then the work to choose it."""
    kind = (setting or {}).get("kind", "")
    work_rank = len(KINDS_BY_WORK)
    if kind in KINDS_BY_WORK:
        work_rank = KINDS_BY_WORK.index(kind)
    return round(figures_row.kept_fraction, 1), work_rank


def _recommend(
    strategies: Sequence[Strategy],
    figures: Sequence[StrategyFigures],
    rankings: Mapping[str, Sequence[str]],
    outcomes: Mapping[str, Sequence[QuestionOutcome]],
) -> Recommendation:
    """Recommend the cheapest strategy that is as good as the best.

    By what is needed where that is known, else by right answers. Everything is
    recommended where no strategy keeps `MIN_NEEDED_KEPT`, or the chosen one costs right
    answers.
    """
    settings = {}
    for strategy in strategies:
        if strategy.setting is not None and strategy.answerer is None:
            settings[strategy.name] = strategy.setting
    measure = RIGHT_ANSWERS
    if rankings[NEEDED_KEPT]:
        measure = NEEDED_KEPT
    ranked_names = [name for name in rankings[measure] if name in settings]
    if not ranked_names:
        return _recommend_everything(_unmeasured_reason(figures))
    figures_by_name = {figures_row.name: figures_row for figures_row in figures}
    tied_names = _tied_names(measure, ranked_names, outcomes)
    if measure == NEEDED_KEPT:
        best_name = ranked_names[0]
        best_share = _needed_share(figures_by_name[best_name])
        tied_names = [
            name
            for name in tied_names
            if _needed_share(figures_by_name[name]) >= MIN_NEEDED_KEPT
        ]
        if not tied_names:
            return _recommend_everything(
                f"no strategy keeps {MIN_NEEDED_KEPT:.0%} of what is needed; the best, "
                f"{best_name}, keeps {best_share:.1%}"
            )
    name = min(
        tied_names, key=lambda name: _cost_key(settings[name], figures_by_name[name])
    )
    chosen_row = figures_by_name[name]
    reason_text = _chosen_reason(chosen_row, tied_names, measure)
    if chosen_row.accuracy_change is not None:
        net_change = chosen_row.accuracy_change.net
        net_text = (
            f"{net_change.points} against everything on {net_change.count} questions"
        )
        if net_change.high < 0:
            return _recommend_everything(
                f"the best strategy, {name}, costs right answers: {net_text}"
            )
        reason_text += f"; right answers {net_text}"
    return Recommendation(name, settings[name], reason_text)


def _tied_names(
    measure: str,
    ranked_names: Sequence[str],
    outcomes: Mapping[str, Sequence[QuestionOutcome]],
) -> list[str]:
    """The best strategy, and those without a difference from it."""
    tied_names = []
    for name in ranked_names:
        comparison = compare_best(measure, (ranked_names[0], name), outcomes)
        if comparison is not None and not comparison.is_significant:
            tied_names.append(name)
    return tied_names


def _recommend_everything(reason_text: str) -> Recommendation:
    return Recommendation(EVERYTHING, {"kind": EVERYTHING}, reason_text)


def _unmeasured_reason(figures: Sequence[StrategyFigures]) -> str:
    for figures_row in figures:
        if figures_row.failures:
            _, error = figures_row.failures[0]
            return f"nothing was measured: {figures_row.name} failed: {error}"
    return (
        "nothing was measured, because the questions have no gold passages, no answers "
        "and no needed texts"
    )


def _needed_share(figures_row: StrategyFigures) -> float:
    if figures_row.needed_kept is None:
        return 0.0
    return figures_row.needed_kept.value


def _chosen_reason(
    chosen_row: StrategyFigures, tied_names: Sequence[str], measure: str
) -> str:
    """Say how good the chosen strategy is, and which ones are as good."""
    mean_value = _measured_mean(measure, chosen_row)
    assert mean_value is not None  # it was ranked by it
    reason_text = (
        f"{measure}: {mean_value.value:.1%} with {chosen_row.kept_fraction:.0%} of the "
        "tokens of everything"
    )
    other_names = ", ".join(other for other in tied_names if other != chosen_row.name)
    if other_names:
        reason_text += f"; cheaper than {other_names}, without a difference found"
    return reason_text


def table_rows(evaluation: Evaluation, *, short: bool = False) -> list[list[str]]:
    """Format the figures as a header and one row per strategy, without empty columns.

    Args:
        evaluation: The evaluation.
        short: Only the columns that fit a terminal of 80 columns.
    """
    rows = []
    for figures in evaluation.figures:
        table_row = _short_row(figures)
        if figures.name == evaluation.recommendation.name:
            table_row["strategy"] += " *"
        if not short:
            table_row |= {
                "read": _format_value(",.0f", figures.input_tokens),
                "written": _format_value(",.0f", figures.output_tokens),
            }
        rows.append(table_row)
    column_names = [
        name for name in rows[0] if any(table_row[name] for table_row in rows)
    ]
    return [
        column_names,
        *([table_row[name] for name in column_names] for table_row in rows),
    ]


def _short_row(figures: StrategyFigures) -> dict[str, str]:
    kept_tokens = f"{figures.kept_tokens:,.0f} ({figures.kept_fraction:.0%})"
    table_row = {"strategy": figures.name, "tokens": kept_tokens, "needed kept": ""}
    needed_kept = figures.needed_kept
    answer_change = figures.accuracy_change
    if needed_kept is not None:
        interval_ends = _format_ends(needed_kept, ".0f", "-")
        table_row["needed kept"] = f"{needed_kept.value:.0%} ({interval_ends})"
    accuracy = None
    if figures.accuracy is not None:
        accuracy = figures.accuracy.value
    table_row |= {
        "right": _format_value(".0%", accuracy),
        "hurt/help": "",
        "net (95 %)": "",
    }
    if answer_change is not None:
        interval_ends = _format_ends(answer_change.net, "+.0f", " to ")
        table_row["hurt/help"] = (
            f"{len(answer_change.harmed)}/{len(answer_change.helped)}"
        )
        table_row["net (95 %)"] = (
            f"{100 * answer_change.net.value:+.0f} ({interval_ends})"
        )
    table_row["s"] = _format_value(".2f", figures.seconds)
    return table_row


def _format_ends(mean_value: MeanInterval, template: str, separator: str) -> str:
    interval_ends = (
        format(100 * mean_value.low, template),
        format(100 * mean_value.high, template),
    )
    return separator.join(interval_ends)


def _format_value(template: str, needed_percent: float | None) -> str:
    if needed_percent is None:
        return ""
    return format(needed_percent, template)


_GOLD_SOURCES = {
    "labels": "by labels",
    "answers": "by the answers they contain",
    "model": "by a model's labels",
    "made": "by the passages that questions were made from",
    "nothing": "unknown",
}


def summary_lines(evaluation: Evaluation) -> list[str]:
    """Say what the table does not, in a sentence or two each."""
    gold_sources = [
        f"{count} {_GOLD_SOURCES[name]}"
        for name, count in sorted(evaluation.gold_from.items())
    ]
    answered_by = evaluation.answered_by
    if answered_by is None or evaluation.answer_failure is not None:
        answered_by = "nobody"
    sentences = [
        f"{evaluation.questions} questions; gold passages: {', '.join(gold_sources)}; "
        f"answered by: {answered_by}."
    ]
    sentences.append(_needed_line(evaluation))
    for note in evaluation.notes:
        sentences.append(f"{_capitalize(note)}: rougher than a person's labels.")
    if evaluation.budget is not None:
        sentences.append(
            f"Strategies that rank passages got {evaluation.budget:,} tokens of text a "
            "question, as many as the default kept; titles are not counted for them."
        )
    sentences += [
        f"{_capitalize(str(best_comparison))}."
        for best_comparison in evaluation.comparisons
    ]
    recommendation = evaluation.recommendation
    sentences.append(
        f"Recommended (*): {recommendation.name}: {recommendation.reason}."
    )
    sentences += problem_lines("left out: ", evaluation.rejected_records)
    sentences += problem_lines("", evaluation.warnings)
    sentences += _failure_lines(evaluation)
    return sentences


def _failure_lines(evaluation: Evaluation) -> list[str]:
    """One sentence for each failure, with the strategies that have it."""
    if evaluation.answer_failure is not None:
        return [
            f"No question was answered: {evaluation.answer_failure}. What is kept was "
            "measured all the same."
        ]
    names_by_failure: dict[str, list[str]] = defaultdict(list)
    for figures in evaluation.figures:
        if figures.failures:
            line_number, error = figures.failures[0]
            failure_text = (
                f"failed on {len(figures.failures)} questions, first line "
                f"{line_number}: {error.rstrip('.')}."
            )
            names_by_failure[failure_text].append(figures.name)
    sentences = []
    for failure_text, names in names_by_failure.items():
        sentences.append(f"{', '.join(names)} {failure_text}")
    return sentences


def _needed_line(evaluation: Evaluation) -> str:
    """Say by what "needed kept" was measured, and on how many questions."""
    counts = Counter[str]()
    for outcome in evaluation.outcomes.get(EVERYTHING, ()):
        counts[needed_measure(outcome.case)] += 1
    parts = [f"{count} {source}" for source, count in counts.items()]
    return f"Needed kept: {', '.join(parts)}."


def problem_lines(prefix: str, problems: Sequence[RecordProblem]) -> list[str]:
    """One sentence for each reason, with the first lines that have it."""
    lines_by_reason: dict[str, list[int]] = defaultdict(list)
    for problem in problems:
        lines_by_reason[problem.reason].append(problem.line_number)
    sentences = []
    for reason_text, line_numbers in list(lines_by_reason.items())[:SHOWN_PROBLEMS]:
        shown_lines = ", ".join(map(str, line_numbers[:SHOWN_PROBLEMS]))
        count = len(line_numbers)
        sentences.append(
            f"{_capitalize(prefix + reason_text)} (lines {shown_lines}; {count} in all)."
        )
    hidden_count = len(lines_by_reason) - len(sentences)
    if hidden_count > 0:
        sentences.append(f"{hidden_count} more problems are in results.json.")
    return sentences


def _capitalize(sentence: str) -> str:
    first_letter = sentence[:1]
    return first_letter.upper() + sentence[1:]


def evaluate(
    questions: EvaluationCases | Iterable[Question | Mapping[str, Any]],
    strategies: Mapping[str, StrategySource] | Sequence[Strategy] | None = None,
    *,
    retriever: Retriever | None = None,
    answerer: Answerer | None = None,
    llm: LLM | None = None,
    grader: MatchRule | AnswerGrader = "contains",
    progress: Progress | None = None,
) -> Evaluation:
    """Run every strategy on every question.

    What fails on a question is counted and named, and the rest goes on. A user's mistake (a
    wrong setting, a missing extra) raises.

    Args:
        questions: Questions, the cases of `read_cases`, or records with the fields of
            its files: ``question``, and any of ``answers``, ``needs``, ``passages``.
        strategies: By name, strategies, denoisers or settings that are added to
            `setting.STANDARD_STRATEGIES` or replace one of them. A sequence is taken alone.
            Everything undenoised is always added, to compare with.
        retriever: Finds the passages of records without any, so that your own chunks
            and ranking are measured: `langchain_denoise.RetrieverAdapter(retriever)`,
            `llamaindex_denoise.models.retriever.LlamaRetriever`.
        answerer: Answers from what each strategy keeps, such as `LLMAnswerer`. Without it
            only the kept text is measured.
        llm: For strategies that need a model. A `ReplyLog` keeps budget and replies.
        grader: Decides whether an answer is right.
        progress: Called with the steps done and their number: one per question, and one
            more when the default is among the strategies.

    Raises:
        InputError: There is no question.
    """
    cases = _as_cases(questions, retriever)
    strategy_by_name = {
        strategy.name: strategy for strategy in select_strategies(strategies)
    }
    grade_answer = make_grader(grader)
    default_strategy = next(
        (s for s in strategy_by_name.values() if s.has("kind", "default")), None
    )
    count_tokens = shared_encoder().count_tokens
    report_step = _count_steps(
        progress, len(cases.cases) * (1 if default_strategy is None else 2)
    )
    # The others get as many tokens as the default keeps, so it goes first.
    default_outcomes: list[QuestionOutcome] = []
    if default_strategy is not None:
        default_strategy = strategy_by_name[default_strategy.name] = (
            default_strategy.with_denoiser(None)
        )
        for n, case in enumerate(cases.cases):
            default_outcomes.append(_denoise(default_strategy, case, n, count_tokens))
            report_step()
    mean_tokens, question_budget = _token_budgets(default_outcomes, cases, count_tokens)
    ready_strategies = [
        s.with_denoiser(question_budget, llm) for s in strategy_by_name.values()
    ]
    outcomes: dict[str, list[QuestionOutcome]] = {name: [] for name in strategy_by_name}
    for n, case in enumerate(cases.cases):
        for strategy in ready_strategies:
            if strategy is default_strategy:
                outcome = default_outcomes[n]
            else:
                outcome = _denoise(strategy, case, n, count_tokens)
            outcome = _answer(outcome, strategy.answerer or answerer, grade_answer)
            outcomes[strategy.name].append(outcome)
        report_step()
    figures = tuple(
        strategy_figures(s.name, outcomes[s.name], outcomes[EVERYTHING])
        for s in ready_strategies
    )
    rankings = {
        measure: _rank_strategies(measure, ready_strategies, figures, mean_tokens)
        for measure in (NEEDED_KEPT, RIGHT_ANSWERS)
    }
    comparisons = [
        compare_best(m, ranked_names, outcomes) for m, ranked_names in rankings.items()
    ]
    return Evaluation(
        len(cases.cases),
        dict(Counter(case.gold_from or "nothing" for case in cases.cases)),
        None if answerer is None else answerer.name,
        mean_tokens,
        figures,
        tuple(filter(None, comparisons)),
        _recommend(ready_strategies, figures, rankings, outcomes),
        cases.rejected_records,
        cases.warnings,
        cases.notes,
        outcomes,
    )


def _as_cases(
    questions: EvaluationCases | Iterable[Question | Mapping[str, Any]],
    retriever: Retriever | None,
) -> EvaluationCases:
    """Number plain questions and records. Raises `InputError` where there is none."""
    if not isinstance(questions, EvaluationCases):
        search_passages = None if retriever is None else retriever.retrieve
        return parse_cases(enumerate(questions, 1), search_passages=search_passages)
    if not questions.cases:
        raise InputError("there is no question to evaluate on")
    return questions


def _token_budgets(
    default_outcomes: Sequence[QuestionOutcome],
    cases: EvaluationCases,
    count_tokens: TokenCounter,
) -> tuple[int | None, float | None]:
    """The tokens that the default keeps on average, and the budget that keeps as many.

    The budget is higher than the average, because some questions have fewer tokens than it.
    """
    kept_tokens = [o.kept_tokens for o in default_outcomes if o.kept_tokens is not None]
    if not kept_tokens:
        return None, None
    mean_tokens = float(np.mean(kept_tokens))
    totals = [count_case_tokens(case, count_tokens) for case in cases.cases]
    low_percent = 0.0
    high_percent = float(max(totals))
    for _ in range(60):  # bisection, to the precision of a float
        middle = (low_percent + high_percent) / 2
        if np.minimum(totals, middle).mean() < mean_tokens:
            low_percent = middle
        else:
            high_percent = middle
    return max(1, round(mean_tokens)), high_percent


def _count_steps(progress: Progress | None, step_count: int) -> Callable[[], None]:
    """Return what to call after each step."""
    steps = itertools.count(1)

    def report_step() -> None:
        if progress is not None:
            progress(next(steps), step_count)

    return report_step


def _denoise(
    strategy: Strategy,
    case: EvaluationCase,
    case_index: int,
    count_tokens: TokenCounter,
) -> QuestionOutcome:
    """Denoise one question; the first ones are timed with an empty cache."""
    question = case.question
    is_timed = case_index < TIMED_QUESTIONS
    assert strategy.denoiser is not None
    try:
        with empty_embedding_cache() if is_timed else nullcontext():
            start_time = time.perf_counter()
            result = strategy.denoiser.denoise(question.text, question.passages)
            seconds = time.perf_counter() - start_time
        result = validate_result(question.passages, result)
    except Exception as error:  # the user's model or denoiser may raise anything
        if is_user_error(error):
            raise
        return QuestionOutcome(case, error=format_error(error))
    failure_count = len(result.failures)
    if 0 < failure_count == len(question.passages):  # it denoised nothing
        return QuestionOutcome(case, error=result.fallback)
    outcome = measure_outcome(case, result, count_tokens)
    return replace(outcome, seconds=seconds if is_timed else None)


def _answer(
    outcome: QuestionOutcome, answerer: Answerer | None, grade_answer: AnswerGrader
) -> QuestionOutcome:
    question = outcome.case.question
    if answerer is None or outcome.result is None:
        return outcome
    try:
        reply = answerer.answer(question.text, outcome.result.passages)
        is_correct = grade_answer(question, reply.text) if question.answers else None
    except Exception as error:  # the model that answers, or the one that grades
        if is_user_error(error):
            raise
        return replace(outcome, error=format_error(error))
    return replace(outcome, reply=reply, is_correct=is_correct)
