"""Sets of half-open ranges ``[start, end)`` of characters: merging, clipping, complement, difference, tiling.

A list of ranges is *apart* where it is in order and no two of it overlap or touch, as `merge_spans` gives it.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import TypeAlias

from denoise_core.types import Span

Range: TypeAlias = tuple[int, int]


def merge_spans(ranges: Iterable[Range]) -> list[Range]:
    """The ranges in order, those that touch or overlap as one; an empty one stays where it touches no other.

    >>> merge_spans([(4, 6), (0, 2), (1, 3), (6, 7)])
    [(0, 3), (4, 7)]
    """
    merged: list[Range] = []
    for start, end in sorted(ranges):
        if merged and start <= merged[-1][1]:
            merged[-1] = merged[-1][0], max(end, merged[-1][1])
        else:
            merged.append((start, end))
    return merged


def clip_spans(ranges: Sequence[Range], start: int, end: int) -> list[Range]:
    """What the ranges, which are apart, cover of ``[start, end)``.

    >>> clip_spans([(0, 3), (4, 7), (8, 9)], 2, 5)
    [(2, 3), (4, 5)]
    """
    if start >= end:
        return []
    first = bisect_right(ranges, start, key=lambda r: r[1])
    after = bisect_left(ranges, end, key=lambda r: r[0])
    return [(max(a, start), min(b, end)) for a, b in ranges[first:after] if a < b]


def complement_spans(ranges: Sequence[Range], start: int, end: int) -> list[Range]:
    """What of ``[start, end)`` the ranges, which are apart, do not cover.

    >>> complement_spans([(0, 3), (4, 7)], 2, 9)
    [(3, 4), (7, 9)]
    """
    edges = [
        start,
        *(edge for pair in clip_spans(ranges, start, end) for edge in pair),
        end,
    ]
    return [(a, b) for a, b in zip(edges[::2], edges[1::2], strict=True) if a < b]


def tile_spans(cuts: Iterable[int], start: int, end: int) -> list[Range]:
    """The ranges between the cuts inside ``[start, end)``, which they tile.

    >>> tile_spans([4, 2, 9], 0, 6)
    [(0, 2), (2, 4), (4, 6)]
    """
    return list(
        pairwise(sorted({start, end, *(cut for cut in cuts if start < cut < end)}))
    )


def join_spans(text: str, ranges: Iterable[Range]) -> str:
    """The characters of the text in these ranges, one range behind the other."""
    return "".join(text[start:end] for start, end in ranges)


def merge_in_passage(passage_id: str, spans: Iterable[Span]) -> tuple[Span, ...]:
    """`merge_spans` of one passage's spans."""
    return tuple(
        Span(passage_id, start, end)
        for start, end in merge_spans((s.start, s.end) for s in spans)
    )


def tile_passage(passage_id: str, length: int, cuts: Iterable[int]) -> tuple[Span, ...]:
    """`tile_spans` of a passage of ``length`` characters."""
    return tuple(
        Span(passage_id, start, end) for start, end in tile_spans(cuts, 0, length)
    )


def is_within(inner: Span, outer: Span) -> bool:
    """Whether one span lies in another, of the same passage."""
    return (
        inner.passage_id == outer.passage_id
        and outer.start <= inner.start
        and inner.end <= outer.end
    )
