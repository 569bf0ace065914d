"""`evaluate`: every way over the same questions, answered from what each kept; and what it found.

An `Evaluation` holds the figures of each way, what tells the best two apart, and the setting it recommends.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from denoise_core._files import write_whole
from denoise_core._optional import render_html, require
from denoise_core.embedded.default import shared_encoder
from denoise_core.end.calibration import GOLD_TARGETS
from denoise_core.errors import InputError, format_error, is_user_error
from denoise_core.evaluate.comparison.answering import Answerer, Judge, Rule, judge_of
from denoise_core.evaluate.comparison.figures import (
    GOLD,
    RIGHT,
    MeanInterval,
    QuestionOutcome,
    SignificanceTest,
    StrategyFigures,
    apart,
    figures_of,
    outcome_of,
    whole,
)
from denoise_core.evaluate.comparison.setting import (
    EVERYTHING,
    SAME_BUDGET,
    Strategy,
    cold_cache,
    save_setting,
    ways_of,
)
from denoise_core.evaluate.datasets import (
    EvaluationCase,
    EvaluationCases,
    RecordProblem,
    case_from_question,
)
from denoise_core.protocols import LLM, Denoiser
from denoise_core.question import Question
from denoise_core.runtime.budget import Price
from denoise_core.runtime.guard import validate_result

FORMAT, VERSION = "rag-denoise evaluation", 1
MORE = 1.15  # times the default's tokens: a way that keeps more than this does not compete on what it kept


@dataclass(frozen=True, slots=True)
class Recommendation:
    """A way's ``name``, its ``setting`` as plain JSON, and ``why`` in words."""

    name: str
    setting: Mapping[str, Any]
    reason: str


@dataclass(frozen=True, slots=True)
class Evaluation:
    """All ways over the same questions.

    ``gold_from`` counts questions by where their gold passages are known from (`Case.gold_from`, or "nothing");
    ``about`` says how questions and labels came about that are not the user's own.
    ``budget`` is how many tokens a question the ways of equal length were given. ``bad`` lines were left out,
    ``noted`` ones are counted, and say what is odd. ``outcomes`` has every way's questions, in their order.
    """

    questions: int
    gold_from: Mapping[str, int]
    answered_by: str | None
    budget: int | None
    figures: tuple[StrategyFigures, ...]
    comparisons: tuple[SignificanceTest, ...]
    recommendation: Recommendation
    rejected_records: tuple[RecordProblem, ...] = ()
    warnings: tuple[RecordProblem, ...] = ()
    notes: tuple[str, ...] = ()
    outcomes: Mapping[str, Sequence[QuestionOutcome]] = field(
        default_factory=dict, repr=False, compare=False
    )

    def figures_for(self, name: str) -> StrategyFigures:
        """The figures of a way. Raises `KeyError` for a name that is none."""
        found = next((f for f in self.figures if f.name == name), None)
        if found is None:
            raise KeyError(name)
        return found

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON values; questions are named by their line, texts are left out."""
        return {
            "format": FORMAT,
            "version": VERSION,
            "questions": self.questions,
            "gold_from": dict(self.gold_from),
            "about": list(self.notes),
            "answered_by": self.answered_by,
            "budget": self.budget,
            "ways": [asdict(f) for f in self.figures],
            "apart": [
                {**asdict(a), "found": a.found, "said": str(a)}
                for a in self.comparisons
            ],
            "recommended": asdict(self.recommendation),
            "left_out": [asdict(b) for b in self.rejected_records],
            "noted": [asdict(b) for b in self.warnings],
            "by_question": {
                name: [_line(o) for o in rows] for name, rows in self.outcomes.items()
            },
        }

    def save_setting(self, path: str | Path) -> Path:
        """Write the recommended setting with its evidence, for `comparison.setting.load_denoiser`."""
        own = self.figures_for(self.recommendation.name)
        evidence = {
            "why": self.recommendation.reason,
            "questions": self.questions,
            "gold_from": dict(self.gold_from),
            "about": list(self.notes),
            "answered_by": self.answered_by,
            "figures": {
                k: v for k, v in asdict(own).items() if k not in ("curve", "failed")
            },
            "apart": [str(a) for a in self.comparisons],
        }
        return save_setting(path, self.recommendation.setting, evidence)

    def save_page(self, path: str | Path) -> Path:
        """Write the HTML page. Needs the extra ``cli``."""
        page = require("denoise_core.report.evaluation", extra="cli").render_evaluation(
            self
        )
        write_whole(Path(path), page)
        return Path(path)

    def __repr__(self) -> str:
        own = self.figures_for(self.recommendation.name)
        gold = (
            ""
            if own.gold_recall is None
            else f", gold kept {own.gold_recall.value:.0%}"
        )
        right = (
            "" if own.accuracy is None else f", answers right {own.accuracy.value:.0%}"
        )
        return (
            f"Evaluation({self.questions} questions, {len(self.figures)} ways; recommended: {own.name}, "
            f"{own.kept_fraction:.0%} of the tokens{gold}{right})"
        )

    def _repr_html_(self) -> str | None:
        return render_html("evaluation", self)


def _ranked(
    measure: str,
    ways: Sequence[Strategy],
    figures: Sequence[StrategyFigures],
    budget: int | None,
) -> list[str]:
    """Ways that leave something out, best first; of equal ones that which keeps less, then the earlier."""
    found = []
    for n, (way, own) in enumerate(zip(ways, figures, strict=True)):
        mean = own.gold_recall if measure == GOLD else own.accuracy
        too_long = budget is not None and own.tokens > MORE * budget
        if (
            mean is not None
            and way.name != EVERYTHING
            and not (too_long and measure == GOLD)
        ):
            found.append(
                (-mean.value, round(own.tokens / max(1, budget or 1), 1), n, way.name)
            )
    return [name for *_, name in sorted(found)]


def _recommended(
    ways: Sequence[Strategy],
    figures: Sequence[StrategyFigures],
    ranked: Mapping[str, Sequence[str]],
) -> Recommendation:
    """By gold kept at equal tokens where gold is known, else by right answers; everything where that harms."""
    settings = {
        w.name: w.setting for w in ways if w.setting is not None and w.answerer is None
    }
    own = {f.name: f for f in figures}
    measure = GOLD if ranked[GOLD] else RIGHT
    name = next((n for n in ranked[measure] if n in settings), None)
    if name is None:
        name = "default" if "default" in settings else EVERYTHING
        why = "nothing is known of these questions (no gold passages, no answers), so nothing was measured"
        return Recommendation(name, settings[name], f"{why}; {name} is the safe start")
    best = own[name]
    mean = best.gold_recall if measure == GOLD else best.accuracy
    assert mean is not None
    net = None if best.accuracy_change is None else best.accuracy_change.net
    against = (
        ""
        if net is None
        else f"{net.points} against everything on {net.count} questions"
    )
    if net is not None and net.high < 0:
        why = f"the best way, {name}, costs right answers: {against}"
        return Recommendation(EVERYTHING, settings[EVERYTHING], why)
    why = f"most {measure} at equal tokens: {mean.value:.1%} with {best.kept_fraction:.0%} of the tokens of everything"
    return Recommendation(
        name, settings[name], f"{why}; right answers {against}" if against else why
    )


def _line(o: QuestionOutcome) -> dict[str, Any]:
    return {
        "line": o.case.line_number,
        "kept": sorted(o.kept),
        "tokens": o.tokens,
        "gold": o.gold_recall,
        "reply": None if o.reply is None else o.reply.text,
        "right": o.is_correct,
        "error": o.error,
    }


def table_rows(found: Evaluation, *, short: bool = False) -> list[list[str]]:
    """Header and one row a way; columns that no question can tell of are left out. ``short`` are those alone that
    fit a terminal of 80 columns."""
    rows = []
    for f in found.figures:
        net = None if f.accuracy_change is None else f.accuracy_change.net
        row = {
            "way": f"{f.name} *" if f.name == found.recommendation.name else f.name,
            "tokens": f"{f.tokens:,.0f} ({f.kept_fraction:.0%})",
            "gold kept": ""
            if f.gold_recall is None
            else f"{f.gold_recall.value:.0%} ({_ends('.0f', f.gold_recall, '-')})",
            "right": "" if f.accuracy is None else f"{f.accuracy.value:.0%}",
            "hurt/help": ""
            if f.accuracy_change is None
            else f"{len(f.accuracy_change.harmed)}/{len(f.accuracy_change.helped)}",
            "net (95 %)": ""
            if net is None
            else f"{100 * net.value:+.0f} ({_ends('+.0f', net, ' to ')})",
            "s": _as(".2f", f.seconds),
        }
        if not short:
            row |= {
                "exact": _as(".0%", f.exact),
                "F1": _as(".2f", f.f1),
                "read": _as(",.0f", f.input_tokens),
                "written": _as(",.0f", f.output_tokens),
                "cached": _as(",.0f", f.cached_tokens),
                "money": _as(".6f", f.cost),
            }
        rows.append(row)
    used = [name for name in rows[0] if any(row[name] for row in rows)]
    return [used, *([row[name] for name in used] for row in rows)]


def _ends(form: str, mean: MeanInterval, between: str) -> str:
    return between.join(format(100 * end, form) for end in (mean.low, mean.high))


def _as(form: str, value: float | None) -> str:
    return "" if value is None else format(value, form)


def summary_lines(found: Evaluation) -> list[str]:
    """What must be said beside the table, a sentence or two each."""
    by = found.gold_from
    known = {
        "labels": "by labels",
        "answers": "by the answers that stand in them",
        "model": "by a model's labels",
        "made": "by the pieces that questions were made from",
        "nothing": "unknown",
    }
    gold = ", ".join(f"{n} {known[name]}" for name, n in sorted(by.items()))
    out = [
        f"{found.questions} questions; gold passages: {gold}; answered by: {found.answered_by or 'nobody'}."
    ]
    out += [
        f"{a[:1].upper()}{a[1:]}: rougher than a person's labels." for a in found.notes
    ]
    if found.budget is not None:
        out.append(
            f"Ways that rank were given {found.budget:,} tokens a question, as many as the default kept."
        )
    for f in (f for f in found.figures if f.text_needed):
        need = (
            f"{t:.0%} {v:.2f} ({lo:.2f} to {hi:.2f})"
            for t, (v, lo, hi) in zip(GOLD_TARGETS, f.text_needed, strict=True)
        )
        saved = 1000 * f.tokens / max(f.kept_fraction, 1e-9) * (1 - f.text_needed[0][0])
        out.append(
            f"{f.name}, text needed for gold: {', '.join(need)}; the first saves {saved:,.0f} tokens in 1,000."
        )
    out += [f"{str(a)[:1].upper()}{str(a)[1:]}." for a in found.comparisons]
    out.append(
        f"Recommended (*): {found.recommendation.name}: {found.recommendation.reason}."
    )
    if any(f.input_tokens is not None for f in found.figures) and all(
        f.cost is None for f in found.figures
    ):
        out.append("Money is not told: no price was given (--price READ,WRITTEN).")
    if found.rejected_records:
        out.append(f"Left out: {_places(found.rejected_records)}.")
    if found.warnings:
        out.append(f"To be known: {_places(found.warnings)}.")
    for f in found.figures:
        if f.failed:
            out.append(
                f"{f.name} failed on {len(f.failed)} questions, first line {f.failed[0][0]}: {f.failed[0][1]}."
            )
    return out


def _places(given: Sequence[RecordProblem]) -> str:
    shown = "; ".join(f"line {b.line_number}: {b.reason}" for b in given[:5])
    more = f"; and {len(given) - 5} more" if len(given) > 5 else ""
    return f"{len(given)} ({shown}{more})"


TIMED = 3  # questions on which the seconds are measured, with nothing read before

Progress = Callable[[int, int], None]


def evaluate(
    questions: EvaluationCases | Iterable[Question],
    strategies: Mapping[str, Strategy | Denoiser | Mapping[str, Any]]
    | Sequence[Strategy]
    | None = None,
    *,
    answerer: Answerer | None = None,
    llm: LLM | None = None,
    grader: Rule | Judge = "contains",
    price: Price | None = None,
    progress: Progress | None = None,
) -> Evaluation:
    """Every way over every question.

    ``ways`` are added to, or by name replace, `setting.STANDARD`; a sequence is taken alone.
    Everything undenoised is always among them: harm and help are counted against it. ``answerer`` answers from
    what each way kept, such as `answering.LLMAnswerer`; without one only what is kept is measured. ``right``
    says when an answer is. ``llm`` is asked by ways that need one; `ledger.Ledger` keeps budget and replies.
    ``price`` turns tokens into money. ``progress`` hears of steps done, and of all: each question once, and once
    more where the default goes before, because the others are given as much as it keeps.

    What fails on a question is counted and named, and the rest goes on; mistakes (a wrong setting, a missing
    extra) raise. Raises `InputError` without a question.
    """
    cases = (
        questions
        if isinstance(questions, EvaluationCases)
        else EvaluationCases(
            tuple(case_from_question(q, n) for n, q in enumerate(questions, 1))
        )
    )
    if not cases.cases:
        raise InputError("there is no question to evaluate on")
    chosen = ways_of(strategies)
    judge, count = judge_of(grader), shared_encoder().count_tokens
    told = progress or (lambda done, of: None)
    first = next((w.ready(None) for w in chosen if _says(w, "kind", "default")), None)
    steps = len(cases.cases) * (1 if first is None else 2)
    known: list[QuestionOutcome] = []  # what the default keeps of each question
    if first is not None:
        for n, case in enumerate(cases.cases):
            known.append(_denoised(first, case, count, n < TIMED))
            told(n + 1, steps)
    budget, most = _budget(known, cases, count)
    given = None if most is None else max(1, round(most))
    ready = [
        first if first is not None and w.name == first.name else w.ready(given, llm)
        for w in chosen
    ]
    same = {w.name for w in chosen if _says(w, "tokens", SAME_BUDGET)}
    outcomes: dict[str, list[QuestionOutcome]] = {w.name: [] for w in ready}
    for n, case in enumerate(cases.cases):
        for way in ready:
            limit = most if way.name in same else None
            own = (
                known[n]
                if way is first
                else _denoised(way, case, count, n < TIMED, limit)
            )
            by = way.answerer or answerer
            outcomes[way.name].append(own if by is None else _answered(own, by, judge))
        told(len(known) + n + 1, steps)
    return _evaluation(
        cases,
        ready,
        outcomes,
        None if answerer is None else answerer.name,
        budget,
        price,
    )


def _evaluation(
    cases: EvaluationCases,
    ways: Sequence[Strategy],
    outcomes: Mapping[str, Sequence[QuestionOutcome]],
    answered_by: str | None,
    budget: int | None,
    price: Price | None,
) -> Evaluation:
    """The figures of outcomes, whether the best ways can be told apart, and which to take."""
    everything = outcomes[EVERYTHING]
    mean = float(np.mean([o.tokens for o in everything if o.error is None] or [0.0]))
    figures = tuple(
        figures_of(w.name, outcomes[w.name], everything, mean, price) for w in ways
    )
    ranked = {m: _ranked(m, ways, figures, budget) for m in (GOLD, RIGHT)}
    return Evaluation(
        len(cases.cases),
        dict(Counter(c.gold_from or "nothing" for c in cases.cases)),
        answered_by,
        budget,
        figures,
        tuple(
            found
            for m, names in ranked.items()
            if (found := apart(m, names, outcomes)) is not None
        ),
        _recommended(ways, figures, ranked),
        cases.rejected_records,
        cases.warnings,
        cases.notes,
        outcomes,
    )


def _says(way: Strategy, name: str, value: str) -> bool:
    return way.setting is not None and way.setting.get(name) == value


def _budget(
    known: list[QuestionOutcome], cases: EvaluationCases, count: Callable[[str], int]
) -> tuple[int | None, float | None]:
    """Tokens that the default keeps on average, and the budget a question that comes to as many."""
    done = [o.tokens for o in known if o.error is None]
    if not done:
        return None, None
    mean = float(np.mean(done))
    return max(1, round(mean)), _each(mean, [whole(c, count) for c in cases.cases])


def _each(mean: float, totals: Sequence[int]) -> float:
    """The budget a question at which ``mean`` tokens are kept on average: where passages have fewer, others get
    more."""
    low, high = 0.0, float(max(totals))
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (
            (middle, high)
            if np.minimum(totals, middle).mean() < mean
            else (low, middle)
        )
    return high


def _denoised(
    way: Strategy,
    case: EvaluationCase,
    count: Callable[[str], int],
    timed: bool,
    budget: float | None = None,
) -> QuestionOutcome:
    question = case.question
    assert way.denoiser is not None
    try:
        with cold_cache() if timed else nullcontext():
            started = time.perf_counter()
            result = way.denoiser.denoise(question.text, question.passages)
            seconds = time.perf_counter() - started
        result = validate_result(question.passages, result)
    except Exception as error:  # a model, scorer or denoiser of the user's: a failure is counted, a mistake raises
        if is_user_error(error):
            raise
        return QuestionOutcome(case, error=format_error(error))
    return replace(
        outcome_of(case, result, count, budget), seconds=seconds if timed else None
    )


def _answered(
    own: QuestionOutcome, answerer: Answerer, judge: Judge
) -> QuestionOutcome:
    if own.error is not None or own.result is None:
        return own
    try:
        question = own.case.question
        reply = answerer.answer(question.text, own.result.passages)
        return replace(
            own,
            reply=reply,
            is_correct=judge(question, reply.text) if question.answers else None,
        )
    except (
        Exception
    ) as error:  # as above: a model that fails on one question, or the one that judges
        if is_user_error(error):
            raise
        return QuestionOutcome(own.case, error=format_error(error))
