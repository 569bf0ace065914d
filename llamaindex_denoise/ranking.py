"""How many nodes come back, and in which order: decided on a core result, whatever denoised it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Literal, TypeAlias

from denoise_core import DenoiseResult, Drop, Passage

Order: TypeAlias = Literal["given", "score"]


def top(result: DenoiseResult, given: Sequence[Passage], top_n: int | None, order: Order) -> DenoiseResult:
    """The result in the order asked for, and no longer than asked for; without scores of the method's own the
    retriever's order."""
    if top_n is None and order == "given":
        return result
    came = {p.id: p.score for p in given}
    highest: dict[str, float] = {}
    for k in result.kept:
        highest[k.span.passage_id] = max(k.score, highest.get(k.span.passage_id, k.score))
    own = [highest.get(p.id, p.score if p.score != came.get(p.id) else None) for p in result.passages]
    scored = not any(s is None for s in own)
    ranked = sorted(range(len(own)), key=lambda i: -(own[i] or 0.0)) if scored else list(range(len(own)))
    taken = ranked[:top_n]
    left = [result.passages[i] for i in ranked[len(taken) :]]
    if order == "given":
        taken.sort()
    dropped = tuple(Drop(s, f"beyond top_n={top_n}") for p in left for s in p.covered)
    gone = {p.id for p in left}
    return replace(
        result,
        passages=tuple(result.passages[i] for i in taken),
        dropped=(*result.dropped, *dropped),
        kept=tuple(k for k in result.kept if k.span.passage_id not in gone),
    )
