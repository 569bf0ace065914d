"""A budget of tokens trims, and never skips: down by score, and what does not fit is cut at its own sentences.

A piece that does not fit leaves a hole. Its best sentences or lines fill it, read by the same scorer; what is left
is for the next pieces only as far as they lie within the margin of ``keep="auto"``, so that no rubbish takes the
place of what was too long. Headings and header rows that come with a piece are paid for. Where a piece would not
fit they give way to it, the outermost first, those of the worst piece first, and the note says so.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import takewhile

import numpy as np

from denoise_core.end.selection import Floats, Tokens, ranking
from denoise_core.types import Passage, Span

Brings = Callable[[Passage, Span], Sequence[Span]]
CUT_AT_MOST = 12  # pieces that are cut for one budget


@dataclass(slots=True)
class Purse:
    """What a budget has paid for while pieces are taken, best first."""

    rule: Tokens
    passages: Mapping[str, Passage]
    brings: Brings
    spent: int = 0
    above: list[list[Span]] = field(default_factory=list)  # of each range taken, outermost first
    wanted: set[Span] = field(default_factory=set)
    _counted: dict[Span, int] = field(default_factory=dict)

    @property
    def away(self) -> frozenset[Span]:
        """What the ranges that were taken would bring along, and cannot pay for."""
        return frozenset(self.wanted - {span for own in self.above for span in own})

    def take(self, span: Span) -> bool:
        """Pay for a range with what it brings along, as much of that as fits; False where it does not fit."""
        found = self.brings(self.passages[span.passage_id], span)
        above = [*map(list, self.above), list(dict.fromkeys(found))]
        own, at = self.alone(span), len(above) - 1
        while self.spent + own + sum(map(self.alone, {s for one in above for s in one})) > self.rule.limit:
            while at >= 0 and not above[at]:
                at -= 1
            if at < 0 or not self.rule.gives_way:
                return False
            del above[at][0]
        self.spent += own
        self.above = above
        self.wanted.update(found)
        return True

    def alone(self, span: Span) -> int:
        """Tokens of a range without what it brings along."""
        if span not in self._counted:
            self._counted[span] = self.rule.count(self.passages[span.passage_id].text[span.start : span.end])
        return self._counted[span]


def too_long(purse: Purse, spans: Sequence[Span], scores: Floats, edge: float) -> list[int]:
    """Pieces that may have to be cut: from the first that does not fit on, as far as they lie above ``edge``."""
    out: list[int] = []
    for i in ranking(scores).tolist():
        if not np.isfinite(scores[i]) or (out and scores[i] < edge) or len(out) == CUT_AT_MOST:
            break
        if out or not purse.take(spans[i]):
            out.append(i)
    return out


def spend(
    purse: Purse,
    spans: Sequence[Span],
    scores: Floats,
    edge: float,
    smaller: Mapping[int, Sequence[tuple[Span, float]]],
    max_keep: int | None = None,
) -> tuple[list[int], dict[int, tuple[Span, ...]], list[int]]:
    """Which pieces a budget pays for: those kept whole, the ranges kept of pieces that were cut, and those of
    which nothing fits. ``smaller`` has the scored parts of the pieces of `too_long`; once one did not fit, others
    are taken only above ``edge``."""
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
        taken = list(takewhile(purse.take, (span for span, _ in own)))
        if taken:
            parts[i] = tuple(sorted(taken, key=lambda s: s.start))
        else:
            unfit.append(i)
    return kept, parts, unfit
