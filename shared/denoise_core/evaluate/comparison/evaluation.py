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

from denoise_core._files import write_whole
from denoise_core._optional import render_html, require
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
    QuestionOutcome,
    SignificanceTest,
    StrategyFigures,
    compare_best,
    count_passage_tokens,
    measure_outcome,
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
VERSION = 4
MIN_NEEDED_KEPT = 0.95  # of what is needed; below it everything is recommended
TIMED_QUESTIONS = 3  # timed with an empty cache; more would only cost time
SHOWN_PROBLEMS = 10
TABLE_COLUMNS = (
    "strategy",
    "tokens",
    "needed kept",
    "right",
    "hurt/help",
    "net (95 %)",
    "read",
    "s",
)

NOTHING_MEASURED = (
    "nothing was measured, because the questions have no gold passages, no answers "
    "and no needed texts"
)

Progress = Callable[[int, int], None]
MeasuredStrategy = tuple[Strategy, StrategyFigures]


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
        answered_by: Who answered; None when only the kept text was measured.
        budget: Tokens per question for the strategies of equal length.
        figures: The figures of each strategy.
        comparisons: Whether the best two differ, per measure.
        recommendation: The strategy to take.
        problems: Records that were left out, and what is odd about others.
        notes: How questions or labels were made that are not the user's own.
        outcomes: Every strategy's outcomes, in the order of the questions.
    """

    questions: int
    answered_by: str | None
    budget: int | None
    figures: tuple[StrategyFigures, ...] = field(metadata={"json": "strategies"})
    comparisons: tuple[SignificanceTest, ...]
    recommendation: Recommendation
    problems: tuple[RecordProblem, ...] = ()
    notes: tuple[str, ...] = ()
    outcomes: Mapping[str, Sequence[QuestionOutcome]] = field(
        default_factory=dict, repr=False, metadata={"json": "by_question"}
    )

    def figures_for(self, name: str) -> StrategyFigures:
        """Return the figures of a strategy.

        Raises:
            KeyError: No strategy has this name.
        """
        figures_by_name = {figures.name: figures for figures in self.figures}
        return figures_by_name[name]

    @property
    def answer_failure(self) -> str | None:
        """Why no question was answered; None when one was, or nobody was to answer."""
        if self.answered_by is None:
            return None
        first_error: str | None = None
        for outcome in itertools.chain(*self.outcomes.values()):
            if outcome.reply is not None:
                return None
            first_error = first_error or outcome.error
        return first_error or None

    def to_dict(self) -> dict[str, Any]:
        """Convert to plain JSON values. Questions are named by their line, without text."""
        evaluation_fields = to_jsonable(self)
        return {"format": FORMAT, "version": VERSION, **evaluation_fields}

    def save_setting(self, path: str | Path) -> Path:
        """Write the recommended setting and why, for `denoise_core.load_denoiser`."""
        evidence_record = {
            "reason": self.recommendation.reason,
            "questions": self.questions,
            "notes": list(self.notes),
            "answered_by": self.answered_by,
        }
        return save_setting(path, self.recommendation.setting, evidence_record)

    def save_page(self, path: str | Path) -> Path:
        """Write the HTML page. Needs the extra ``cli``."""
        report_module = require("denoise_core.report.evaluation", extra="cli")
        page_html = report_module.render_evaluation(self)
        page_path = Path(path)
        write_whole(page_path, page_html)
        return page_path

    def __repr__(self) -> str:
        """The recommendation and its figures."""
        return (
            f"Evaluation({self.questions} questions, {len(self.figures)} strategies; "
            f"recommended: {self.recommendation.name}, {self.recommendation.reason})"
        )

    def _repr_html_(self) -> str | None:
        return render_html("evaluation", self)


def _rank_strategies(
    measure: str, measured: Sequence[MeasuredStrategy]
) -> list[MeasuredStrategy]:
    """Strategies that leave something out, best first; of equal ones the cheapest."""
    candidates = []
    for strategy, figures_row in measured:
        is_measured = figures_row.mean_of(measure) is not None
        if is_measured and strategy.name != EVERYTHING:
            candidates.append((strategy, figures_row))
    candidates.sort(key=_cost_key)

    def ranked_value(pair: MeasuredStrategy) -> float:
        _, figures_row = pair
        return _value(figures_row, measure)

    return sorted(candidates, key=ranked_value, reverse=True)


def _cost_key(pair: MeasuredStrategy) -> tuple[float, int, str]:
    """Order strategies by cost: the share of the text kept, then the work to choose it."""
    strategy, figures_row = pair
    kept_fraction = round(figures_row.kept_fraction, 1)
    return kept_fraction, strategy.work_rank, strategy.name


def _value(figures_row: StrategyFigures, measure: str) -> float:
    mean_value = figures_row.mean_of(measure)
    assert mean_value is not None  # it was ranked by it
    return mean_value.value


def _recommend(
    measure: str,
    candidates: Sequence[MeasuredStrategy],
    outcomes: Mapping[str, Sequence[QuestionOutcome]],
) -> Recommendation:
    """Recommend the cheapest strategy that is as good as the best.

    Everything is recommended where no strategy keeps `MIN_NEEDED_KEPT`, or the chosen one
    costs right answers.

    Args:
        measure: By what they were ranked.
        candidates: Strategies that can be written down, best first; at least one.
        outcomes: The outcomes of each strategy.
    """
    best_strategy, best_row = candidates[0]
    tied = []
    for strategy, figures_row in candidates:
        is_enough = (
            measure != NEEDED_KEPT or _value(figures_row, measure) >= MIN_NEEDED_KEPT
        )
        names = (best_strategy.name, strategy.name)
        comparison = compare_best(measure, names, outcomes)
        is_tied = comparison is not None and not comparison.is_significant
        if is_enough and is_tied:
            tied.append((strategy, figures_row))
    if not tied:
        return _recommend_everything(
            f"no strategy keeps {MIN_NEEDED_KEPT:.0%} of what is needed; the best, "
            f"{best_strategy.name}, keeps {_value(best_row, measure):.1%}"
        )
    chosen, chosen_row = min(tied, key=_cost_key)
    reason_text = (
        f"{measure}: {_value(chosen_row, measure):.1%} with "
        f"{chosen_row.kept_fraction:.0%} of the tokens of everything"
    )
    other_names = [strategy.name for strategy, _ in tied if strategy is not chosen]
    if other_names:
        reason_text += (
            f"; no difference was found from {', '.join(other_names)}: of these it keeps "
            "the least text, give or take a tenth of everything, then does the least work"
        )
    if chosen_row.accuracy_change is not None:
        net_change = chosen_row.accuracy_change.net
        net_text = (
            f"{net_change.points} against everything on {net_change.count} questions"
        )
        if net_change.high < 0:
            return _recommend_everything(
                f"the best strategy, {chosen.name}, costs right answers: {net_text}"
            )
        reason_text += f"; right answers {net_text}"
    return Recommendation(chosen.name, chosen.setting or {}, reason_text)


def _recommend_everything(reason_text: str) -> Recommendation:
    return Recommendation(EVERYTHING, {"kind": EVERYTHING}, reason_text)


def table_rows(evaluation: Evaluation) -> list[list[str]]:
    """Format the figures as a header and one row per strategy, without empty columns."""
    rows = []
    for figures_row in evaluation.figures:
        table_row = _table_row(figures_row)
        if figures_row.name == evaluation.recommendation.name:
            table_row["strategy"] += " *"
        rows.append(table_row)
    column_names = []
    for name in rows[0]:
        if any(table_row[name] for table_row in rows):
            column_names.append(name)
    cells = [column_names]
    for table_row in rows:
        row_cells = [table_row[name] for name in column_names]
        cells.append(row_cells)
    return cells


def _table_row(figures_row: StrategyFigures) -> dict[str, str]:
    table_row: dict[str, str] = dict.fromkeys(TABLE_COLUMNS, "")
    table_row["strategy"] = figures_row.name
    table_row["tokens"] = (
        f"{figures_row.kept_tokens:,.0f} ({figures_row.kept_fraction:.0%})"
    )
    needed_kept = figures_row.needed_kept
    if needed_kept is not None:
        interval_text = f"{100 * needed_kept.low:.0f}-{100 * needed_kept.high:.0f}"
        table_row["needed kept"] = f"{needed_kept.value:.0%} ({interval_text})"
    if figures_row.accuracy is not None:
        table_row["right"] = f"{figures_row.accuracy.value:.0%}"
    change = figures_row.accuracy_change
    if change is not None:
        net = change.net
        table_row["hurt/help"] = f"{len(change.harmed)}/{len(change.helped)}"
        interval_text = f"{100 * net.low:+.0f} to {100 * net.high:+.0f}"
        table_row["net (95 %)"] = f"{100 * net.value:+.0f} ({interval_text})"
    if figures_row.input_tokens is not None:
        table_row["read"] = f"{figures_row.input_tokens:,.0f}"
    if figures_row.seconds is not None:
        table_row["s"] = f"{figures_row.seconds:.2f}"
    return table_row


def summary_lines(evaluation: Evaluation) -> list[str]:
    """Say what the table does not, in a sentence or two each."""
    answered_by = evaluation.answered_by
    if answered_by is None or evaluation.answer_failure is not None:
        answered_by = "nobody"
    measure_counts = Counter(
        outcome.needed_by for outcome in evaluation.outcomes.get(EVERYTHING, ())
    )
    measures = []
    for measure, count in measure_counts.items():
        measures.append(f"{count} {measure}")
    sentences = [
        f"{evaluation.questions} questions; answered by: {answered_by}.",
        f"Needed kept: {', '.join(measures)}.",
    ]
    for note in evaluation.notes:
        sentences.append(f"Note: {note}: rougher than a person's labels.")
    if evaluation.budget is not None:
        sentences.append(
            f"Strategies that rank passages got {evaluation.budget:,} tokens of text a "
            "question, as many as the default kept; titles are not counted for them."
        )
    for comparison in evaluation.comparisons:
        sentences.append(f"The best two: {comparison}.")
    recommendation = evaluation.recommendation
    sentences.append(
        f"Recommended (*): {recommendation.name}: {recommendation.reason}."
    )
    sentences += problem_lines(evaluation.problems)
    if evaluation.answer_failure is not None:
        sentences.append(
            f"No question was answered: {evaluation.answer_failure}. What is kept was "
            "measured all the same."
        )
        return sentences
    for figures_row in evaluation.figures:
        if figures_row.failures:
            line_number, error = figures_row.failures[0]
            failure_count = len(figures_row.failures)
            error_text = error.rstrip(".")
            sentences.append(
                f"{figures_row.name} failed on {failure_count} questions, "
                f"first line {line_number}: {error_text}."
            )
    return sentences


def problem_lines(problems: Sequence[RecordProblem]) -> list[str]:
    """One sentence for each of the first problems, and how many more there are."""
    sentences = []
    for problem in problems[:SHOWN_PROBLEMS]:
        sentences.append(f"Line {problem.line_number}: {problem.reason}.")
    hidden_count = len(problems) - len(sentences)
    if hidden_count:
        sentences.append(f"{hidden_count} more problems are not shown.")
    return sentences


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
        progress: Called with the questions denoised, counted once for each strategy, and
            with how many there are.

    Raises:
        InputError: There is no question.
    """
    cases = _as_cases(questions, retriever)
    selected = select_strategies(strategies)
    grade_answer = make_grader(grader)
    steps = itertools.count(1)

    def denoise(strategy: Strategy, index: int) -> QuestionOutcome:
        is_timed = index < TIMED_QUESTIONS
        case = cases.cases[index]
        outcome = _denoise(strategy, case, is_timed)
        if progress is not None:
            step_count = len(cases.cases) * len(selected)
            step_number = next(steps)
            progress(step_number, step_count)
        return outcome

    # The others get as many tokens as the default keeps, so it goes first.
    default_outcomes: list[QuestionOutcome] = []
    defaults = [strategy for strategy in selected if strategy.has("kind", "default")]
    for strategy in defaults[:1]:
        ready_default = strategy.with_denoiser(None)
        for index in range(len(cases.cases)):
            default_outcome = denoise(ready_default, index)
            default_outcomes.append(default_outcome)
    mean_tokens, question_budget = _token_budgets(default_outcomes, cases.cases)
    ready_strategies = [
        strategy.with_denoiser(question_budget, llm) for strategy in selected
    ]
    outcomes: dict[str, list[QuestionOutcome]] = defaultdict(list)
    # Question by question, so that a budget that ends early leaves pairs to compare.
    for index in range(len(cases.cases)):
        for strategy in ready_strategies:
            if defaults and strategy.name == defaults[0].name:
                outcome = default_outcomes[index]
            else:
                outcome = denoise(strategy, index)
            own_answerer = strategy.answerer or answerer
            outcome = _answer(outcome, own_answerer, grade_answer)
            strategy_outcomes = outcomes[strategy.name]
            strategy_outcomes.append(outcome)
    answered_by = None
    if answerer is not None:
        answered_by = answerer.name
    return _summarize(cases, answered_by, mean_tokens, ready_strategies, outcomes)


def _as_cases(
    questions: EvaluationCases | Iterable[Question | Mapping[str, Any]],
    retriever: Retriever | None,
) -> EvaluationCases:
    """Number plain questions and records. Raises `InputError` where there is none."""
    if not isinstance(questions, EvaluationCases):
        search_passages = None
        if retriever is not None:
            search_passages = retriever.retrieve
        numbered_records = enumerate(questions, 1)
        return parse_cases(numbered_records, search_passages=search_passages)
    if not questions.cases:
        raise InputError("there is no question to evaluate on")
    return questions


def _summarize(
    cases: EvaluationCases,
    answered_by: str | None,
    mean_tokens: int | None,
    strategies: Sequence[Strategy],
    outcomes: Mapping[str, Sequence[QuestionOutcome]],
) -> Evaluation:
    """Compute the figures of the outcomes, compare the best, and recommend one."""
    measured = []
    for strategy in strategies:
        name = strategy.name
        figures_row = strategy_figures(name, outcomes[name], outcomes[EVERYTHING])
        measured.append((strategy, figures_row))
    comparisons = []
    recommendation = None
    for measure in (NEEDED_KEPT, RIGHT_ANSWERS):
        ranked = _rank_strategies(measure, measured)
        names = [strategy.name for strategy, _ in ranked]
        comparison = compare_best(measure, names, outcomes)
        comparisons.append(comparison)
        candidates = [pair for pair in ranked if pair[0].can_be_saved]
        if candidates and recommendation is None:
            recommendation = _recommend(measure, candidates, outcomes)
    figures = tuple(figures_row for _, figures_row in measured)
    if recommendation is None:
        reason_text = NOTHING_MEASURED
        for figures_row in figures:
            for _, error in figures_row.failures[:1]:
                reason_text = (
                    f"nothing was measured: {figures_row.name} failed: {error}"
                )
        recommendation = _recommend_everything(reason_text)
    return Evaluation(
        len(cases.cases),
        answered_by,
        mean_tokens,
        figures,
        tuple(filter(None, comparisons)),
        recommendation,
        cases.problems,
        cases.notes,
        outcomes,
    )


def _token_budgets(
    default_outcomes: Sequence[QuestionOutcome], cases: Sequence[EvaluationCase]
) -> tuple[int | None, float | None]:
    """The tokens that the default keeps on average, and the budget that keeps as many.

    The budget is higher than the average, because some questions have fewer tokens than it:
    what these leave is shared by the others.
    """
    kept_tokens = [o.kept_tokens for o in default_outcomes if o.kept_tokens is not None]
    if not kept_tokens:
        return None, None
    token_sum = sum(kept_tokens)
    mean_tokens = token_sum / len(kept_tokens)
    tokens_left = mean_tokens * len(cases)
    question_budget = mean_tokens
    question_tokens = []
    for case in cases:
        passage_tokens = count_passage_tokens(case.question.passages)
        question_tokens.append(passage_tokens)
    totals = sorted(question_tokens)
    for position, total in enumerate(totals):
        questions_left = len(totals) - position
        question_budget = tokens_left / questions_left
        if total >= question_budget:
            break
        tokens_left -= total
    rounded_mean = max(1, round(mean_tokens))
    return rounded_mean, question_budget


def _denoise(
    strategy: Strategy, case: EvaluationCase, is_timed: bool
) -> QuestionOutcome:
    """Denoise one question; a timed one with an empty cache."""
    question = case.question
    assert strategy.denoiser is not None
    try:
        with empty_embedding_cache() if is_timed else nullcontext():
            start_time = time.perf_counter()
            result = strategy.denoiser.denoise(question.text, question.passages)
            end_time = time.perf_counter()
            seconds = end_time - start_time
        result = validate_result(question.passages, result)
    except Exception as error:  # the user's model or denoiser may raise anything
        if is_user_error(error):
            raise
        error_text = format_error(error)
        return QuestionOutcome(case, case.line_number, error=error_text)
    failure_count = len(result.failures)
    if 0 < failure_count == len(question.passages):  # it denoised nothing
        return QuestionOutcome(case, case.line_number, error=result.fallback)
    known_seconds = None
    if is_timed:
        known_seconds = seconds
    return measure_outcome(case, result, known_seconds)


def _answer(
    outcome: QuestionOutcome, answerer: Answerer | None, grade_answer: AnswerGrader
) -> QuestionOutcome:
    question = outcome.case.question
    if answerer is None or outcome.result is None:
        return outcome
    try:
        reply = answerer.answer(question.text, outcome.result.passages)
        is_correct = None
        if question.answers:
            is_correct = grade_answer(question, reply.text)
    except Exception as error:  # the model that answers, or the one that grades
        if is_user_error(error):
            raise
        error_text = format_error(error)
        return replace(outcome, error=error_text)
    return replace(outcome, reply=reply, is_correct=is_correct)
