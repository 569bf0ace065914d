"""From start and end logits to spans of text: which are allowed, and which are best."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from denoise_core.embedded.reader.windows import NOWHERE, Tokens, Window

Floats = NDArray[np.float32]
LONGEST = 20  # word pieces of an answer


class Scored(NamedTuple):
    """A span: its log-probability among all spans of the windows read together, the window's number, and the
    first and last piece in that window's own count."""

    score: float
    window: int
    first: int
    last: int


@dataclass(frozen=True, slots=True)
class Logits:
    """What the network says about one window: start and end of an answer for each of its pieces, float32
    ``(pieces,)``, and whether it holds one (a logit)."""

    start: Floats
    end: Floats
    holds: float


def edges(window: Window, tokens: Tokens) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
    """Where a span may start and where it may end: at the edges of words, on text that the passage holds."""
    count = len(window.ids)
    inner = np.array([i in tokens.continues for i in window.ids], dtype=np.bool_)
    missing = np.array([p == NOWHERE for p in window.places], dtype=np.bool_)
    start = ~inner & ~missing
    end = ~missing
    end[: count - 1] &= ~inner[1:] | (np.arange(count - 1) == window.head - 1)
    return start, end


def total(logits: Sequence[Logits]) -> float:
    """Log of the sum over all pairs of start and end, what scores are taken against."""
    return _log_sum([x.start for x in logits]) + _log_sum([x.end for x in logits])


def log_share(one: float, against: float) -> float:
    """Log-probability of one span among those of ``against``; 0 where it is alone, which rounding would exceed."""
    return min(one - against, 0.0)


def best(
    windows: Sequence[Window], logits: Sequence[Logits], tokens: Tokens, k: int, within: float | None = None
) -> list[Scored]:
    """The ``k`` best spans of each window, best first; scores against ``within`` (`total` of these windows)."""
    if not windows:
        return []
    against = total(logits) if within is None else within
    out: list[Scored] = []
    for number, (window, given) in enumerate(zip(windows, logits, strict=True)):
        may_start, may_end = edges(window, tokens)
        table = np.where(may_start, given.start, -np.inf)[:, None] + np.where(may_end, given.end, -np.inf)[None, :]
        table[_impossible(len(window.ids), window.head)] = -np.inf
        flat = table.ravel()
        count = min(k, flat.size)
        top = np.argpartition(flat, -count)[-count:]
        for i in top[np.isfinite(flat[top])]:
            score = log_share(float(flat[i]), against)
            out.append(Scored(score, number, *map(int, divmod(int(i), len(window.ids)))))
    return sorted(out, reverse=True)


@lru_cache(maxsize=512)
def _impossible(count: int, head: int) -> NDArray[np.bool_]:
    """Which pairs of first and last piece are no span: backwards, too long, or from the head into the body."""
    first, last = np.indices((count, count))
    return np.asarray((last < first) | (last >= first + LONGEST) | ((first < head) & (last >= head)))


def characters(window: Window, first: int, last: int) -> tuple[int, int]:
    """The characters ``[start, end)`` of the passage that the pieces from ``first`` to ``last`` stand for."""
    return window.places[first][0], window.places[last][1]


def _log_sum(parts: Sequence[Floats]) -> float:
    joined = np.concatenate(parts)
    top = float(joined.max())
    return top + float(np.log(np.exp(joined - top).sum()))
