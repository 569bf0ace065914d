"""The numbers that a reply named, and how ranges of them come together."""

from __future__ import annotations

import itertools
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

from denoise_core.s2a.replies.statements import Range

Verb = Literal["keep", "drop"]


@dataclass(frozen=True, slots=True)
class Numbers:
    """Numbers that a reply named, each once and in order, all within ``1..count``.

    ``named`` is the same in the order of the reply. ``verb`` is what the reply itself said to do with them, None
    if it only listed them. ``repeated`` were named more than once, ``unknown`` lie outside; a range is cut to what
    exists.
    """

    chosen: tuple[int, ...]
    verb: Verb | None = None
    repeated: tuple[int, ...] = ()
    unknown: tuple[str, ...] = ()
    named: tuple[int, ...] = ()


def collect(ranges: Iterable[Range], count: int, verb: Verb | None) -> Numbers:
    steps = [0] * (count + 2)  # +1 where a range begins, -1 after it ends: their sums say how often each is named
    unknown: list[str] = []
    order: dict[int, None] = {}
    for a, b in ranges:
        low, high = min(a, b), max(a, b)
        if low < 1 or high > count:
            unknown.append(str(a) if a == b else f"{a}-{b}")
        low, high = max(low, 1), min(high, count)
        if low <= high:
            steps[low] += 1
            steps[high + 1] -= 1
            if len(order) < count:
                order.update(dict.fromkeys(range(low, high + 1) if a <= b else range(high, low - 1, -1)))
    times = list(itertools.accumulate(steps))
    chosen = tuple(n for n in range(1, count + 1) if times[n])
    repeated = tuple(n for n in chosen if times[n] > 1)
    return Numbers(chosen, verb, repeated, tuple(dict.fromkeys(unknown)), tuple(order))
