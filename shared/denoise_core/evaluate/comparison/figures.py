"""What ways made of questions, their figures with 95 % intervals, and what tells two ways apart."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from denoise_core.embedded.fitted import Interval, percentile_interval
from denoise_core.end.calibration import GOLD_TARGETS, required_text_fraction
from denoise_core.end.denoiser import Scoring
from denoise_core.evaluate.datasets import EvaluationCase
from denoise_core.evaluate.metrics import (
    bootstrap_interval,
    exact_match,
    token_f1,
    wilson_interval,
)
from denoise_core.result import DenoiseResult
from denoise_core.runtime.budget import Price
from denoise_core.types import Reply, Usage

SHARES = tuple(
    s / 20 for s in range(1, 21)
)  # of the tokens of a question's passages, for the curves

Count = Callable[[str], int]
Ranked = list[
    tuple[str, float, float]
]  # passage, tokens and score of each chunk, best first


@dataclass(frozen=True, slots=True)
class QuestionOutcome:
    """One question by one way. None stands for what cannot be told.

    ``gold`` is the share of the gold passages of which something is kept; ``ranked`` are all chunks, by the scores
    in the trace. ``seconds`` is the denoiser's alone, None where it was not timed. ``error`` says what failed:
    then all else is empty.
    """

    case: EvaluationCase
    result: DenoiseResult | None = None
    tokens: float = 0
    kept: frozenset[str] = frozenset()
    gold_recall: float | None = None
    ranked: Ranked | None = None
    reply: Reply | None = None
    is_correct: bool | None = None
    seconds: float | None = None
    error: str | None = None


def outcome_of(
    case: EvaluationCase,
    result: DenoiseResult,
    count: Count,
    budget: float | None = None,
) -> QuestionOutcome:
    """The outcome of a result that nobody has answered from.

    With a ``budget`` tokens and gold are those of the ranking cut there exactly: the last chunk counts in part, as
    the value to be expected, so that ways of equal length are of equal length.
    """
    question = case.question
    kept = frozenset(s.passage_id for p in result.passages for s in p.source_spans)
    tokens: float = sum(count(p.text_with_header) for p in result.passages)
    gold = len(kept & question.gold) / len(question.gold) if question.gold else None
    ranked = _ranked(case, result, count)
    if ranked is not None and budget is not None:
        tokens, expected = _expected(case, ranked, budget)
        gold = expected if question.gold else None
    return QuestionOutcome(case, result, tokens, kept, gold, ranked)


def _by_share(ranked: Ranked, gold: frozenset[str]) -> list[float]:
    """Gold kept when the best chunks up to each of `SHARES` of the tokens are kept."""
    total = max(1.0, sum(size for _, size, _ in ranked))
    found: set[str] = set()
    reached: list[tuple[float, float]] = []
    at = 0.0
    for name, size, _ in ranked:
        at += size / total
        if name in gold and name not in found:
            found.add(name)
            reached.append((at, len(found) / len(gold)))
    return [
        max((g for at, g in reached if at <= share + 1e-9), default=0.0)
        for share in SHARES
    ]


def _needed(outcomes: Iterable[QuestionOutcome]) -> tuple[Interval, ...]:
    """The share of the tokens that keeps each of `TARGETS` of the gold (`text_needed`); () where nothing tells."""
    rows: list[tuple[float, bool, float, int]] = []
    for n, o in enumerate(outcomes):
        left = set(o.case.question.gold)
        for name, size, score in o.ranked or ():
            rows.append(
                (score, name in left, size, n)
            )  # gold by a passage's best chunk
            left.discard(name)
    known = any(is_gold for _, is_gold, _, _ in rows)
    return (
        tuple(
            percentile_interval(required_text_fraction(*np.array(rows).T, fraction=t))
            for t in GOLD_TARGETS
        )
        if known
        else ()
    )


def _ranked(case: EvaluationCase, result: DenoiseResult, count: Count) -> Ranked | None:
    """The chunks, whose tokens sum to the passages' tokens; None for a method without scores."""
    scored = next(
        (
            (e.effect, e.reply)
            for e in result.trace.events
            if isinstance(e.effect, Scoring)
        ),
        None,
    )
    if scored is None or scored[1] is None:
        return None
    spans, scores = scored[0].spans, [-1e9 if s is None else s for s in scored[1]]
    texts = {p.id: p.text for p in case.question.passages}
    sizes = [count(texts[s.passage_id][s.start : s.end]) for s in spans]
    more = whole(case, count) / max(1, sum(sizes))  # headers are paid for by all alike
    order = np.argsort(-np.asarray(scores), kind="stable").tolist()
    return [(spans[i].passage_id, sizes[i] * more, scores[i]) for i in order]


def whole(case: EvaluationCase, count: Count) -> int:
    """Tokens of all passages."""
    return sum(count(p.text_with_header) for p in case.question.passages)


def _expected(
    case: EvaluationCase, ranked: Ranked, budget: float
) -> tuple[float, float]:
    """Tokens, and the share of gold to be expected, of a ranking that is cut at ``budget`` tokens."""
    left, reached = budget, dict.fromkeys(case.question.gold, 0.0)
    for name, size, _ in ranked:
        part = 1.0 if size <= left else left / size
        if name in reached:
            reached[name] = max(reached[name], part)
        left -= part * size
        if left <= 0:
            break
    return budget - max(0.0, left), sum(reached.values()) / max(1, len(reached))


POWER = 1.96 + 0.8416  # both-sided 5 %, found in 80 % of such samples


@dataclass(frozen=True, slots=True)
class MeanInterval:
    """A mean over ``n`` questions with its 95 % interval, by Wilson for yes and no, else by bootstrap."""

    value: float
    low: float
    high: float
    count: int

    @property
    def points(self) -> str:
        """A difference in words, with its interval."""
        return f"{100 * self.value:+.1f} points ({100 * self.low:+.1f} to {100 * self.high:+.1f})"


@dataclass(frozen=True, slots=True)
class Change:
    """Answers against those from everything, over ``n`` questions that both answered.

    ``harmed`` were right from everything and are wrong here, ``helped`` the reverse, both lines of the file.
    ``net`` is the paired mean of helped minus harmed.
    """

    harmed: tuple[int, ...]
    helped: tuple[int, ...]
    net: MeanInterval


@dataclass(frozen=True, slots=True)
class StrategyFigures:
    """One way over all questions. None where no question can tell.

    ``tokens`` a question are word pieces of what is kept; ``share`` is kept over all. ``curve`` has (share of
    tokens, gold kept) by the way's own ranking, ``needed`` the share of tokens for each of `TARGETS`. ``read``
    and ``written`` are the model's tokens a question, those of a way that asks it to denoise included, ``cached``
    those of the read ones that a server's cache of prompts held, and ``money`` the same at the given price.
    ``seconds`` a question are for denoising.
    """

    name: str
    questions: int
    failed: tuple[tuple[int, str], ...]
    gold_recall: MeanInterval | None
    accuracy: MeanInterval | None
    exact: float | None
    f1: float | None
    accuracy_change: Change | None
    tokens: float
    kept_fraction: float
    seconds: float | None
    input_tokens: float | None
    output_tokens: float | None
    cached_tokens: float | None
    cost: float | None
    curve: tuple[tuple[float, float], ...]
    text_needed: tuple[Interval, ...] = ()


@dataclass(frozen=True, slots=True)
class SignificanceTest:
    """The two best ways on ``measure``: ``difference`` is first minus second, paired; ``needed`` questions would
    tell them apart if the true difference is the one seen, None when none was seen or so many are no use."""

    measure: str
    first: str
    second: str
    difference: MeanInterval
    needed: int | None

    @property
    def found(self) -> bool:
        """Whether the interval leaves 0 out."""
        return not self.difference.low <= 0 <= self.difference.high

    def __str__(self) -> str:
        seen = f"{self.difference.points} on {self.difference.count} questions"
        if self.found:
            return f"{self.first} is ahead of {self.second} in {self.measure}: {seen}"
        told = (
            "the two did the same on every question"
            if self.needed is None
            else f"about {self.needed:,} questions would be needed to tell them apart"
        )
        return f"no difference found between {self.first} and {self.second} in {self.measure}: {seen}; {told}"


def mean_interval(values: ArrayLike) -> MeanInterval | None:
    """The mean with its interval; None of no value."""
    v = np.asarray(values, dtype=np.float64)
    if not len(v):
        return None
    yes_no = bool(np.isin(v, (0.0, 1.0)).all())
    low, high = (
        wilson_interval(int(v.sum()), len(v)) if yes_no else bootstrap_interval(v)
    )
    return MeanInterval(float(v.mean()), low, high, len(v))


def paired_difference(first: Sequence[float], second: Sequence[float]) -> MeanInterval:
    """Mean of first minus second over the same questions, with a bootstrap interval."""
    d = np.asarray(first, dtype=np.float64) - np.asarray(second, dtype=np.float64)
    low, high = bootstrap_interval(d)
    return MeanInterval(float(d.mean()), low, high, len(d))


def required_questions(differences: ArrayLike) -> int | None:
    """Questions at which a paired difference like this one would be told from 0 in 80 % of samples, at 5 %.

    None when the mean difference is 0.
    """
    d = np.asarray(differences, dtype=np.float64)
    mean = float(d.mean())
    if abs(mean) < 1e-12 or len(d) < 2:
        return None
    return max(2, math.ceil((POWER * float(d.std(ddof=1)) / mean) ** 2))


def figures_of(
    name: str,
    outcomes: Sequence[QuestionOutcome],
    everything: Sequence[QuestionOutcome],
    whole: float,
    price: Price | None = None,
) -> StrategyFigures:
    """Figures of a way; ``everything`` are the same questions undenoised, ``whole`` their mean tokens."""
    done = [o for o in outcomes if o.error is None]
    tokens = _plain(o.tokens for o in done) or 0.0
    golden = ((o.ranked, o.case.question.gold) for o in done)
    curves = [
        _by_share(ranked, gold)
        for ranked, gold in golden
        if ranked is not None and gold
    ]
    told = [
        (o.reply.text, a)
        for o in done
        if o.reply is not None and (a := o.case.question.answers)
    ]
    return StrategyFigures(
        name,
        len(done),
        failed=tuple(
            (o.case.line_number, o.error) for o in outcomes if o.error is not None
        ),
        gold_recall=mean_interval(_known(o.gold_recall for o in done)),
        accuracy=mean_interval(_known(o.is_correct for o in done)),
        exact=_plain(exact_match(*pair) for pair in told),
        f1=_plain(token_f1(*pair) for pair in told),
        accuracy_change=_change(outcomes, everything),
        tokens=tokens,
        kept_fraction=tokens / whole if whole else 1.0,
        seconds=_plain(o.seconds for o in done),
        **mean_usage([u for o in done if (u := _usage(o)) is not None], price),
        curve=tuple(zip(SHARES, np.mean(curves, axis=0).tolist(), strict=True))
        if curves
        else (),
        text_needed=_needed(done),
    )


def apart(
    measure: str,
    names: Sequence[str],
    outcomes: Mapping[str, Sequence[QuestionOutcome]],
) -> SignificanceTest | None:
    """The first two of ``names`` on the questions that both can tell of; None where there are none."""
    if len(names) < 2:
        return None
    both = zip(outcomes[names[0]], outcomes[names[1]], strict=True)
    values = [(value_of(one, measure), value_of(two, measure)) for one, two in both]
    pairs = [(a, b) for a, b in values if a is not None and b is not None]
    if not pairs:
        return None
    left, right = zip(*pairs, strict=True)
    return SignificanceTest(
        measure,
        names[0],
        names[1],
        paired_difference(left, right),
        required_questions(np.subtract(left, right)),
    )


def value_of(outcome: QuestionOutcome, measure: str) -> float | None:
    """``"gold kept"`` or ``"right answers"`` of one question."""
    found = outcome.gold_recall if measure == GOLD else outcome.is_correct
    return None if found is None else float(found)


GOLD, RIGHT = "gold kept", "right answers"


def mean_usage(used: Sequence[Usage], price: Price | None) -> dict[str, float | None]:
    """Tokens ``read``, ``written`` and ``cached``, and ``money``: means; None where nothing tells."""
    return {
        "input_tokens": _plain(u.input_tokens for u in used),
        "output_tokens": _plain(u.output_tokens for u in used),
        "cached_tokens": _plain(u.cached_tokens for u in used) or None,
        "cost": None if price is None else _plain(price.cost_of(u) for u in used),
    }


def _usage(outcome: QuestionOutcome) -> Usage | None:
    """What answering and denoising used together."""
    if outcome.reply is None or outcome.reply.usage is None or outcome.result is None:
        return None
    one, two = outcome.reply.usage, outcome.result.trace.usage
    cached = one.cached_tokens + two.cached_tokens
    read, written = (
        one.input_tokens + two.input_tokens,
        one.output_tokens + two.output_tokens,
    )
    return Usage(read, written, one.is_estimated or two.is_estimated, cached)


def _known(values: Iterable[float | None]) -> list[float]:
    return [float(v) for v in values if v is not None]


def _plain(values: Iterable[float | None]) -> float | None:
    known = _known(values)
    return float(np.mean(known)) if known else None


def _change(
    outcomes: Sequence[QuestionOutcome], everything: Sequence[QuestionOutcome]
) -> Change | None:
    both = [
        (one.case.line_number, bool(one.is_correct), bool(all_.is_correct))
        for one, all_ in zip(outcomes, everything, strict=True)
        if one.is_correct is not None and all_.is_correct is not None
    ]
    if not both:
        return None
    return Change(
        tuple(place for place, now, before in both if before and not now),
        tuple(place for place, now, before in both if now and not before),
        paired_difference(
            [now for _, now, _ in both], [before for _, _, before in both]
        ),
    )
