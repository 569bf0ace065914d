"""A budget of tokens trims, and never skips: down by score, and what does not fit is cut at its own sentences.

A piece that does not fit leaves a hole. Its best sentences or lines fill it, read by the same scorer; what is left
is for the next pieces only as far as they lie within the margin of ``keep="auto"``, so that no rubbish takes the
place of what was too long. Headings and header rows that come with a piece are paid for. Where a piece would not
fit they give way to it, the outermost first, those of the worst piece first, and the note says so.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import takewhile
from typing import TypeAlias

import numpy as np

from denoise_core.end.selection import (
    Floats,
    Selection,
    TokenLimit,
    rank_by_score,
    split_span,
)
from denoise_core.protocols import ScoredTexts
from denoise_core.text.structural import chunk_text, context_spans_of
from denoise_core.text.text_chunk import TextChunk
from denoise_core.text.token_budget import TokenBudget
from denoise_core.types import Passage, Span, replace_surrogates

CUT_AT_MOST = 12  # pieces that are cut for one budget

ScoredPart: TypeAlias = tuple[Span, float]
Trimmed: TypeAlias = Generator[
    list[str], tuple[ScoredTexts, float], tuple[Selection, float]
]


@dataclass(frozen=True, slots=True)
class Trimming:
    """Scored chunks and what may be spent on them. ``structured``: pieces bring headings and header rows along.

    ``edge`` is the score down to which pieces may fill what one that did not fit left; its second argument is the
    edge where the scorer's margin is not known.
    """

    rule: TokenLimit
    passages: Mapping[str, Passage]
    spans: Sequence[Span]
    scores: Floats
    edge: Callable[[Floats, float], float]
    structured: bool
    min_keep: int
    max_keep: int | None

    def steps(self) -> Trimmed:
        """Yields the texts of parts that may be kept, takes their scores and the seconds of scoring them, and
        returns the selection with these seconds."""
        parts: list[tuple[int, Span]] = []
        texts: list[str] = []
        for i in self._too_long():
            for span, text in self._parts_of(self.spans[i]):
                parts.append((i, span))
                texts.append(text)
        scored, seconds = yield texts
        scored_parts: dict[int, list[ScoredPart]] = {}
        for (i, span), score in zip(parts, scored.scores.tolist(), strict=True):
            scored_parts.setdefault(i, []).append((span, score))
        return self._selection(scored_parts), seconds

    def _too_long(self) -> list[int]:
        """Pieces that may have to be cut: from the first that does not fit on, as far as the edge."""
        payments = self._payments()
        edge = self.edge(self.scores, np.inf)
        too_long: list[int] = []
        for i in rank_by_score(self.scores).tolist():
            below_edge = bool(too_long) and self.scores[i] < edge
            if (
                not np.isfinite(self.scores[i])
                or below_edge
                or len(too_long) == CUT_AT_MOST
            ):
                break
            if too_long or not payments.take(self.spans[i]):
                too_long.append(i)
        return too_long

    def _parts_of(self, span: Span) -> Iterator[tuple[Span, str]]:
        """The sentences or lines of a piece, and how the scorer reads each."""
        passage = self.passages[span.passage_id]
        whole = chunk_text(passage.text)
        piece, heading = TextChunk(span.start, span.end), ""
        if self.structured:
            piece = whole.chunks[whole.chunk_index(span.start)]
            heading = whole.chunk_context_and_text(piece)[0]
        for start, end in whole.split_chunk(piece):
            if passage.text[start:end].strip():
                above = (passage.header, heading, whole.readable_text(start, end))
                yield (
                    Span(span.passage_id, start, end),
                    replace_surrogates("\n".join(filter(None, above))),
                )

    def _selection(self, scored_parts: dict[int, list[ScoredPart]]) -> Selection:
        """What the budget keeps: pieces that are cut are listed as their parts from here on."""
        payments = self._payments()
        whole, kept_parts, unfit = self._spend(payments, scored_parts)
        for i in rank_by_score(self.scores).tolist():
            if len(whole) + len(kept_parts) >= self.min_keep:
                break
            whole.add(i)
        owners: list[int] = []
        spans: list[Span] = []
        kept: list[bool] = []
        for i, span in enumerate(self.spans):
            own_parts = kept_parts.get(i, ())
            for part in split_span(span, own_parts):
                owners.append(i)
                spans.append(part)
                kept.append(i in whole or part in own_parts)
        too_long = [
            i for i in unfit if payments.tokens_of(self.spans[i]) > self.rule.limit
        ]
        return Selection(
            spans,
            self.scores[owners],
            np.array(kept, dtype=np.bool_),
            [self.rule.reason()] * len(spans),
            self._notes(too_long, whole, payments.evicted_headers),
            payments.evicted_headers,
        )

    def _spend(
        self, payments: _Payments, scored_parts: Mapping[int, Sequence[ScoredPart]]
    ) -> tuple[set[int], dict[int, tuple[Span, ...]], list[int]]:
        """The pieces kept whole, the ranges kept of pieces that were cut, and the pieces of which nothing fits."""
        edge = self.edge(self.scores, np.inf)
        whole: set[int] = set()
        kept_parts: dict[int, tuple[Span, ...]] = {}
        unfit: list[int] = []
        for i in rank_by_score(self.scores).tolist():
            has_hole = bool(kept_parts or unfit)
            if not np.isfinite(self.scores[i]) or (has_hole and self.scores[i] < edge):
                break
            if (
                self.max_keep is not None
                and len(whole) + len(kept_parts) >= self.max_keep
            ):
                break
            if payments.take(self.spans[i]):
                whole.add(i)
                continue
            fitting = takewhile(
                payments.take, self._best_first(scored_parts.get(i, ()))
            )
            kept_spans = sorted(fitting, key=lambda span: span.start)
            if kept_spans:
                kept_parts[i] = tuple(kept_spans)
            else:
                unfit.append(i)
        return whole, kept_parts, unfit

    def _payments(self) -> _Payments:
        return _Payments(self, TokenBudget(self.rule.limit, self.rule.count))

    def _best_first(self, parts: Sequence[ScoredPart]) -> list[Span]:
        """The parts of one piece by score; nothing below the margin fills the room."""
        low = self.edge(
            np.array([score for _, score in parts], dtype=np.float32), -np.inf
        )
        fitting = [part for part in parts if part[1] >= low]
        return [span for span, _ in sorted(fitting, key=lambda part: -part[1])]

    def _notes(
        self, too_long: Sequence[int], whole: set[int], evicted: frozenset[Span]
    ) -> tuple[str, ...]:
        notes = []
        if too_long:
            named = ", ".join(
                f"{s.passage_id} [{s.start}:{s.end}]"
                for s in (self.spans[i] for i in too_long[:3])
            )
            fate = "left out" if whole.isdisjoint(too_long) else "kept over the budget"
            notes.append(
                f"{len(too_long)} too long for {self.rule.limit} tokens and not to be cut, {fate}: {named}"
            )
        if evicted:
            notes.append(f"{len(evicted)} headings or header rows gave way to pieces")
        return tuple(notes)


@dataclass(slots=True)
class _Payments:
    """What a budget has paid for while pieces are taken, best first."""

    trimming: Trimming
    budget: (
        TokenBudget  # of which pieces are paid; what their headings cost must stay left
    )
    headers: list[list[Span]] = field(
        default_factory=list
    )  # of each piece taken, outermost first
    wanted_headers: set[Span] = field(default_factory=set)
    _tokens: dict[Span, int] = field(default_factory=dict)

    @property
    def evicted_headers(self) -> frozenset[Span]:
        """What the pieces that were taken would bring along, and cannot pay for."""
        paid = {span for own in self.headers for span in own}
        return frozenset(self.wanted_headers - paid)

    def take(self, span: Span) -> bool:
        """Pay for a range with what it brings along, as much of that as fits; False where it does not fit."""
        trimming = self.trimming
        own_headers = (
            context_spans_of(trimming.passages[span.passage_id], span)
            if trimming.structured
            else ()
        )
        headers = [*map(list, self.headers), list(dict.fromkeys(own_headers))]
        tokens, last = self.tokens_of(span), len(headers) - 1
        while tokens + self._tokens_of_all(headers) > self.budget.remaining_tokens:
            while last >= 0 and not headers[last]:
                last -= 1
            if last < 0 or not trimming.rule.drop_headers_first:
                return False
            del headers[last][0]
        self.budget.try_spend(tokens)
        self.headers = headers
        self.wanted_headers.update(own_headers)
        return True

    def tokens_of(self, span: Span) -> int:
        """Tokens of a range without what it brings along."""
        if span not in self._tokens:
            text = self.trimming.passages[span.passage_id].text[span.start : span.end]
            self._tokens[span] = self.budget.count_tokens(text)
        return self._tokens[span]

    def _tokens_of_all(self, headers: Sequence[Sequence[Span]]) -> int:
        distinct = {span for own in headers for span in own}
        return sum(map(self.tokens_of, distinct))
