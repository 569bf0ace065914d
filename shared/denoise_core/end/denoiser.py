"""END as a denoiser: score every chunk, keep the best, in the order they came."""

from __future__ import annotations

import time
from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal, Protocol, TypeAlias, cast, runtime_checkable

import numpy as np

from denoise_core.cancellation import stop_if_abandoned
from denoise_core.end.budget import BudgetTrimmer
from denoise_core.end.question_kinds import (
    KindClassifier,
    QuestionKind,
    keep_named_pieces,
    widen_selection,
)
from denoise_core.end.selection import (
    Floats,
    KeepRule,
    KeepSetting,
    MarginRule,
    ScoredChunks,
    Selection,
    TokenLimit,
    check_no_nan,
    rule_for,
    select_chunks,
)
from denoise_core.errors import BadScores, InputError
from denoise_core.protocols import AsyncScorer, Scorer, expect_scorer, to_float32
from denoise_core.result import DenoiseResult, Trace
from denoise_core.runtime.fallbacks import log_fallback
from denoise_core.runtime.thread_pool import run_in_pool
from denoise_core.spans import (
    Ranges,
    clip_spans,
    complement_spans,
    merge_spans,
    passage_spans,
)
from denoise_core.text.chunk import Chunker, extract_spans, no_chunking
from denoise_core.text.documents import DocumentReader
from denoise_core.text.structural import structural_chunker
from denoise_core.types import (
    Drop,
    Event,
    Keep,
    Passage,
    Span,
    check_passages,
    replace_surrogates,
)

DEFAULT_KEEP = 0.3  # the fraction the paper keeps
PROGRESS_INTERVAL = 64  # chunks read between two reports of progress
NOT_RELEVANT = "nothing seems to bear on the question"

OnIrrelevant = Literal["keep", "drop"]
DenoiseSteps: TypeAlias = Generator[Sequence[str], object, DenoiseResult]
ScoreSteps: TypeAlias = Generator[Sequence[str], object, tuple[Floats, float]]


@dataclass(frozen=True, slots=True)
class ScoringRecord:
    """The trace's record of a scoring request; the event's reply is one float per span.

    Attributes:
        query: The question.
        spans: The chunks, or parts of chunks that a token budget split.
        guarantee: What a calibrated rule promises, and when it is void; else None.
        note: The result's note.
    """

    query: str
    spans: tuple[Span, ...]
    guarantee: str | None = None
    note: str | None = None


@runtime_checkable
class Prefetchable(Protocol):
    """A scorer that reads texts before any question and caches that, as the default does."""

    def precompute(self, texts: Sequence[str]) -> int:
        """Read texts before any question; returns how many were not cached yet."""
        ...


class ENDDenoiser:
    """Scores every chunk and keeps the best, with any `Scorer`.

    Early Noise Dropping, section 2.3. Kept text comes in the input's order, with exact
    spans; a kept passage has the score of its best kept chunk. Dropped spans carry
    their score and the reason. A chunk is scored with its passage's header and its
    heading in front; chunks without text are dropped first and not scored.

    ``keep="auto"`` keeps what is within a margin of the best score
    (`denoise_core.end.selection`): at least two chunks, more where scores do not
    separate them, which ``result.note`` then says. It needs a scorer with a
    `ScoreCalibration`, as the embedded default has, and a probe fitted with one
    (`denoise_core.end.calibration` says for which questions the risk holds; the trace's
    event has the promise). If the best score is below the
    calibration's floor, ``result.relevant`` is False; above it None, because scores
    measure topic and not whether the question is answered. A scorer that names the
    question's kind has a part in what is kept (`denoise_core.end.question_kinds`).

    ``keep=TokenLimit(n)`` goes down by score; the chunk that does not fit is cut at its
    sentences or rows (`denoise_core.end.budget`). ``result.note`` names what could not
    be cut.

    `adenoise` scores in a thread, because scoring is bound by compute; a scorer with
    ``ascore``, such as one on a server, is awaited instead.

    Args:
        scorer: Scores texts for a query.
        keep: A float keeps that fraction of the chunks (rounded up, over all passages
            together), an int that many, a rule of `denoise_core.end.selection` what it
            chooses; None is 0.3, the paper's fraction.
        threshold: Keep every chunk with ``score >= threshold`` instead.
        risk: For "auto", the expected share of relevant chunks dropped (None: 0.10 for
            passages, 0.06 for pieces of files).
        min_keep: Keep at least this many chunks; 0 allows none.
        max_keep: Keep at most this many chunks.
        chunker: Cuts a passage into spans that tile it. "auto" cuts by the text's
            structure (`denoise_core.text.structural`); a kept chunk then comes with its
            headings, its table's header row and the sentence a leading pronoun points
            to, and headings and markup are not scored.
        on_irrelevant: "drop" keeps nothing if ``result.relevant`` is False.

    Raises:
        InputError: Settings that make no sense, passages that share an id, a scorer
            that gives NaN or another number of scores than texts.
    """

    def __init__(
        self,
        scorer: Scorer,
        *,
        keep: KeepSetting | None = None,
        threshold: float | None = None,
        risk: float | None = None,
        min_keep: int = 1,
        max_keep: int | None = None,
        chunker: Chunker | Literal["auto"] = no_chunking,
        on_irrelevant: OnIrrelevant = "keep",
    ) -> None:
        if min_keep < 0:
            raise InputError(f"min_keep={min_keep}: expected 0 or more")
        if max_keep is not None and max_keep < max(1, min_keep):
            raise InputError(
                f"max_keep={max_keep}: expected at least 1 and at least "
                f"min_keep={min_keep}"
            )
        if on_irrelevant not in ("keep", "drop"):
            raise InputError(
                f"on_irrelevant={on_irrelevant!r}: expected 'keep' or 'drop'"
            )
        if isinstance(chunker, str) and chunker != "auto":
            raise InputError(
                f"chunker={chunker!r}: expected 'auto' or a function from a passage to "
                "its spans"
            )
        self.scorer = expect_scorer(scorer)
        if threshold is None:
            keep = _resolve_keep(scorer, keep, risk)
        self.rule = rule_for(keep, threshold)
        self.min_keep = min_keep
        self.max_keep = max_keep
        self.on_irrelevant: OnIrrelevant = on_irrelevant
        self.attaches_context = chunker == "auto"
        self.chunker: Chunker = structural_chunker
        if not isinstance(chunker, str):
            self.chunker = chunker

    def denoise(self, query: str, passages: Sequence[Passage]) -> DenoiseResult:
        """Keep the chunks that matter for the query."""
        steps = self._denoise_steps(query, passages)
        step = _next_step(steps, None)
        while not isinstance(step, DenoiseResult):
            scores = self.scorer.score(replace_surrogates(query), step)
            step = _next_step(steps, scores)
        return step

    async def adenoise(self, query: str, passages: Sequence[Passage]) -> DenoiseResult:
        """`denoise` without blocking the event loop."""
        scorer = self.scorer
        if not isinstance(scorer, AsyncScorer):
            return await run_in_pool(self.denoise, query, passages)
        steps = self._denoise_steps(query, passages)
        step = await run_in_pool(_next_step, steps, None)
        while not isinstance(step, DenoiseResult):
            scores = await scorer.ascore(replace_surrogates(query), step)  # pyright: ignore
            step = _next_step(steps, scores)
        return step

    def precompute(
        self,
        passages: Sequence[Passage],
        progress: Callable[[int, int], None] | None = None,
    ) -> int:
        """Read passages before any question, such as at indexing time.

        Args:
            passages: What will be denoised.
            progress: Called with (chunks done, all chunks).

        Returns:
            How many chunks had to be read.

        Raises:
            InputError: The scorer reads no passage without a question.
        """
        if not isinstance(self.scorer, Prefetchable):
            raise InputError(
                f"{type(self.scorer).__name__} reads no passage before a question: there "
                "is nothing to warm up"
            )
        texts = self._cut(tuple(passages)).scorer_texts
        read_count = 0
        for start in range(0, len(texts), PROGRESS_INTERVAL):
            interval_texts = texts[start : start + PROGRESS_INTERVAL]
            read_count += self.scorer.precompute(interval_texts)
            if progress is not None:
                progress(start + len(interval_texts), len(texts))
        return read_count

    # -- scoring -----------------------------------------------------------------------

    def _denoise_steps(self, query: str, passages: Sequence[Passage]) -> DenoiseSteps:
        """All but the scoring, so that `denoise` and `adenoise` share it.

        Yields the texts of the chunks, then those of parts that a budget may keep.
        """
        chunks = self._cut(check_passages(passages))
        text_scores, seconds = yield from self._score_steps(chunks.scorer_texts)
        if not chunks.spans:
            return DenoiseResult(query, ())
        scores = np.full(len(chunks.spans), -np.inf, dtype=np.float32)
        scores[chunks.scored_rows] = text_scores
        rule = self.rule
        calibration = getattr(self.scorer, "scale", None)
        if isinstance(rule, TokenLimit):
            margin_rule = None
            if calibration is not None:
                margin_rule = chunks.rule_of_input(calibration.rule())
            trimmer = BudgetTrimmer(
                rule, chunks, scores, margin_rule, self.min_keep, self.max_keep
            )
            part_texts = trimmer.texts_of_parts()
            part_scores, part_seconds = yield from self._score_steps(part_texts)
            selection = trimmer.select(part_scores)
            seconds += part_seconds
        else:
            kind = None
            if isinstance(rule, MarginRule):
                kind = self._question_kind(query)
                rule = chunks.rule_of_input(rule, kind == "lookup")
            selection = self._select(rule, query, kind, chunks, scores)
        language_note = ""
        if calibration is not None:
            sample_text = chunks.language_sample()
            language_note = calibration.language_mismatch(query, sample_text)
        relevant = None
        guarantee = None
        notes: list[str | None] = [*selection.notes, language_note]
        if isinstance(rule, MarginRule):
            guarantee = rule.guarantee
            margin_note = rule.note(scores, selection.kept)
            if not language_note and rule.is_off_topic(scores):
                relevant = False
                margin_note = f"{NOT_RELEVANT}: the best score is below the floor"
            notes.insert(0, margin_note)
        if relevant is False and self.on_irrelevant == "drop":
            log_fallback("ENDDenoiser", NOT_RELEVANT, "no passage was kept")
            none_kept = np.zeros_like(selection.kept)
            drop_reasons = [NOT_RELEVANT] * len(selection.spans)
            selection = replace(selection, kept=none_kept, reasons=drop_reasons)
        note = "; ".join(filter(None, notes)) or None
        record = ScoringRecord(query, tuple(selection.spans), guarantee, note)
        return _build_result(chunks, selection, record, relevant, seconds)

    def _score_steps(self, texts: Sequence[str]) -> ScoreSteps:
        """Yields the texts, if any; returns their scores and the seconds it took."""
        if not texts:
            return np.zeros(0, dtype=np.float32), 0.0
        start_time = time.perf_counter()
        scores = to_float32((yield texts))
        if scores.shape != (len(texts),):
            raise BadScores(
                f"{type(self.scorer).__name__}.score must return one score for "
                f"each of {len(texts)} texts, got an array of shape {scores.shape}"
            )
        return check_no_nan(scores), time.perf_counter() - start_time

    def _cut(self, passages: tuple[Passage, ...]) -> ScoredChunks:
        """Cut the passages into chunks."""
        reader = None
        if self.attaches_context:
            reader = DocumentReader(passages)
        chunks = ScoredChunks(reader)
        for passage in passages:
            chunks.passages[passage.id] = passage
            if reader is not None and passage.text:
                for chunk in reader.chunks_of(passage):
                    stop_if_abandoned()
                    headings = filter(None, (passage.header, chunk.context_text))
                    chunks.add(chunk.span, "\n".join(headings), chunk.text)
            else:
                for span in _check_tiles(passage, self.chunker(passage)):
                    raw_text = passage.text[span.start : span.end]
                    chunks.add(span, passage.header, raw_text)
        return chunks

    def _select(
        self,
        rule: KeepRule,
        query: str,
        kind: QuestionKind | None,
        chunks: ScoredChunks,
        scores: Floats,
    ) -> Selection:
        """What the rule keeps, and what the question adds to ``keep="auto"``."""
        kept, reasons = select_chunks(
            rule, scores, chunks.texts, min_keep=self.min_keep, max_keep=self.max_keep
        )
        selection = Selection(chunks.spans, scores, kept, reasons)
        if kind is None or self.max_keep is not None:
            return selection
        documents = chunks.document_numbers()
        selection = widen_selection(kind, selection, chunks.texts, documents)
        if isinstance(rule, MarginRule) and rule.documents:  # of pieces of files alone
            selection = keep_named_pieces(query, selection, chunks)
        return selection

    def _question_kind(self, query: str) -> QuestionKind | None:
        """What the question asks for; None if the scorer does not tell."""
        if not isinstance(self.scorer, KindClassifier):
            return None
        return self.scorer.question_kind(replace_surrogates(query))


def _next_step(steps: DenoiseSteps, scores: object) -> Sequence[str] | DenoiseResult:
    """What is to be scored next, or the result."""
    try:
        return steps.send(scores)
    except StopIteration as stop:
        return cast(DenoiseResult, stop.value)


def _build_result(
    chunks: ScoredChunks,
    selection: Selection,
    record: ScoringRecord,
    relevant: bool | None,
    seconds: float,
) -> DenoiseResult:
    """Kept passages and dropped spans, which together tile the input."""
    row_scores: list[float | None] = selection.scores.tolist()
    for i in np.flatnonzero(np.isneginf(selection.scores)).tolist():
        row_scores[i] = None
    kept_chunks = []
    best_scores: dict[str, float] = {}
    kept_ranges: dict[str, Ranges] = {passage_id: [] for passage_id in chunks.passages}
    for i in np.flatnonzero(selection.kept).tolist():
        span, score = selection.spans[i], row_scores[i]
        if score is not None:
            kept_chunks.append(Keep(span, score))
        for kept_span in (span, *chunks.context_of(span)):
            passage_id = kept_span.passage_id
            is_evicted = kept_span in selection.evicted_headers
            if kept_span is span or not is_evicted:
                kept_ranges[passage_id].append((kept_span.start, kept_span.end))
            if score is not None:
                # A passage that is kept as context ranks with the chunk that needs it.
                top_score = best_scores.get(passage_id, score)
                best_scores[passage_id] = max(score, top_score)
    merged_ranges = {}
    passages = []
    for passage_id, ranges in kept_ranges.items():
        merged_ranges[passage_id] = merge_spans(ranges)
        kept_spans = passage_spans(passage_id, ranges)
        kept_passage = extract_spans(chunks.passages[passage_id], kept_spans)
        if kept_passage is not None:
            best_score = best_scores.get(passage_id, kept_passage.score)
            passages.append(replace(kept_passage, score=best_score))
    drops = _dropped_spans(chunks, selection, merged_ranges)
    return DenoiseResult(
        record.query,
        tuple(passages),
        tuple(drops),
        Trace((Event("score", record, tuple(row_scores), seconds),)),
        kept=tuple(kept_chunks),
        relevant=relevant,
        note=record.note,
    )


def _dropped_spans(
    chunks: ScoredChunks, selection: Selection, kept_ranges: Mapping[str, Ranges]
) -> list[Drop]:
    """The chunks that are not kept, without what is kept of them as context."""
    drops = []
    for i in np.flatnonzero(~selection.kept).tolist():
        span = selection.spans[i]
        score = None
        if np.isfinite(selection.scores[i]):
            score = selection.scores[i].item()
        dropped_spans: Sequence[Span] = [span]
        ranges = kept_ranges[span.passage_id]
        if clip_spans(ranges, span.start, span.end):
            gaps = complement_spans(ranges, span.start, span.end)
            dropped_spans = passage_spans(span.passage_id, gaps)
        for dropped_span in dropped_spans:
            reason = selection.reasons[i]
            if score is None:
                has_text = chunks.raw_text(dropped_span).strip()
                reason = "heading or markup; not scored" if has_text else "no text"
            drops.append(Drop(dropped_span, reason, score))
    return drops


def _resolve_keep(
    scorer: Scorer, keep: KeepSetting | None, risk: float | None
) -> KeepSetting:
    """The rule behind "auto"; any other setting as it is."""
    if keep is None:
        return DEFAULT_KEEP
    if keep != "auto":
        return keep
    calibration = getattr(scorer, "scale", None)
    if calibration is None:
        raise InputError(
            f"this {type(scorer).__name__} comes without a scale of its scores: pass a "
            "share such as 0.3, or keep=calibrate_scorer(scorer, questions).rule() "
            "(denoise_core.end.calibration)"
        )
    return cast(KeepRule, calibration.rule(risk))


def _check_tiles(passage: Passage, chunk_spans: Sequence[Span]) -> Sequence[Span]:
    """The chunks; raises `InputError` unless they tile the passage.

    Text between chunks would be lost.
    """
    next_start = 0
    for chunk_span in chunk_spans:
        is_same_passage = chunk_span.passage_id == passage.id
        is_next = is_same_passage and chunk_span.start == next_start
        if not is_next or chunk_span.end < next_start:
            break
        next_start = chunk_span.end
    else:
        if next_start == len(passage.text):
            return chunk_spans
    raise InputError(
        f"the chunker's spans do not tile passage {passage.id!r} of "
        f"{len(passage.text)} characters: from {next_start} on there is a gap, an "
        "overlap or another passage's id"
    )
