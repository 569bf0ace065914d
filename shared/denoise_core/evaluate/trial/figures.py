"""Figures of a way over all questions, with 95 % intervals, and what tells two ways apart."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from denoise_core.evaluate.metrics import bootstrap, wilson
from denoise_core.evaluate.trial.outcome import BANDS, SHARES, Outcome, positions
from denoise_core.running.budget import Price
from denoise_core.types import Usage

POWER = 1.96 + 0.8416  # both-sided 5 %, found in 80 % of such samples


@dataclass(frozen=True, slots=True)
class Mean:
    """A mean over ``n`` questions with its 95 % interval, by Wilson for yes and no, else by bootstrap."""

    value: float
    low: float
    high: float
    n: int


@dataclass(frozen=True, slots=True)
class Change:
    """Answers against those from everything, over ``n`` questions that both answered.

    ``harmed`` were right from everything and are wrong here, ``helped`` the reverse, both lines of the file.
    ``net`` is the paired mean of helped minus harmed.
    """

    harmed: tuple[int, ...]
    helped: tuple[int, ...]
    net: Mean


@dataclass(frozen=True, slots=True)
class Share:
    """How many of ``of`` passages were kept."""

    name: str
    kept: int
    of: int


@dataclass(frozen=True, slots=True)
class Figures:
    """One way over all questions. None where no question can tell.

    ``tokens`` a question are word pieces of what is kept; ``share`` is kept over all. ``curve`` has (share of
    tokens, gold kept) by the way's own ranking. ``read`` and ``written`` are the model's tokens a question, those
    of a way that asks it to denoise included, ``cached`` those of the read ones that a server's cache of prompts
    held, and ``money`` the same at the given price. ``seconds`` a question
    are for denoising.
    """

    name: str
    questions: int
    failed: tuple[tuple[int, str], ...]
    gold: Mean | None
    answer_kept: Mean | None
    right: Mean | None
    exact: float | None
    f1: float | None
    contains: float | None
    change: Change | None
    tokens: float
    share: float
    seconds: float | None
    read: float | None
    written: float | None
    cached: float | None
    money: float | None
    by_position: tuple[Share, ...]
    by_source: tuple[Share, ...]
    curve: tuple[tuple[float, float], ...]


@dataclass(frozen=True, slots=True)
class Apart:
    """The two best ways on ``measure``: ``difference`` is first minus second, paired; ``needed`` questions would
    tell them apart if the true difference is the one seen, None when none was seen or so many are no use."""

    measure: str
    first: str
    second: str
    difference: Mean
    needed: int | None

    @property
    def found(self) -> bool:
        """Whether the interval leaves 0 out."""
        return not self.difference.low <= 0 <= self.difference.high

    def __str__(self) -> str:
        d = self.difference
        interval = f"{100 * d.low:+.1f} to {100 * d.high:+.1f}"
        if self.found:
            return (
                f"{self.first} is ahead of {self.second} in {self.measure}: "
                f"{100 * d.value:+.1f} points ({interval}) on {d.n} questions"
            )
        told = (
            "the two did the same on every question"
            if self.needed is None
            else f"about {self.needed:,} questions would be needed to tell them apart"
        )
        return (
            f"no difference found between {self.first} and {self.second} in {self.measure}: "
            f"{100 * d.value:+.1f} points ({interval}) on {d.n} questions; {told}"
        )


def mean_of(values: ArrayLike) -> Mean | None:
    """The mean with its interval; None of no value."""
    v = np.asarray(values, dtype=np.float64)
    if not len(v):
        return None
    yes_no = bool(np.isin(v, (0.0, 1.0)).all())
    low, high = wilson(int(v.sum()), len(v)) if yes_no else bootstrap(v)
    return Mean(float(v.mean()), low, high, len(v))


def paired(first: Sequence[float], second: Sequence[float]) -> Mean:
    """Mean of first minus second over the same questions, with a bootstrap interval."""
    d = np.asarray(first, dtype=np.float64) - np.asarray(second, dtype=np.float64)
    low, high = bootstrap(d)
    return Mean(float(d.mean()), low, high, len(d))


def needed(differences: ArrayLike) -> int | None:
    """Questions at which a paired difference like this one would be told from 0 in 80 % of samples, at 5 %.

    None when the mean difference is 0.
    """
    d = np.asarray(differences, dtype=np.float64)
    mean = float(d.mean())
    if abs(mean) < 1e-12 or len(d) < 2:
        return None
    return max(2, math.ceil((POWER * float(d.std(ddof=1)) / mean) ** 2))


def figures_of(
    name: str, outcomes: Sequence[Outcome], everything: Sequence[Outcome], whole: float, price: Price | None = None
) -> Figures:
    """Figures of a way; ``everything`` are the same questions undenoised, ``whole`` their mean tokens."""
    done = [o for o in outcomes if o.error is None]
    tokens = float(np.mean([o.tokens for o in done])) if done else 0.0
    timed = [o.seconds for o in done if o.seconds is not None]
    used = [
        _both(o.reply.usage, o.result.trace.usage)
        for o in done
        if o.reply is not None and o.reply.usage is not None and o.result is not None
    ]
    curves = [o.by_share for o in done if o.by_share is not None]
    return Figures(
        name,
        len(done),
        tuple((o.case.place, o.error) for o in outcomes if o.error is not None),
        mean_of([o.gold for o in done if o.gold is not None]),
        mean_of([float(o.answer_kept) for o in done if o.answer_kept is not None]),
        mean_of([float(o.right) for o in done if o.right is not None]),
        _plain([o.exact for o in done]),
        _plain([o.f1 for o in done]),
        _plain([o.contains for o in done]),
        _change(outcomes, everything),
        tokens,
        tokens / whole if whole else 1.0,
        float(np.mean(timed)) if timed else None,
        float(np.mean([u.input_tokens for u in used])) if used else None,
        float(np.mean([u.output_tokens for u in used])) if used else None,
        float(np.mean([u.cached_tokens for u in used])) if any(u.cached_tokens for u in used) else None,
        float(np.mean([price.of(u) for u in used])) if used and price is not None else None,
        _by_position(done),
        _by_source(done),
        tuple(zip(SHARES, np.mean(curves, axis=0).tolist(), strict=True)) if curves else (),
    )


def apart(measure: str, first: tuple[str, Sequence[Outcome]], second: tuple[str, Sequence[Outcome]]) -> Apart:
    """The two ways on the questions that both can tell of. Raises `InputError` when there is none."""
    pairs = [
        (float(a), float(b))
        for one, two in zip(first[1], second[1], strict=True)
        if (a := value_of(one, measure)) is not None and (b := value_of(two, measure)) is not None
    ]
    left, right = [a for a, _ in pairs], [b for _, b in pairs]
    return Apart(measure, first[0], second[0], paired(left, right), needed(np.subtract(left, right)))


def value_of(outcome: Outcome, measure: str) -> float | None:
    """``"gold kept"`` or ``"right answers"`` of one question."""
    found = outcome.gold if measure == GOLD else outcome.right
    return None if found is None else float(found)


GOLD, RIGHT = "gold kept", "right answers"


def _both(one: Usage, two: Usage) -> Usage:
    cached = one.cached_tokens + two.cached_tokens
    read, written = one.input_tokens + two.input_tokens, one.output_tokens + two.output_tokens
    return Usage(read, written, one.estimated or two.estimated, cached)


def _plain(values: Sequence[float | None]) -> float | None:
    known = [float(v) for v in values if v is not None]
    return float(np.mean(known)) if known else None


def _change(outcomes: Sequence[Outcome], everything: Sequence[Outcome]) -> Change | None:
    both = [
        (one.case.place, bool(one.right), bool(all_.right))
        for one, all_ in zip(outcomes, everything, strict=True)
        if one.right is not None and all_.right is not None
    ]
    if not both:
        return None
    return Change(
        tuple(place for place, now, before in both if before and not now),
        tuple(place for place, now, before in both if now and not before),
        paired([now for _, now, _ in both], [before for _, _, before in both]),
    )


def _by_position(outcomes: Sequence[Outcome]) -> tuple[Share, ...]:
    kept: Counter[int] = Counter()
    of: Counter[int] = Counter()
    for o in outcomes:
        passages = o.case.question.passages
        for passage, band in zip(passages, positions(len(passages)).tolist(), strict=True):
            of[band] += 1
            kept[band] += passage.id in o.kept
    return tuple(Share(BANDS[band][0], kept[band], of[band]) for band in sorted(of))


def _by_source(outcomes: Sequence[Outcome]) -> tuple[Share, ...]:
    """Passages that name a source, most frequent first, at most 20 sources."""
    kept: Counter[str] = Counter()
    of: Counter[str] = Counter()
    for o in outcomes:
        for passage in o.case.question.passages:
            source = passage.metadata.get("source")
            if source:
                of[str(source)] += 1
                kept[str(source)] += passage.id in o.kept
    return tuple(Share(name, kept[name], n) for name, n in of.most_common(20))
