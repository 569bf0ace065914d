"""How many documents come back, and in which order: decided on a core result, whatever denoised it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Literal

from denoise_core import DenoiseResult, Drop, Guard, InputError, Keep, Passage
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
    if len(result.passages) <= n:
        return result
    scores = [p.score for p in result.passages]
    ranked = list(range(len(scores)))
    if None not in scores:
        ranked.sort(key=lambda i: -(scores[i] or 0.0))  # stable: of equals the earlier one stays
    stay = set(ranked[:n])
    cut = [p for i, p in enumerate(result.passages) if i not in stay]
    gone = {s.passage_id for p in cut for s in p.covered}
    return replace(
        result,
        passages=tuple(p for i, p in enumerate(result.passages) if i in stay),
        dropped=(*result.dropped, *(Drop(s, f"not among the best {n}", p.score) for p in cut for s in p.covered)),
        kept=tuple(k for k in result.kept if k.span.passage_id not in gone),
    )


def ordered(result: DenoiseResult, order: Order) -> DenoiseResult:
    """By score, best first, when asked and known; passages without one come last, in the order they came."""
    if order == "input" or len(result.passages) < 2:
        return result
    scored = sorted(result.passages, key=lambda p: (p.score is None, -(p.score or 0.0)))
    return replace(result, passages=tuple(scored))


def _filled(result: DenoiseResult, given: Sequence[Passage], n: int) -> DenoiseResult:
    present = {s.passage_id for p in result.passages for s in p.covered}
    best: dict[str, Drop] = {}
    for drop in sorted(result.dropped, key=lambda d: -(d.score or 0.0)):
        if drop.score is not None and drop.span.passage_id not in present:
            best.setdefault(drop.span.passage_id, drop)
    back = list(best.values())[: n - len(result.passages)]
    source, place = {p.id: p for p in given}, {p.id: at for at, p in enumerate(given)}
    found = [(extract(source[d.span.passage_id], [d.span]), d.score) for d in back]
    again = [replace(passage, score=score) for passage, score in found if passage is not None]
    return replace(
        result,
        passages=tuple(sorted((*result.passages, *again), key=lambda p: place.get(p.id, -1))),
        dropped=tuple(d for d in result.dropped if d not in back),
        kept=(*result.kept, *(Keep(d.span, d.score) for d in back if d.score is not None)),
    )
