"""How many documents come back, and in which order: decided on a core result, whatever denoised it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Literal

from denoise_core import DenoiseResult, Drop, Guard, InputError, Keep, Passage, Span
from denoise_core.text.chunk import extract

Order = Literal["input", "score"]


def fills(denoiser: Any) -> bool:
    """Whether what a denoiser left out may come back to make a number full: not when a threshold decided it."""
    while isinstance(denoiser, Guard):
        denoiser = denoiser.denoiser
    rule = getattr(denoiser, "rule", None)
    return rule is not None and not hasattr(rule, "threshold")


def top(result: DenoiseResult, given: Sequence[Passage], n: int, *, fill: bool) -> DenoiseResult:
    """``n`` passages of the result, those with the best scores, or the first when there are none.

    With ``fill`` a result of fewer is made full with the best-scored chunk of each dropped passage of ``given``.
    """
    if n < 1:
        raise InputError(f"k={n}: expected 1 or more")
    if fill and len(result.passages) < n and result.fallback is None:
        result = _filled(result, given, n)
    places = list(range(len(result.passages)))
    scores = [p.score for p in result.passages if p.score is not None]
    if len(scores) == len(places):
        places.sort(key=lambda i: -scores[i])  # stable: of equals the earlier one stays
    stay = set(places[:n])
    if len(stay) == len(places):
        return result
    cut = [p for i, p in enumerate(result.passages) if i not in stay]
    lost = {s for p in cut for s in p.covered}
    return replace(
        result,
        passages=tuple(p for i, p in enumerate(result.passages) if i in stay),
        dropped=(*result.dropped, *(Drop(s, f"not among the best {n}", p.score) for p in cut for s in p.covered)),
        kept=tuple(c for c in result.kept if c.span not in lost and not any(_within(c.span, s) for s in lost)),
    )


def ordered(result: DenoiseResult, order: Order) -> DenoiseResult:
    """By score, best first, when asked and known; passages without one come last, in the order they came."""
    if order == "input" or len(result.passages) < 2:
        return result
    scored = sorted(result.passages, key=lambda p: (p.score is None, -(p.score or 0.0)))
    return replace(result, passages=tuple(scored))


def _filled(result: DenoiseResult, given: Sequence[Passage], n: int) -> DenoiseResult:
    present = {s.passage_id for p in result.passages for s in p.covered}
    chosen: dict[str, Drop] = {}
    for drop in result.dropped:
        i = drop.span.passage_id
        if drop.score is None or i in present:
            continue
        if i not in chosen or drop.score > (chosen[i].score or 0.0):
            chosen[i] = drop
    back = sorted(chosen.values(), key=lambda d: -(d.score or 0.0))[: n - len(result.passages)]
    if not back:
        return result
    source = {p.id: p for p in given}
    again = {d.span.passage_id: extract(source[d.span.passage_id], [d.span]) for d in back}
    scores = {d.span.passage_id: d.score for d in back}
    kept = {p.id: p for p in result.passages}
    for i, passage in again.items():
        if passage is not None:
            kept[i] = replace(passage, score=scores[i])
    place = {p.id: at for at, p in enumerate(given)}
    return replace(
        result,
        passages=tuple(sorted(kept.values(), key=lambda p: place.get(p.id, -1))),
        dropped=tuple(d for d in result.dropped if d not in back),
        kept=(*result.kept, *(Keep(d.span, d.score) for d in back if d.score is not None)),
    )


def _within(inner: Span, outer: Span) -> bool:
    return inner.passage_id == outer.passage_id and outer.start <= inner.start and inner.end <= outer.end
