"""A budget of tokens trims, and never skips: down by score, and what does not fit is cut at its own sentences.

A piece that does not fit leaves a hole. Its best sentences or lines fill it, read by the same scorer; what is left
is for the next pieces only as far as they lie within the margin of ``keep="auto"``, so that no rubbish takes the
place of what was too long. Headings and header rows that come with a piece are paid for.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from denoise_core.end.selection import Floats, Tokens, ranking
from denoise_core.types import Passage, Span

Brings = Callable[[Passage, Span], Sequence[Span]]
CUT_AT_MOST = 12  # pieces that are cut for one budget


@dataclass(slots=True)
class Purse:
    """What is left of a budget while pieces are taken, best first."""

    rule: Tokens
    passages: Mapping[str, Passage]
    brings: Brings | None
    left: int = 0
    paid: set[Span] = field(default_factory=set)

    def __post_init__(self) -> None:
        self.left = self.rule.limit

    def cost(self, span: Span) -> int:
        """Tokens of a range with what it brings along that is not yet there."""
        return self.alone(span) + sum(map(self.alone, self._new(span)))

    def take(self, span: Span) -> bool:
        """Pay for a range; False where it does not fit."""
        cost = self.cost(span)
        if cost > self.left:
            return False
        self.left -= cost
        self.paid.update(self._new(span))
        return True

    def _new(self, span: Span) -> list[Span]:
        found = self.brings(self.passages[span.passage_id], span) if self.brings else ()
        return [s for s in dict.fromkeys(found) if s not in self.paid]

    def alone(self, span: Span) -> int:
        """Tokens of a range without what it brings along."""
        return self.rule.count(self.passages[span.passage_id].text[span.start : span.end])


def too_long(purse: Purse, spans: Sequence[Span], scores: Floats, edge: float) -> list[int]:
    """Pieces that may have to be cut: from the first that does not fit on, as far as they lie above ``edge``."""
    out: list[int] = []
    for i in ranking(scores).tolist():
        if not np.isfinite(scores[i]) or (out and scores[i] < edge) or len(out) == CUT_AT_MOST:
            break
        if out or not purse.take(spans[i]):
            out.append(i)
    return out


@dataclass(frozen=True, slots=True)
class Spent:
    """``kept`` are pieces kept whole, ``parts`` the ranges kept of pieces that were cut, ``unfit`` those of which
    nothing fits."""

    kept: tuple[int, ...]
    parts: Mapping[int, tuple[Span, ...]]
    unfit: tuple[int, ...]


def spend(
    purse: Purse,
    spans: Sequence[Span],
    scores: Floats,
    edge: float,
    smaller: Mapping[int, Sequence[tuple[Span, float]]],
    max_keep: int | None = None,
) -> Spent:
    """Which pieces a budget pays for. ``smaller`` has the scored parts of the pieces of `too_long`; once one did
    not fit, others are taken only above ``edge``."""
    kept: list[int] = []
    parts: dict[int, tuple[Span, ...]] = {}
    unfit: list[int] = []
    for i in ranking(scores).tolist():
        hole = bool(parts or unfit)
        if not np.isfinite(scores[i]) or (hole and scores[i] < edge):
            break
        if max_keep is not None and len(kept) + len(parts) >= max_keep:
            break
        if purse.take(spans[i]):
            kept.append(i)
            continue
        own = sorted(smaller.get(i, ()), key=lambda part: -part[1])
        taken: list[Span] = []
        for span, _ in own:
            if not purse.take(span):
                break
            taken.append(span)
        if taken:
            parts[i] = tuple(sorted(taken, key=lambda s: s.start))
        else:
            unfit.append(i)
    return Spent(tuple(kept), parts, tuple(unfit))
