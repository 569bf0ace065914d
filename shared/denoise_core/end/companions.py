"""Kept chunks with what they need to be understood; what is left of the others is dropped."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from denoise_core.types import Passage, Span

Brings = Callable[[Passage, Span], Sequence[Span]]


def with_companions(
    passages: Sequence[Passage], spans: Sequence[Span], kept: NDArray[np.bool_], brings: Brings
) -> tuple[list[Span], list[tuple[int, list[Span]]]]:
    """The ranges that stay, and for each dropped chunk its number and the ranges of it that go.

    ``brings`` names ranges of the passage that come with a kept chunk. Together the ranges tile what ``spans``
    tile. A chunk of no characters goes, or stays, as it is.
    """
    stays = [spans[i] for i in np.flatnonzero(kept).tolist()]
    extra: dict[str, list[Span]] = {}
    by_id = {p.id: p for p in passages}
    for span in list(stays):
        for more in brings(by_id[span.passage_id], span):
            extra.setdefault(span.passage_id, []).append(more)
    goes: list[tuple[int, list[Span]]] = []
    for i, span in enumerate(spans):
        if not kept[i]:
            inside = [_within(more, span) for more in extra.get(span.passage_id, ())]
            taken = sorted({s for s in inside if len(s) > 0}, key=lambda s: (s.start, s.end))
            stays += taken
            left = _without(span, taken)
            if left:
                goes.append((i, left))
    return stays, goes


def _within(inner: Span, outer: Span) -> Span:
    start, end = max(inner.start, outer.start), min(inner.end, outer.end)
    return Span(outer.passage_id, start, max(start, end))


def _without(span: Span, taken: Sequence[Span]) -> list[Span]:
    if not taken:
        return [span]
    left, at = [], span.start
    for cut in taken:
        if cut.start > at:
            left.append(Span(span.passage_id, at, cut.start))
        at = max(at, cut.end)
    if at < span.end:
        left.append(Span(span.passage_id, at, span.end))
    return left
