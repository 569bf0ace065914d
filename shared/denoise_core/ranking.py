"""How many passages of a result are handed on, and in which order: decided after denoising, whatever denoised."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from denoise_core.result import DenoiseResult
from denoise_core.runtime.guard import Guard
from denoise_core.text.chunk import extract_spans
from denoise_core.types import Drop, Keep, Passage


def may_fill(denoiser: Any) -> bool:
    """Whether dropped passages may come back to make a number full: not when a threshold decided it."""
    while isinstance(denoiser, Guard):
        denoiser = denoiser.denoiser
    rule = getattr(denoiser, "rule", None)
    return rule is not None and not hasattr(rule, "threshold")


def keep_top(
    result: DenoiseResult,
    passages: Sequence[Passage],
    top_n: int,
    *,
    fill: bool = False,
) -> DenoiseResult:
    """The ``top_n`` best passages of a result by score, the first ones where not all have a score.

    With ``fill`` a result of fewer is made full with the best-scored chunk of each dropped passage of
    ``passages``, the denoiser's input. Passages stay in their order.
    """
    if fill and len(result.passages) < top_n and result.fallback is None:
        result = _filled(result, passages, top_n)
    if len(result.passages) <= top_n:
        return result
    scores = [p.score for p in result.passages]
    ranked = list(range(len(scores)))
    if None not in scores:
        ranked.sort(
            key=lambda i: -(scores[i] or 0.0)
        )  # stable: of equals the earlier one stays
    kept_places = set(ranked[:top_n])
    cut = [p for i, p in enumerate(result.passages) if i not in kept_places]
    cut_spans = [(span, p.score) for p in cut for span in p.source_spans]
    cut_ids = {span.passage_id for span, _ in cut_spans}
    drops = [
        Drop(span, f"not among the best {top_n}", score) for span, score in cut_spans
    ]
    return replace(
        result,
        passages=tuple(p for i, p in enumerate(result.passages) if i in kept_places),
        dropped=(*result.dropped, *drops),
        kept=tuple(k for k in result.kept if k.span.passage_id not in cut_ids),
    )


def order_by_score(result: DenoiseResult) -> DenoiseResult:
    """The result with its best passage first; passages without a score come last, in the order they came."""
    ranked = sorted(result.passages, key=lambda p: (p.score is None, -(p.score or 0.0)))
    return replace(result, passages=tuple(ranked))


def _filled(
    result: DenoiseResult, passages: Sequence[Passage], top_n: int
) -> DenoiseResult:
    present_ids = {span.passage_id for p in result.passages for span in p.source_spans}
    best_drops: dict[str, Drop] = {}
    for drop in sorted(result.dropped, key=lambda d: -(d.score or 0.0)):
        if drop.score is not None and drop.span.passage_id not in present_ids:
            best_drops.setdefault(drop.span.passage_id, drop)
    restored_drops = list(best_drops.values())[: top_n - len(result.passages)]
    by_id = {p.id: p for p in passages}
    place = {p.id: at for at, p in enumerate(passages)}
    restored: list[Passage] = []
    for drop in restored_drops:
        passage = extract_spans(by_id[drop.span.passage_id], [drop.span])
        if passage is not None:
            restored.append(replace(passage, score=drop.score))
    kept = [Keep(d.span, d.score) for d in restored_drops if d.score is not None]
    return replace(
        result,
        passages=tuple(
            sorted((*result.passages, *restored), key=lambda p: place.get(p.id, -1))
        ),
        dropped=tuple(d for d in result.dropped if d not in restored_drops),
        kept=(*result.kept, *kept),
    )
