"""What one way made of one question: what was kept and of how much, what was answered, how long it took."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from denoise_core.end.denoiser import Scoring
from denoise_core.evaluate.answers import exact_match, holds_answer, token_f1
from denoise_core.evaluate.trial.answering import Judge
from denoise_core.evaluate.trial.cases import Case
from denoise_core.result import DenoiseResult
from denoise_core.types import Reply

SHARES = tuple(s / 20 for s in range(1, 21))  # of the tokens of a question's passages, for the curves

Count = Callable[[str], int]


@dataclass(frozen=True, slots=True)
class Outcome:
    """One question by one way. None stands for what cannot be told.

    ``gold`` is the share of the gold passages of which something is kept; ``by_share`` the same when the best
    chunks up to each of `SHARES` of the tokens are kept. ``answer_kept``: the kept text holds an answer.
    ``seconds`` is the denoiser's alone, None where it was not timed. ``error`` says what failed; then all else is
    empty.
    """

    case: Case
    result: DenoiseResult | None = None
    tokens: int = 0
    kept: frozenset[str] = frozenset()
    gold: float | None = None
    answer_kept: bool | None = None
    by_share: tuple[float, ...] | None = None
    reply: Reply | None = None
    right: bool | None = None
    exact: bool | None = None
    f1: float | None = None
    contains: bool | None = None
    seconds: float | None = None
    error: str | None = field(default=None)


def outcome_of(case: Case, result: DenoiseResult, reply: Reply | None, judge: Judge, count: Count) -> Outcome:
    """The outcome of a result and of the reply made from it; None for no reply asked."""
    question = case.question
    kept = frozenset(s.passage_id for p in result.passages for s in p.covered)
    answers = question.answers
    said = None if reply is None else reply.text
    judged = said is not None and bool(answers)
    stood = any(holds_answer(p.text, answers) for p in question.passages) if answers else False
    return Outcome(
        case,
        result,
        sum(count(p.headed) for p in result.passages),
        kept,
        len(kept & question.gold) / len(question.gold) if question.gold else None,
        any(holds_answer(p.text, answers) for p in result.passages) if stood else None,
        _by_share(case, result, count) if question.gold else None,
        reply,
        judge(question, said) if judged and said is not None else None,
        exact_match(said, answers) if judged and said is not None else None,
        token_f1(said, answers) if judged and said is not None else None,
        holds_answer(said, answers) if judged and said is not None else None,
    )


def _by_share(case: Case, result: DenoiseResult, count: Count) -> tuple[float, ...] | None:
    """Gold kept at each of `SHARES`, by the scores in the trace; None for a method without scores."""
    scored = next(((e.effect, e.reply) for e in result.trace.events if isinstance(e.effect, Scoring)), None)
    if scored is None or scored[1] is None:
        return None
    spans, scores = scored[0].spans, [-np.inf if s is None else s for s in scored[1]]
    texts = {p.id: p.text for p in case.question.passages}
    order = np.argsort(-np.asarray(scores), kind="stable").tolist()
    sizes = [count(texts[s.passage_id][s.start : s.end]) for s in spans]
    total = max(1, sum(sizes))
    used = np.cumsum([sizes[i] for i in order]) / total
    gold = case.question.gold
    found: set[str] = set()
    reached: list[tuple[float, float]] = []
    for at, i in zip(used.tolist(), order, strict=True):
        if spans[i].passage_id in gold and spans[i].passage_id not in found:
            found.add(spans[i].passage_id)
            reached.append((at, len(found) / len(gold)))
    return tuple(max((g for at, g in reached if at <= share + 1e-9), default=0.0) for share in SHARES)


def positions(n: int) -> NDArray[np.intp]:
    """The band of each place in a list of ``n``: see `BANDS`."""
    return np.searchsorted([last for _, last in BANDS], np.arange(1, n + 1))


BANDS = (("1", 1), ("2", 2), ("3", 3), ("4-5", 5), ("6-10", 10), ("11-20", 20), ("21-50", 50), ("51-", 10**9))
