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
    page_title = "Does it help on these questions?"
    return render_template("evaluation.html", title=page_title, **_values(evaluation))


def fragment(evaluation: Evaluation) -> str:
    """Render a part for a notebook, with its own styles."""
    return render_template("evaluation.html", **_values(evaluation))


def _values(evaluation: Evaluation) -> dict[str, Any]:
    strategy_row = _inspected_strategy(evaluation)
    answer_change = strategy_row.accuracy_change
    harmed_lines = () if answer_change is None else answer_change.harmed[:MAX_HARMED]
    line_outcomes = _outcomes_by_line(evaluation, strategy_row.name)
    all_outcomes = _outcomes_by_line(evaluation, EVERYTHING)
    harmed_items = [
        _harmed_item(line_outcomes[n], all_outcomes[n]) for n in harmed_lines
    ]
    harmed_count = 0 if answer_change is None else len(answer_change.harmed)
    setting_record = dict(evaluation.recommendation.setting)
    return {
        "evaluation": evaluation,
        "table": table_rows(evaluation),
        "summary_lines": summary_lines(evaluation),
        "charts": _charts(evaluation),
        "judged": answer_change is not None,
        "harmed_by": strategy_row.name,
        "harmed": item_values(harmed_items),
        "harmed_unshown": harmed_count - len(harmed_items),
        "setting": json.dumps(setting_record, indent=1, ensure_ascii=False),
    }


def _inspected_strategy(evaluation: Evaluation) -> StrategyFigures:
    """The recommended strategy, or the best other one when that is everything.

    Then its harmed questions show why it is not recommended.
    """
    recommended_row = evaluation.figures_for(evaluation.recommendation.name)
    other_rows = [
        figures_row
        for figures_row in evaluation.figures
        if figures_row.name != EVERYTHING
    ]
    if recommended_row.name != EVERYTHING or not other_rows:
        return recommended_row
    return max(
        other_rows,
        key=lambda figures_row: (
            figures_row.accuracy.value if figures_row.accuracy else -1.0
        ),
    )


def _outcomes_by_line(evaluation: Evaluation, name: str) -> dict[int, QuestionOutcome]:
    line_outcomes = evaluation.outcomes.get(name, ())
    return {outcome.case.line_number: outcome for outcome in line_outcomes}


def _harmed_item(outcome: QuestionOutcome, all_outcome: QuestionOutcome) -> ReportItem:
    question = outcome.case.question
    result = outcome.result
    assert result is not None  # it was answered
    item_notes = [
        f"line {outcome.case.line_number}",
        f"answer: {' / '.join(question.answers)}",
    ]
    if all_outcome.reply is not None:
        item_notes.append(f"from everything: {all_outcome.reply.text or '(nothing)'}")
    if outcome.reply is not None:
        item_notes.append(f"from what was kept: {outcome.reply.text or '(nothing)'}")
    return ReportItem(question.passages, result, question.gold, tuple(item_notes))


def _charts(evaluation: Evaluation) -> list[dict[str, Any]]:
    """Values of the macro ``chart``: by strategy points (x, y), or (x, y, low, high)."""
    recall_curves = {
        figures_row.name: figures_row.recall_curve
        for figures_row in evaluation.figures
        if figures_row.recall_curve and figures_row.name != EVERYTHING
    }
    curve_chart = {
        "title": f"{GOLD_KEPT} by share of the tokens, each strategy's own ranking",
        "x": "share of the tokens",
        "y": GOLD_KEPT,
        "lines": dict(list(recall_curves.items())[:MAX_LINES]),
        "most": 1,
    }
    token_points = {}
    cost_points = {}
    for figures_row in evaluation.figures:
        if figures_row.accuracy is None:
            continue
        accuracy_ends = (
            figures_row.accuracy.value,
            figures_row.accuracy.low,
            figures_row.accuracy.high,
        )
        token_points[figures_row.name] = [(figures_row.kept_tokens, *accuracy_ends)]
        if figures_row.cost is not None:
            cost_points[figures_row.name] = [(1000 * figures_row.cost, *accuracy_ends)]
    all_charts = [
        curve_chart,
        _accuracy_chart("tokens a question", "tokens a question", token_points),
        _accuracy_chart("money", "money for 1,000 questions", cost_points),
    ]
    return [chart for chart in all_charts if chart["lines"]]


def _accuracy_chart(
    topic: str,
    label: str,
    chart_lines: dict[str, list[tuple[float, float, float, float]]],
) -> dict[str, Any]:
    chart_points = [line[0] for line in chart_lines.values()]
    largest_x = max((x for x, _, _, _ in chart_points), default=0.0)
    lowest_end = min((low for _, _, low, _ in chart_points), default=0.0)
    return {
        "title": f"{RIGHT_ANSWERS} by {topic}",
        "x": label,
        "y": RIGHT_ANSWERS,
        "lines": chart_lines,
        "most": largest_x or 1.0,
        # The axis begins at the tenth below the lowest interval.
        "floor": max(0.0, int(10 * lowest_end - 0.5) / 10),
    }
