"""Fit scored chunks into a token budget.

Chunks are taken down by score. If one does not fit, its best sentences or lines are
kept instead, scored by the same scorer. Lower-ranked chunks may use the rest only if
their score is within the ``keep="auto"`` margin: irrelevant text never replaces what
was too long. Context spans (headings, header rows) count too. To fit a chunk they are
dropped, the outermost first, those of the worst chunk first; the note says so. The
header of a passage, such as a node's metadata, counts once: prompts show it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from itertools import takewhile
from typing import TypeAlias

import numpy as np

from denoise_core.end.selection import (
    Floats,
    MarginRule,
    ScoredChunks,
    Selection,
    TokenLimit,
    rank_by_score,
    split_span,
)
from denoise_core.text.chunk import sentence_ranges
from denoise_core.text.documents import PassageChunk
from denoise_core.types import Span, join_header, replace_surrogates

MAX_SPLIT_CHUNKS = 12  # chunks that are split for one budget

ScoredPart: TypeAlias = tuple[Span, float]


class BudgetTrimmer:
    """Scored chunks and the budget to fit them into.

    Args:
        rule: The budget.
        chunks: The chunks.
        scores: float32, one per chunk; minus infinity for chunks without a score.
        margin_rule: Decides which chunks may use budget left by a chunk that was too
            long; None if the scorer has no margin.
        min_keep: Chunks to keep even over the budget.
        max_keep: Chunks to keep at most.
    """

    def __init__(
        self,
        rule: TokenLimit,
        chunks: ScoredChunks,
        scores: Floats,
        margin_rule: MarginRule | None,
        min_keep: int,
        max_keep: int | None,
    ) -> None:
        self.rule = rule
        self.chunks = chunks
        self.scores = scores
        self.margin_rule = margin_rule
        self.min_keep = min_keep
        self.max_keep = max_keep
        self.count_tokens = cache(rule.count)
        self._parts: list[tuple[int, Span]] = []  # each with its chunk

    def texts_of_parts(self) -> list[str]:
        """The scored forms of the parts of chunks that do not fit."""
        part_texts = []
        for i in self._fill(None).unfit_chunks[:MAX_SPLIT_CHUNKS]:
            header = self.chunks.passages[self.chunks.spans[i].passage_id].header
            for part in self._split(self.chunks.spans[i]):
                if part.text.strip():
                    text = join_header(part.context_text, part.text)
                    part_texts.append(replace_surrogates(join_header(header, text)))
                    self._parts.append((i, part.span))
        return part_texts

    def select(self, part_scores: Floats) -> Selection:
        """What the budget keeps; a chunk that was split becomes one row per part."""
        parts_of_chunk: dict[int, list[ScoredPart]] = {}
        for (i, part_span), score in zip(
            self._parts, part_scores.tolist(), strict=True
        ):
            parts_of_chunk.setdefault(i, []).append((part_span, score))
        budget_fill = self._fill(parts_of_chunk)
        for i in rank_by_score(self.scores).tolist():
            if budget_fill.kept_count >= self.min_keep:
                break
            budget_fill.whole_chunks.add(i)
        chunk_of_row = []
        row_spans = []
        row_kept = []
        for i, chunk_span in enumerate(self.chunks.spans):
            kept_parts = budget_fill.kept_parts.get(i, [])
            for part_span in split_span(chunk_span, kept_parts):
                chunk_of_row.append(i)
                row_spans.append(part_span)
                row_kept.append(
                    i in budget_fill.whole_chunks or part_span in kept_parts
                )
        return Selection(
            row_spans,
            self.scores[chunk_of_row],
            np.array(row_kept, dtype=np.bool_),
            [self.rule.reason()] * len(row_spans),
            self._notes(budget_fill),
            budget_fill.evicted_headers,
        )

    def _fill(
        self, parts_of_chunk: Mapping[int, Sequence[ScoredPart]] | None
    ) -> FilledBudget:
        """Take chunks down by score; without parts none is tried after the first unfit one."""
        budget_fill = FilledBudget(self)
        lowest_score = self._lowest_score(self.scores, np.inf)
        for i in rank_by_score(self.scores).tolist():
            has_gap = bool(budget_fill.kept_parts or budget_fill.unfit_chunks)
            is_too_far = has_gap and self.scores[i] < lowest_score
            is_full = budget_fill.kept_count == self.max_keep
            if is_too_far or is_full or not np.isfinite(self.scores[i]):
                break
            may_fit = parts_of_chunk is not None or not has_gap
            if may_fit and budget_fill.try_add(self.chunks.spans[i]):
                budget_fill.whole_chunks.add(i)
                continue
            best_parts = self._best_parts((parts_of_chunk or {}).get(i, ()))
            kept_parts = list(takewhile(budget_fill.try_add, best_parts))
            if kept_parts:
                budget_fill.kept_parts[i] = sorted(
                    kept_parts, key=lambda span: span.start
                )
            else:
                budget_fill.unfit_chunks.append(i)
        return budget_fill

    def _best_parts(self, scored_parts: Sequence[ScoredPart]) -> list[Span]:
        """The parts of one chunk within the margin, best first."""
        scores = np.array([score for _, score in scored_parts], dtype=np.float32)
        lowest_score = self._lowest_score(scores, -np.inf)
        best_parts = []
        for i in rank_by_score(scores).tolist():
            span, score = scored_parts[i]
            if score >= lowest_score:
                best_parts.append(span)
        return best_parts

    def _lowest_score(self, scores: Floats, default: float) -> float:
        if self.margin_rule is None:
            return default
        return self.margin_rule.keep_threshold(scores)

    def _split(self, chunk_span: Span) -> Iterator[PassageChunk]:
        """The sentences or lines of a chunk."""
        if self.chunks.reader is not None:
            yield from self.chunks.reader.parts_of(chunk_span)
            return
        passage = self.chunks.passages[chunk_span.passage_id]
        for start, end in sentence_ranges(
            passage.text, chunk_span.start, chunk_span.end
        ):
            span = Span(passage.id, start, end)
            yield PassageChunk(span, "", passage.text[start:end])

    def _notes(self, budget_fill: FilledBudget) -> tuple[str, ...]:
        notes = []
        chunk_names = []
        is_kept = False
        for i in budget_fill.unfit_chunks:
            span = self.chunks.spans[i]
            header = self.chunks.passages[span.passage_id].header
            tokens = self.count_tokens(self.chunks.raw_text(span))
            if tokens + self.count_tokens(header) > self.rule.limit:
                chunk_names.append(f"{span.passage_id} [{span.start}:{span.end}]")
                is_kept = is_kept or i in budget_fill.whole_chunks
        if chunk_names:
            fate = "kept over the budget" if is_kept else "left out"
            notes.append(
                f"{len(chunk_names)} too long for {self.rule.limit} tokens and not to be "
                f"cut, {fate}: {', '.join(chunk_names[:3])}"
            )
        if budget_fill.evicted_headers:
            notes.append(
                f"{len(budget_fill.evicted_headers)} headings or header rows gave way to chunks"
            )
        return tuple(notes)


class FilledBudget:
    """What a budget has been spent on, best first, with as many context spans as fit.

    Attributes:
        whole_chunks: Rows of chunks that are kept whole.
        kept_parts: By row of a split chunk the parts that are kept.
        unfit_chunks: Rows of chunks that do not fit.
    """

    def __init__(self, trimmer: BudgetTrimmer) -> None:
        self.whole_chunks: set[int] = set()
        self.kept_parts: dict[int, list[Span]] = {}
        self.unfit_chunks: list[int] = []
        self._trimmer = trimmer
        self._text_tokens = 0  # of the ranges added, without context
        self._passage_ids: set[str] = set()
        self._wanted_headers: set[Span] = set()
        self._headers: list[list[Span]] = []  # of each range, outermost first
        self._kept_headers: set[Span] = set()
        self._header_tokens = 0  # of these and of the passages' headers

    @property
    def kept_count(self) -> int:
        """Chunks that are kept, whole or in part."""
        return len(self.whole_chunks) + len(self.kept_parts)

    @property
    def evicted_headers(self) -> frozenset[Span]:
        """Context spans of kept ranges that the budget has no room for."""
        return frozenset(self._wanted_headers.difference(*self._headers))

    def try_add(self, span: Span) -> bool:
        """Add a range with as much of its context as fits; False if it does not fit."""
        trimmer = self._trimmer
        own_headers = dict.fromkeys(trimmer.chunks.context_of(span))
        text_tokens = self._text_tokens + self._count(span)
        has_no_new_header = (
            span.passage_id in self._passage_ids
            and self._kept_headers.issuperset(own_headers)
        )
        fits = self._header_tokens + text_tokens <= trimmer.rule.limit
        if has_no_new_header and fits:
            # As for most rows of a table: counting all headers anew would be quadratic.
            self._text_tokens = text_tokens
            self._headers.append(list(own_headers))
            return True
        headers = [*map(list, self._headers), list(own_headers)]
        passage_ids = self._passage_ids | {span.passage_id}
        last = len(headers) - 1
        while self._context_tokens(headers, passage_ids) + text_tokens > (
            trimmer.rule.limit
        ):
            while last >= 0 and not headers[last]:
                last -= 1
            if last < 0 or not trimmer.rule.drop_headers_first:
                return False
            del headers[last][0]
        self._text_tokens = text_tokens
        self._passage_ids = passage_ids
        self._headers = headers
        self._kept_headers = set().union(*headers)
        self._header_tokens = self._context_tokens(headers, passage_ids)
        self._wanted_headers.update(own_headers)
        return True

    def _context_tokens(
        self, headers: Sequence[Sequence[Span]], passage_ids: set[str]
    ) -> int:
        """Tokens of context spans and of the headers of all passages kept from."""
        context_spans: set[Span] = set().union(*headers)
        tokens = sum(map(self._count, context_spans))
        for passage_id in passage_ids | {span.passage_id for span in context_spans}:
            header = self._trimmer.chunks.passages[passage_id].header
            tokens += self._trimmer.count_tokens(header)
        return tokens

    def _count(self, span: Span) -> int:
        return self._trimmer.count_tokens(self._trimmer.chunks.raw_text(span))
