"""An evaluation as one HTML page: figures, curves, and the questions that were harmed, passage by passage."""

from __future__ import annotations

import json
from typing import Any

from denoise_core.evaluate.comparison.evaluation import (
    Evaluation,
    summary_lines,
    table_rows,
)
from denoise_core.evaluate.comparison.figures import GOLD, RIGHT, QuestionOutcome
from denoise_core.evaluate.comparison.setting import EVERYTHING
from denoise_core.report.context import ReportItem, render_template, values_of

HARMED = 20  # questions shown passage by passage, at most
LINES = 5  # lines in one chart, at most: more cannot be told apart


def render_evaluation(found: Evaluation) -> str:
    """A complete page without scripts or outside parts. All texts are escaped. Needs the extra ``cli``."""
    return render_template(
        "evaluation.html", title="Does it help on these questions?", **_values(found)
    )


def fragment(found: Evaluation) -> str:
    """The same for a notebook, with its own styles."""
    return render_template("evaluation.html", **_values(found))


def _values(found: Evaluation) -> dict[str, Any]:
    name = found.recommendation.name
    if (
        name == EVERYTHING
    ):  # then what speaks against the best other way is worth seeing
        others = [f for f in found.figures if f.name != EVERYTHING]
        name = (
            max(
                others, key=lambda f: -1.0 if f.accuracy is None else f.accuracy.value
            ).name
            if others
            else name
        )
    change = found.figures_for(name).accuracy_change
    lines = () if change is None else change.harmed
    rows = {o.case.line_number: o for o in found.outcomes.get(name, ())}
    whole = {o.case.line_number: o for o in found.outcomes.get(EVERYTHING, ())}
    shown = [place for place in lines if place in rows][:HARMED]
    return {
        "found": found,
        "table": table_rows(found),
        "told": summary_lines(found),
        "charts": _charts(found),
        "judged": change is not None,
        "harmed_by": name,
        "harmed": values_of([_shown(rows[p], whole[p]) for p in shown]),
        "harmed_unshown": len(lines) - len(shown),
        "setting": json.dumps(
            dict(found.recommendation.setting), indent=1, ensure_ascii=False
        ),
    }


def _shown(own: QuestionOutcome, whole: QuestionOutcome) -> ReportItem:
    question, result = own.case.question, own.result
    assert result is not None  # it was answered
    replies = [
        f"{how}: {outcome.reply.text or '(nothing)'}"
        for how, outcome in (("from everything", whole), ("from what was kept", own))
        if outcome.reply is not None
    ]
    facts = (
        f"line {own.case.line_number}",
        f"answer: {' / '.join(question.answers)}",
        *replies,
    )
    return ReportItem(question.passages, result, question.gold, facts)


def _charts(found: Evaluation) -> list[dict[str, Any]]:
    """What the macro ``chart`` draws: ``lines`` by name, of places (x, y) or one place (x, y, low, high)."""
    curves = {
        f.name: f.curve for f in found.figures if f.curve and f.name != EVERYTHING
    }
    title = f"{GOLD} by share of the tokens, each way's own ranking"
    out: list[dict[str, Any]] = [
        {
            "title": title,
            "x": "share of the tokens",
            "y": GOLD,
            "lines": dict([*curves.items()][:LINES]),
            "most": 1,
        }
    ]
    right = [(f, f.accuracy) for f in found.figures if f.accuracy is not None]
    tokens = {f.name: [(f.tokens, r.value, r.low, r.high)] for f, r in right}
    money = {
        f.name: [(1000 * f.cost, r.value, r.low, r.high)]
        for f, r in right
        if f.cost is not None
    }
    for over, x, points in (
        ("tokens a question", "tokens a question", tokens),
        ("money", "money for 1,000 questions", money),
    ):
        places = [place for line in points.values() for place in line]
        most = max((x for x, *_ in places), default=0.0) or 1.0
        floor = max(
            0.0, int(10 * min((low for *_, low, _ in places), default=0.0) - 0.5) / 10
        )
        about = {
            "title": f"{RIGHT} by {over}",
            "x": x,
            "y": RIGHT,
            "most": most,
            "floor": floor,
        }
        out.append({**about, "lines": points})
    return [chart for chart in out if chart["lines"]]
