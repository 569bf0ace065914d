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
    positions = {}
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
    harmed_lines: tuple[int, ...] = ()
    if answer_change is not None:
        harmed_lines = answer_change.harmed
    harmed_items = []
    for outcome, all_outcome in zip(
        evaluation.outcomes[strategy_row.name],
        evaluation.outcomes[EVERYTHING],
        strict=True,
    ):
        if outcome.line_number in harmed_lines[:MAX_HARMED]:
            harmed_items.append(_harmed_item(outcome, all_outcome))
    setting_record = dict(evaluation.recommendation.setting)
    return {
        "evaluation": evaluation,
        "table": table_rows(evaluation),
        "summary_lines": summary_lines(evaluation),
        "positions": _plot_positions(evaluation),
        "judged": answer_change is not None,
        "harmed_by": strategy_row.name,
        "harmed": item_values(harmed_items),
        "harmed_unshown": len(harmed_lines) - len(harmed_items),
        "usage": describe_use(setting_record, SETTING_FILE),
        "setting": json.dumps(setting_record, indent=1, ensure_ascii=False),
    }


def _inspected_strategy(evaluation: Evaluation) -> StrategyFigures:
    """The recommended strategy, or the one after it when that is everything.

    Then its harmed questions show why it is not recommended.
    """
    other_rows = evaluation.figures[1:]
    if evaluation.recommendation.name == EVERYTHING and other_rows:
        return other_rows[0]
    return evaluation.figures_for(evaluation.recommendation.name)


def _harmed_item(outcome: QuestionOutcome, all_outcome: QuestionOutcome) -> ReportItem:
    question = outcome.case.question
    result = outcome.result
    assert result is not None  # it was answered
    item_notes = (
        f"line {outcome.line_number}",
        f"answer: {' / '.join(question.answers)}",
        f"from everything: {_reply_text(all_outcome)}",
        f"from what was kept: {_reply_text(outcome)}",
    )
    return ReportItem(question.passages, result, question.gold, item_notes)


def _reply_text(outcome: QuestionOutcome) -> str:
    assert outcome.reply is not None  # its answer was graded
    return outcome.reply.text or "(nothing)"
