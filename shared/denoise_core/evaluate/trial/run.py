"""`evaluate`: every way over the same questions, answered from what each kept, and what is recommended."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import replace
from typing import Any

import numpy as np

from denoise_core.embedded.default import encoder
from denoise_core.errors import InputError, is_mistake, said
from denoise_core.evaluate.trial.answering import Answerer, Judge, Rule, judge_of
from denoise_core.evaluate.trial.cases import Case, Cases, case_of_question
from denoise_core.evaluate.trial.evaluation import Evaluation
from denoise_core.evaluate.trial.figures import Outcome, outcome_of, whole
from denoise_core.evaluate.trial.setting import EVERYTHING, SAME, Way, as_ways, nothing_read, standard_ways
from denoise_core.protocols import LLM, Denoiser
from denoise_core.question import Question
from denoise_core.running.budget import Price
from denoise_core.running.laws import check_laws

TIMED = 3  # questions on which the seconds are measured, with nothing read before

Progress = Callable[[int, int], None]


def evaluate(
    questions: Cases | Iterable[Question],
    ways: Mapping[str, Way | Denoiser | Mapping[str, Any]] | Sequence[Way] | None = None,
    *,
    answerer: Answerer | None = None,
    llm: LLM | None = None,
    right: Rule | Judge = "contains",
    price: Price | None = None,
    progress: Progress | None = None,
) -> Evaluation:
    """Every way over every question.

    ``ways`` are added to, or by name replace, `setting.standard_ways`; a sequence is taken alone.
    Everything undenoised is always among them: harm and help are counted against it. ``answerer`` answers from
    what each way kept, such as `answering.EmbeddedReader`; without one only what is kept is measured. ``right``
    says when an answer is. ``llm`` is asked by ways that need one; `ledger.Ledger` keeps budget and replies.
    ``price`` turns tokens into money. ``progress`` hears of steps done, and of all: each question once, and once
    more where the default goes before, because the others are given as much as it keeps.

    What fails on a question is counted and named, and the rest goes on; mistakes (a wrong setting, a missing
    extra) raise. Raises `InputError` without a question.
    """
    cases = questions if isinstance(questions, Cases) else _cases(questions)
    if not cases.cases:
        raise InputError("there is no question to evaluate on")
    chosen = _ways(ways)
    judge, count = judge_of(right), encoder().count
    told = progress or (lambda done, of: None)
    first = next((w.ready(None) for w in chosen if _says(w, "kind", "default")), None)
    steps = len(cases.cases) * (1 if first is None else 2)
    known: list[Outcome] = []  # what the default keeps of each question
    if first is not None:
        for n, case in enumerate(cases.cases):
            known.append(_denoised(first, case, judge, count, n < TIMED))
            told(n + 1, steps)
    budget, most = _budget(known, cases, count)
    given = None if most is None else max(1, round(most))
    ready = [first if first is not None and w.name == first.name else w.ready(given, llm) for w in chosen]
    same = {w.name for w in chosen if _says(w, "tokens", SAME)}
    outcomes: dict[str, list[Outcome]] = {w.name: [] for w in ready}
    for n, case in enumerate(cases.cases):
        for way in ready:
            limit = most if way.name in same else None
            own = known[n] if way is first else _denoised(way, case, judge, count, n < TIMED, limit)
            by = way.answerer or answerer
            outcomes[way.name].append(own if by is None else _answered(own, by, judge, count, limit))
        told(len(known) + n + 1, steps)
    return Evaluation.of(cases, ready, outcomes, None if answerer is None else answerer.name, budget, price)


def _says(way: Way, name: str, value: str) -> bool:
    return way.setting is not None and way.setting.get(name) == value


def _budget(known: list[Outcome], cases: Cases, count: Callable[[str], int]) -> tuple[int | None, float | None]:
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
        low, high = (middle, high) if np.minimum(totals, middle).mean() < mean else (low, middle)
    return high


def _cases(questions: Iterable[Question]) -> Cases:
    return Cases(tuple(case_of_question(q, n) for n, q in enumerate(questions, 1)))


def _ways(given: Mapping[str, Way | Denoiser | Mapping[str, Any]] | Sequence[Way] | None) -> list[Way]:
    standard = {w.name: w for w in standard_ways()}
    if given is None:
        return list(standard.values())
    if isinstance(given, Mapping):
        return list((standard | {w.name: w for w in as_ways(given)}).values())
    return list({EVERYTHING: standard[EVERYTHING], **{w.name: w for w in given}}.values())


def _denoised(
    way: Way, case: Case, judge: Judge, count: Callable[[str], int], timed: bool, budget: float | None = None
) -> Outcome:
    question = case.question
    assert way.denoiser is not None
    try:
        with nothing_read() if timed else nullcontext():
            started = time.perf_counter()
            result = way.denoiser.denoise(question.text, question.passages)
            seconds = time.perf_counter() - started
        result = check_laws(question.passages, result)
    except Exception as error:  # a model, scorer or denoiser of the user's: a failure is counted, a mistake raises
        if is_mistake(error):
            raise
        return Outcome(case, error=said(error))
    return replace(outcome_of(case, result, None, judge, count, budget), seconds=seconds if timed else None)


def _answered(
    own: Outcome, answerer: Answerer, judge: Judge, count: Callable[[str], int], budget: float | None
) -> Outcome:
    if own.error is not None or own.result is None:
        return own
    try:
        reply = answerer.answer(own.case.question.text, own.result.passages)
        found = outcome_of(own.case, own.result, reply, judge, count, budget)
    except Exception as error:  # as above: a model that fails on one question, or the one that judges
        if is_mistake(error):
            raise
        return Outcome(own.case, error=said(error))
    return replace(found, seconds=own.seconds)
