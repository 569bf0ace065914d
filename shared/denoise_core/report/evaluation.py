"""An evaluation as one HTML page: figures, curves, and the questions that were harmed, passage by passage."""

from __future__ import annotations

import json
from typing import Any

from denoise_core.evaluate.trial.evaluation import Evaluation, rows_of, told
from denoise_core.evaluate.trial.figures import GOLD, RIGHT, Outcome
from denoise_core.evaluate.trial.setting import EVERYTHING
from denoise_core.report.chart import Chart, curves, points
from denoise_core.report.context import Shown, rendered, values_of

HARMED = 20  # questions shown passage by passage, at most
LINES = 5  # lines in one chart, at most: more cannot be told apart


def page(found: Evaluation) -> str:
    """A complete page without scripts or outside parts. All texts are escaped. Needs the extra ``cli``."""
    return rendered("evaluation.html", title="Does it help on these questions?", **_values(found))


def fragment(found: Evaluation) -> str:
    """The same for a notebook, with its own styles."""
    return rendered("evaluation_fragment.html", **_values(found))


def _values(found: Evaluation) -> dict[str, Any]:
    name = found.recommended.name
    if name == EVERYTHING:  # then what speaks against the best other way is worth seeing
        others = [f for f in found.figures if f.name != EVERYTHING]
        name = max(others, key=lambda f: -1.0 if f.right is None else f.right.value).name if others else name
    own = found.named(name)
    lines = () if own.change is None else own.change.harmed
    rows = {o.case.place: o for o in found.outcomes.get(name, ())}
    whole = {o.case.place: o for o in found.outcomes.get(EVERYTHING, ())}
    shown = [place for place in lines if place in rows][:HARMED]
    return {
        "found": found,
        "table": rows_of(found),
        "told": told(found),
        "charts": _charts(found),
        "judged": own.change is not None,
        "harmed_by": name,
        "harmed": values_of([_shown(rows[p], whole[p]) for p in shown]),
        "harmed_unshown": len(lines) - len(shown),
        "setting": json.dumps(dict(found.recommended.setting), indent=1, ensure_ascii=False),
    }


def _shown(own: Outcome, whole: Outcome) -> Shown:
    question, result = own.case.question, own.result
    assert result is not None  # it was answered
    replies = [
        f"{how}: {outcome.reply.text or '(nothing)'}"
        for how, outcome in (("from everything", whole), ("from what was kept", own))
        if outcome.reply is not None
    ]
    facts = (f"line {own.case.place}", f"answer: {' / '.join(question.answers)}", *replies)
    return Shown(question.passages, result, question.gold, facts)


def _charts(found: Evaluation) -> list[Chart]:
    out = []
    lines = [(f.name, f.curve) for f in found.figures if f.curve and f.name != EVERYTHING]
    if lines:
        title = f"{GOLD} by share of the tokens, each way's own ranking".capitalize()
        out.append(curves(title, dict(lines[:LINES]), "share of the tokens", GOLD))
    right = [(f, (f.right.value, f.right.low, f.right.high)) for f in found.figures if f.right is not None]
    if right:
        by_tokens = {f.name: (f.tokens, *ends) for f, ends in right}
        out.append(points(f"{RIGHT} by tokens a question".capitalize(), by_tokens, "tokens a question", RIGHT))
    if paid := {f.name: (1000 * f.money, *ends) for f, ends in right if f.money is not None}:
        out.append(points(f"{RIGHT} by money".capitalize(), paid, "money for 1,000 questions", RIGHT))
    return out
