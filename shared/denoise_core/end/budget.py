"""Fit scored chunks into a token budget.

Chunks are taken down by score. If one does not fit, its best sentences or lines are
kept instead, scored by the same scorer. Lower-ranked chunks may use the rest only if
their score is within the ``keep="auto"`` margin: irrelevant text never replaces what
was too long. Context spans (headings, header rows) count too. To fit a chunk they are
dropped, the outermost first, those of the worst chunk first; the note says so. The
header of a passage, such as a node's metadata, counts once: prompts show it.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import takewhile
from typing import TypeAlias

import numpy as np

from denoise_core.end.selection import (
    Floats,
    MarginRule,
    Selection,
    TokenLimit,
    rank_by_score,
    split_span,
)
from denoise_core.text.chunk import sentence_ranges
from denoise_core.text.documents import DocumentReader, PassageChunk
from denoise_core.text.token_budget import TokenBudget
from denoise_core.types import Passage, Span, replace_surrogates

MAX_SPLIT_CHUNKS = 12  # chunks that are split for one budget

ScoredPart: TypeAlias = tuple[Span, float]
TrimSteps: TypeAlias = Generator[
    list[str], tuple[Floats, float], tuple[Selection, float]
]


@dataclass(frozen=True, slots=True)
class BudgetTrimmer:
    """Scored chunks and the budget to fit them into.

    Attributes:
        rule: The budget.
        passages: By id.
        spans: The chunks.
        scores: float32, one per chunk; minus infinity for chunks without a score.
        margin_rule: Decides which chunks may use budget left by a chunk that was too
            long; None if the scorer has no margin.
        reader: Knows the headings that kept chunks come with; None if they have none.
        min_keep: Chunks to keep even over the budget.
        max_keep: Chunks to keep at most.
    """

    rule: TokenLimit
    passages: Mapping[str, Passage]
    spans: Sequence[Span]
    scores: Floats
    margin_rule: MarginRule | None
    reader: DocumentReader | None
    min_keep: int
    max_keep: int | None

    def trim_steps(self) -> TrimSteps:
        """Yields the texts of parts that may be kept and receives their scores.

        Returns the selection and the seconds that scoring the parts took.
        """
        part_chunks = []
        part_texts = []
        for i in self._chunks_to_split():
            chunk_span = self.spans[i]
            for part_span, part_text in self._parts_of(chunk_span):
                part_chunks.append((i, part_span))
                part_texts.append(part_text)
        part_scores, seconds = yield part_texts
        scored_parts: dict[int, list[ScoredPart]] = {}
        for (i, part_span), score in zip(
            part_chunks, part_scores.tolist(), strict=True
        ):
            chunk_parts = scored_parts.setdefault(i, [])
            chunk_parts.append((part_span, score))
        return self._select(scored_parts), seconds

    def _fill_threshold(self, chunk_scores: Floats, default: float) -> float:
        if self.margin_rule is None:
            return default
        return self.margin_rule.keep_threshold(chunk_scores)

    def _chunks_to_split(self) -> list[int]:
        """The first chunk that does not fit, and the next ones within the margin."""
        spending = self._new_spending()
        fill_threshold = self._fill_threshold(self.scores, np.inf)
        split_chunks: list[int] = []
        for i in rank_by_score(self.scores).tolist():
            score = self.scores[i]
            if not np.isfinite(score):
                break
            below_margin = bool(split_chunks) and score < fill_threshold
            is_full = len(split_chunks) == MAX_SPLIT_CHUNKS
            if below_margin or is_full:
                break
            if split_chunks or not spending.try_add(self.spans[i]):
                split_chunks.append(i)
        return split_chunks

    def _parts_of(self, chunk_span: Span) -> Iterator[tuple[Span, str]]:
        """The sentences or lines of a chunk, each with its scored form."""
        passage = self.passages[chunk_span.passage_id]
        for part in self._split(chunk_span):
            if part.text.strip():
                all_lines = (passage.header, part.context_text, part.text)
                text_lines = filter(None, all_lines)
                joined_lines = "\n".join(text_lines)
                scored_form = replace_surrogates(joined_lines)
                yield part.span, scored_form

    def _split(self, chunk_span: Span) -> Iterator[PassageChunk]:
        if self.reader is not None:
            yield from self.reader.parts_of(chunk_span)
            return
        text = self.passages[chunk_span.passage_id].text
        for start, end in sentence_ranges(text, chunk_span.start, chunk_span.end):
            yield PassageChunk(
                span=Span(chunk_span.passage_id, start, end),
                context_text="",
                text=text[start:end],
            )

    def _select(self, scored_parts: Mapping[int, Sequence[ScoredPart]]) -> Selection:
        """What the budget keeps; a chunk that was split becomes one row per part."""
        spending = self._new_spending()
        whole_chunks, kept_parts, unfit = self._fill_budget(spending, scored_parts)
        for i in rank_by_score(self.scores).tolist():
            kept_count = len(whole_chunks) + len(kept_parts)
            if kept_count >= self.min_keep:
                break
            whole_chunks.add(i)
        chunk_of_row = []
        row_spans = []
        row_kept = []
        for i, chunk_span in enumerate(self.spans):
            chunk_parts = kept_parts.get(i, ())
            for part_span in split_span(chunk_span, chunk_parts):
                chunk_of_row.append(i)
                row_spans.append(part_span)
                is_kept = i in whole_chunks or part_span in chunk_parts
                row_kept.append(is_kept)
        token_limit = self.rule.limit
        too_long = []
        for i in unfit:
            chunk_tokens = spending.count_tokens(self.spans[i])
            chunk_tokens += spending.count_header(self.spans[i].passage_id)
            if chunk_tokens > token_limit:
                too_long.append(i)
        return Selection(
            row_spans,
            self.scores[chunk_of_row],
            np.array(row_kept, dtype=np.bool_),
            [self.rule.reason()] * len(row_spans),
            self._notes(too_long, whole_chunks, spending.evicted_headers),
            spending.evicted_headers,
        )

    def _fill_budget(
        self, spending: _Spending, scored_parts: Mapping[int, Sequence[ScoredPart]]
    ) -> tuple[set[int], dict[int, list[Span]], list[int]]:
        """Chunks kept whole, kept parts of split chunks, chunks that do not fit."""
        fill_threshold = self._fill_threshold(self.scores, np.inf)
        whole_chunks: set[int] = set()
        kept_parts: dict[int, list[Span]] = {}
        unfit: list[int] = []
        for i in rank_by_score(self.scores).tolist():
            score = self.scores[i]
            if not np.isfinite(score):
                break
            has_gap = bool(kept_parts or unfit)
            below_margin = has_gap and score < fill_threshold
            kept_count = len(whole_chunks) + len(kept_parts)
            is_full = kept_count == self.max_keep
            if below_margin or is_full:
                break
            if spending.try_add(self.spans[i]):
                whole_chunks.add(i)
                continue
            chunk_parts = scored_parts.get(i, ())
            best_first = self._parts_within_margin(chunk_parts)
            fitting = list(takewhile(spending.try_add, best_first))
            if fitting:
                kept_parts[i] = sorted(fitting, key=lambda chunk_span: chunk_span.start)
            else:
                unfit.append(i)
        return whole_chunks, kept_parts, unfit

    def _new_spending(self) -> _Spending:
        budget = TokenBudget(self.rule.limit, self.rule.count)
        return _Spending(self, budget)

    def _parts_within_margin(self, scored_parts: Sequence[ScoredPart]) -> list[Span]:
        """The parts of one chunk within the margin, best first."""
        part_scores = np.array([score for _, score in scored_parts], dtype=np.float32)
        fill_threshold = self._fill_threshold(part_scores, -np.inf)
        part_order = rank_by_score(part_scores).tolist()
        best_first = []
        for i in part_order:
            span, score = scored_parts[i]
            if score >= fill_threshold:
                best_first.append(span)
        return best_first

    def _notes(
        self, too_long: Sequence[int], whole_chunks: set[int], evicted: frozenset[Span]
    ) -> tuple[str, ...]:
        budget_notes = []
        if too_long:
            chunk_names = []
            for i in too_long[:3]:
                chunk_span = self.spans[i]
                chunk_names.append(
                    f"{chunk_span.passage_id} [{chunk_span.start}:{chunk_span.end}]"
                )
            fate = "kept over the budget"
            if whole_chunks.isdisjoint(too_long):
                fate = "left out"
            budget_notes.append(
                f"{len(too_long)} too long for {self.rule.limit} tokens and not to be "
                f"cut, {fate}: {', '.join(chunk_names)}"
            )
        if evicted:
            budget_notes.append(
                f"{len(evicted)} headings or header rows gave way to chunks"
            )
        return tuple(budget_notes)


@dataclass(slots=True)
class _Spending:
    """What a budget has been spent on while chunks are added, best first.

    ``budget`` is charged for chunks alone; the tokens of their headers must fit into
    what remains, and so must the headers of passages. ``headers`` has those of each
    chunk added, outermost first; ``passage_ids`` are the chunks' passages.
    """

    trimmer: BudgetTrimmer
    budget: TokenBudget
    headers: list[list[Span]] = field(default_factory=list)
    all_headers: set[Span] = field(default_factory=set)
    passage_ids: set[str] = field(default_factory=set)
    _token_counts: dict[Span, int] = field(default_factory=dict)

    @property
    def evicted_headers(self) -> frozenset[Span]:
        """Context spans of added chunks that the budget has no room for."""
        return frozenset(self.all_headers.difference(*self.headers))

    def try_add(self, chunk_span: Span) -> bool:
        """Add a range with as much of its context as fits; False if it does not fit."""
        trimmer = self.trimmer
        own_headers: list[Span] = []
        if trimmer.reader is not None:
            context_spans = trimmer.reader.context_of(chunk_span)
            own_headers = list(dict.fromkeys(context_spans))
        kept_headers = [*map(list, self.headers), own_headers.copy()]
        last = len(kept_headers) - 1
        chunk_tokens = self.count_tokens(chunk_span)
        token_room = self.budget.remaining_tokens - chunk_tokens
        passage_ids = self.passage_ids | {chunk_span.passage_id}
        while self._context_tokens(kept_headers, passage_ids) > token_room:
            while last >= 0 and not kept_headers[last]:
                last -= 1
            if last < 0 or not trimmer.rule.drop_headers_first:
                return False
            del kept_headers[last][0]
        self.budget.try_spend(chunk_tokens)
        self.headers = kept_headers
        self.all_headers.update(own_headers)
        self.passage_ids = passage_ids
        return True

    def _context_tokens(
        self, kept_headers: Sequence[Sequence[Span]], passage_ids: set[str]
    ) -> int:
        """Tokens of context spans and of the headers of all passages kept from."""
        context_spans: set[Span] = set().union(*kept_headers)
        shown_ids = {span.passage_id for span in context_spans} | passage_ids
        header_tokens = sum(map(self.count_header, shown_ids))
        return header_tokens + sum(map(self.count_tokens, context_spans))

    def count_header(self, passage_id: str) -> int:
        """Tokens of a passage's header."""
        return self.budget.count_tokens(self.trimmer.passages[passage_id].header)

    def count_tokens(self, chunk_span: Span) -> int:
        """Tokens of a range without its context."""
        if chunk_span not in self._token_counts:
            passage = self.trimmer.passages[chunk_span.passage_id]
            raw_text = passage.text[chunk_span.start : chunk_span.end]
            token_count = self.budget.count_tokens(raw_text)
            self._token_counts[chunk_span] = token_count
        return self._token_counts[chunk_span]
