"""Sets of half-open character ranges ``[start, end)``.

Ranges are *merged* if they are in order and no two of them overlap or touch, as
`merge_spans` returns them. Functions that need merged ranges say so.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import TypeAlias

from denoise_core.types import Span

Range: TypeAlias = tuple[int, int]
Ranges: TypeAlias = list[Range]
RangeTuple: TypeAlias = tuple[Range, ...]


def merge_spans(ranges: Iterable[Range]) -> Ranges:
    """Sort ranges and join those that touch or overlap.

    An empty range stays if it touches no other.

    >>> merge_spans([(4, 6), (0, 2), (1, 3), (6, 7)])
    [(0, 3), (4, 7)]
    """
    merged: Ranges = []
    for start, end in sorted(ranges):
        if not merged:
            merged.append((start, end))
            continue
        last_start, last_end = merged[-1]
        if start <= last_end:
            merged[-1] = last_start, max(end, last_end)
        else:
            merged.append((start, end))
    return merged


def clip_spans(ranges: Sequence[Range], start: int, end: int) -> Ranges:
    """Return the parts of merged ranges that are inside ``[start, end)``.

    >>> clip_spans([(0, 3), (4, 7), (8, 9)], 2, 5)
    [(2, 3), (4, 5)]
    """
    if start >= end:
        return []
    first = bisect_right(ranges, start, key=lambda span: span[1])
    after = bisect_left(ranges, end, key=lambda span: span[0])
    clipped_ranges = []
    for span_start, span_end in ranges[first:after]:
        if span_start < span_end:
            clipped_start = max(span_start, start)
            clipped_end = min(span_end, end)
            clipped_ranges.append((clipped_start, clipped_end))
    return clipped_ranges


def complement_spans(ranges: Sequence[Range], start: int, end: int) -> Ranges:
    """Return the parts of ``[start, end)`` outside the merged ranges.

    >>> complement_spans([(0, 3), (4, 7)], 2, 9)
    [(3, 4), (7, 9)]
    """
    gaps = []
    gap_start = start
    for span_start, span_end in clip_spans(ranges, start, end):
        if gap_start < span_start:
            gaps.append((gap_start, span_start))
        gap_start = span_end
    if gap_start < end:
        gaps.append((gap_start, end))
    return gaps


def tile_spans(boundaries: Iterable[int], start: int, end: int) -> Ranges:
    """Cut ``[start, end)`` at the boundaries inside it.

    >>> tile_spans([4, 2, 9], 0, 6)
    [(0, 2), (2, 4), (4, 6)]
    """
    inner_boundaries = [cut for cut in boundaries if start < cut < end]
    all_boundaries = sorted({start, *inner_boundaries, end})
    return list(pairwise(all_boundaries))


def join_spans(text: str, ranges: Iterable[Range]) -> str:
    """Return the characters of the ranges, in the order of the ranges."""
    return "".join(text[start:end] for start, end in ranges)


def passage_spans(passage_id: str, ranges: Iterable[Range]) -> tuple[Span, ...]:
    """Return ranges as spans of a passage."""
    return tuple(Span(passage_id, *span) for span in ranges)
