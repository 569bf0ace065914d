"""An evaluation as one HTML page: figures, curves, and the questions that were harmed."""

from __future__ import annotations

import json
from typing import Any

from denoise_core.evaluate.comparison.evaluation import (
    Evaluation,
    summary_lines,
    table_rows,
)
from denoise_core.evaluate.comparison.figures import (
    GOLD_KEPT,
    RIGHT_ANSWERS,
    QuestionOutcome,
    StrategyFigures,
)
from denoise_core.evaluate.comparison.setting import EVERYTHING
from denoise_core.report.context import ReportItem, item_values, render_template

MAX_HARMED = 20  # questions shown passage by passage
MAX_LINES = 5  # in one chart: more cannot be distinguished


def render_evaluation(evaluation: Evaluation) -> str:
    """Render a page. Needs the extra ``cli``."""
    title = "Does it help on these questions?"
    return render_template("evaluation.html", title=title, **_values(evaluation))


def fragment(evaluation: Evaluation) -> str:
    """Render a part for a notebook, with its own styles."""
    return render_template("evaluation.html", **_values(evaluation))


def _values(evaluation: Evaluation) -> dict[str, Any]:
    figures = _inspected_strategy(evaluation)
    change = figures.accuracy_change
    harmed_lines = () if change is None else change.harmed[:MAX_HARMED]
    outcomes = _outcomes_by_line(evaluation, figures.name)
    all_outcomes = _outcomes_by_line(evaluation, EVERYTHING)
    items = [_harmed_item(outcomes[n], all_outcomes[n]) for n in harmed_lines]
    harmed_count = 0 if change is None else len(change.harmed)
    setting = dict(evaluation.recommendation.setting)
    return {
        "evaluation": evaluation,
        "table": table_rows(evaluation),
        "summary_lines": summary_lines(evaluation),
        "charts": _charts(evaluation),
        "judged": change is not None,
        "harmed_by": figures.name,
        "harmed": item_values(items),
        "harmed_unshown": harmed_count - len(items),
        "setting": json.dumps(setting, indent=1, ensure_ascii=False),
    }


def _inspected_strategy(evaluation: Evaluation) -> StrategyFigures:
    """The recommended strategy, or the best other one when that is everything.

    Then its harmed questions show why it is not recommended.
    """
    recommended = evaluation.figures_for(evaluation.recommendation.name)
    others = [row for row in evaluation.figures if row.name != EVERYTHING]
    if recommended.name != EVERYTHING or not others:
        return recommended
    return max(others, key=lambda row: row.accuracy.value if row.accuracy else -1.0)


def _outcomes_by_line(evaluation: Evaluation, name: str) -> dict[int, QuestionOutcome]:
    outcomes = evaluation.outcomes.get(name, ())
    return {outcome.case.line_number: outcome for outcome in outcomes}


def _harmed_item(outcome: QuestionOutcome, all_outcome: QuestionOutcome) -> ReportItem:
    question, result = outcome.case.question, outcome.result
    assert result is not None  # it was answered
    notes = [
        f"line {outcome.case.line_number}",
        f"answer: {' / '.join(question.answers)}",
    ]
    if all_outcome.reply is not None:
        notes.append(f"from everything: {all_outcome.reply.text or '(nothing)'}")
    if outcome.reply is not None:
        notes.append(f"from what was kept: {outcome.reply.text or '(nothing)'}")
    return ReportItem(question.passages, result, question.gold, tuple(notes))


def _charts(evaluation: Evaluation) -> list[dict[str, Any]]:
    """Values of the macro ``chart``: by strategy points (x, y), or (x, y, low, high)."""
    curves = {
        row.name: row.recall_curve
        for row in evaluation.figures
        if row.recall_curve and row.name != EVERYTHING
    }
    curve_chart = {
        "title": f"{GOLD_KEPT} by share of the tokens, each strategy's own ranking",
        "x": "share of the tokens",
        "y": GOLD_KEPT,
        "lines": dict(list(curves.items())[:MAX_LINES]),
        "most": 1,
    }
    token_points, cost_points = {}, {}
    for row in evaluation.figures:
        if row.accuracy is None:
            continue
        accuracy = row.accuracy.value, row.accuracy.low, row.accuracy.high
        token_points[row.name] = [(row.kept_tokens, *accuracy)]
        if row.cost is not None:
            cost_points[row.name] = [(1000 * row.cost, *accuracy)]
    charts = [
        curve_chart,
        _accuracy_chart("tokens a question", "tokens a question", token_points),
        _accuracy_chart("money", "money for 1,000 questions", cost_points),
    ]
    return [chart for chart in charts if chart["lines"]]


def _accuracy_chart(
    topic: str, label: str, lines: dict[str, list[tuple[float, float, float, float]]]
) -> dict[str, Any]:
    points = [line[0] for line in lines.values()]
    largest_x = max((x for x, _, _, _ in points), default=0.0)
    lowest = min((low for _, _, low, _ in points), default=0.0)
    return {
        "title": f"{RIGHT_ANSWERS} by {topic}",
        "x": label,
        "y": RIGHT_ANSWERS,
        "lines": lines,
        "most": largest_x or 1.0,
        # The axis begins at the tenth below the lowest interval.
        "floor": max(0.0, int(10 * lowest - 0.5) / 10),
    }
