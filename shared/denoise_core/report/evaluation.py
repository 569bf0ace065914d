"""An evaluation as one HTML page: figures, a plot, and the questions that were harmed."""

from __future__ import annotations

import json
from operator import attrgetter
from typing import Any

from denoise_core.evaluate.comparison.evaluation import (
    Evaluation,
    summary_lines,
    table_rows,
)
from denoise_core.evaluate.comparison.figures import QuestionOutcome, StrategyFigures
from denoise_core.evaluate.comparison.setting import (
    EVERYTHING,
    SETTING_FILE,
    describe_use,
)
from denoise_core.report.context import (
    ReportItem,
    item_values,
    render_template,
)

MAX_HARMED = 20  # questions shown passage by passage
MIN_PLOT_GAP = 0.012  # between two strategies, of the width of the plot


def render_evaluation(evaluation: Evaluation) -> str:
    """Render a page. Needs the extra ``cli``."""
    page_title = "Does it help on these questions?"
    return render_template("evaluation.html", title=page_title, **_values(evaluation))


def _plot_positions(evaluation: Evaluation) -> dict[str, float]:
    """Where each strategy is drawn, from 0 to 1 by the share of the tokens it keeps.

    Strategies of equal length are drawn next to each other, so that their intervals can
    be seen.
    """
    positions: dict[str, float] = {}
    position = -MIN_PLOT_GAP
    for row in sorted(evaluation.figures, key=attrgetter("kept_fraction")):
        if row.needed_kept is not None:
            position = max(position + MIN_PLOT_GAP, min(row.kept_fraction, 1.0))
            positions[row.name] = position
    return positions


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
        "positions": _plot_positions(evaluation),
        "judged": answer_change is not None,
        "harmed_by": strategy_row.name,
        "harmed": item_values(harmed_items),
        "harmed_unshown": harmed_count - len(harmed_items),
        "usage": describe_use(setting_record, SETTING_FILE),
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
