"""END as a denoiser: score every chunk, keep the best, in the order they came."""

from __future__ import annotations

import time
from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import Any, Literal, Protocol, TypeAlias, cast, runtime_checkable

import numpy as np

from denoise_core.end.budget import BudgetTrimmer
from denoise_core.end.question_kinds import (
    KindClassifier,
    QuestionKind,
    widen_selection,
)
from denoise_core.end.selection import (
    Floats,
    KeepRule,
    KeepSetting,
    MarginRule,
    Selection,
    TokenLimit,
    check_no_nan,
    rule_for,
    select_chunks,
)
from denoise_core.errors import BadScores, InputError
from denoise_core.protocols import (
    AsyncScorer,
    Scorer,
    expect_scorer,
    to_float32,
)
from denoise_core.result import DenoiseResult, Trace
from denoise_core.runtime.fallbacks import log_fallback
from denoise_core.runtime.thread_pool import run_in_pool, stop_if_abandoned
from denoise_core.spans import (
    Ranges,
    clip_spans,
    complement_spans,
    merge_spans,
    passage_spans,
)
from denoise_core.text.chunk import Chunker, extract_spans, no_chunking
from denoise_core.text.documents import DocumentReader, number_documents
from denoise_core.text.structural import structural_chunker
from denoise_core.types import (
    Drop,
    Event,
    Keep,
    Passage,
    Span,
    check_passages,
    join_header,
    replace_surrogates,
)

DEFAULT_KEEP = 0.3  # the fraction the paper keeps
PROGRESS_INTERVAL = 64  # chunks read between two reports of progress
LANGUAGE_SAMPLE = 4000  # characters of the passages, to detect their language
SAMPLED_PASSAGES = 20
NOT_RELEVANT = "nothing seems to bear on the question"

OnIrrelevant = Literal["keep", "drop"]
DenoiseSteps: TypeAlias = Generator[Sequence[str], tuple[Floats, float], DenoiseResult]


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
    """A scorer that caches what it reads of texts, as the default and a probe's do."""

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
    question's kind widens what is kept (`denoise_core.end.question_kinds`).

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
            passages, 0.07 for pieces of files).
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
        denoise_steps = self._denoise_steps(query, passages)
        scorer_texts = next(denoise_steps)
        while True:
            start_time = time.perf_counter()
            text_scores = self._score(replace_surrogates(query), scorer_texts)
            try:
                scorer_texts = denoise_steps.send(
                    (text_scores, time.perf_counter() - start_time)
                )
            except StopIteration as stop:
                return cast(DenoiseResult, stop.value)

    async def adenoise(self, query: str, passages: Sequence[Passage]) -> DenoiseResult:
        """`denoise` without blocking the event loop."""
        scorer = self.scorer
        if not isinstance(scorer, AsyncScorer):
            return await run_in_pool(self.denoise, query, passages)
        denoise_steps = self._denoise_steps(query, passages)
        scorer_texts = await run_in_pool(next, denoise_steps)
        while True:
            start_time = time.perf_counter()
            text_scores: Any = ()
            if scorer_texts:
                clean_query = replace_surrogates(query)
                text_scores = await scorer.ascore(clean_query, scorer_texts)  # pyright: ignore
            try:
                scorer_texts = denoise_steps.send(
                    (to_float32(text_scores), time.perf_counter() - start_time)
                )
            except StopIteration as stop:
                return cast(DenoiseResult, stop.value)

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
            InputError: The scorer caches nothing of what it reads.
        """
        if not isinstance(self.scorer, Prefetchable):
            raise InputError(
                f"{type(self.scorer).__name__} keeps nothing of passages: there is "
                "nothing to warm up"
            )
        scorer_texts = self._prepare(tuple(passages)).scorer_texts
        read_count = 0
        chunk_interval = PROGRESS_INTERVAL
        if progress is None:
            chunk_interval = max(1, len(scorer_texts))
        for first_chunk in range(0, len(scorer_texts), chunk_interval):
            stop_chunk = min(first_chunk + chunk_interval, len(scorer_texts))
            interval_texts = scorer_texts[first_chunk:stop_chunk]
            read_count += self.scorer.precompute(interval_texts)
            if progress is not None:
                progress(stop_chunk, len(scorer_texts))
        return read_count

    # -- scoring -----------------------------------------------------------------------

    def _score(self, query: str, scorer_texts: Sequence[str]) -> Floats:
        if not scorer_texts:
            return np.zeros(0, dtype=np.float32)
        return to_float32(self.scorer.score(query, scorer_texts))

    def _denoise_steps(self, query: str, passages: Sequence[Passage]) -> DenoiseSteps:
        """All but the scoring, so that `denoise` and `adenoise` share it.

        Yields the texts of the chunks, then those of parts that a budget may keep.
        """
        prepared_input = self._prepare(check_passages(passages))
        text_scores, scoring_seconds = yield prepared_input.scorer_texts
        if not prepared_input.spans:
            return DenoiseResult(query, ())
        chunk_scores = self._scores_per_chunk(prepared_input, text_scores)
        keep_rule: KeepRule = self.rule
        input_counts = len(prepared_input.passages), len(prepared_input.scored_chunks)
        document_numbers = prepared_input.document_numbers()
        if isinstance(keep_rule, MarginRule):
            keep_rule = keep_rule.for_input(*input_counts, document_numbers)
        if isinstance(keep_rule, TokenLimit):
            margin_rule = None
            score_scale = getattr(self.scorer, "scale", None)
            if score_scale is not None:
                margin_rule = score_scale.rule().for_input(*input_counts)
            budget_trimmer = BudgetTrimmer(
                keep_rule,
                prepared_input.passages,
                prepared_input.spans,
                chunk_scores,
                margin_rule,
                prepared_input.reader,
                self.min_keep,
                self.max_keep,
            )
            selection, part_seconds = yield from budget_trimmer.trim_steps()
            scoring_seconds += part_seconds
        else:
            kept_mask, drop_reasons = select_chunks(
                keep_rule,
                chunk_scores,
                prepared_input.texts,
                min_keep=self.min_keep,
                max_keep=self.max_keep,
            )
            selection = Selection(
                prepared_input.spans, chunk_scores, kept_mask, drop_reasons
            )
            if isinstance(keep_rule, MarginRule):
                kind = self._question_kind(query)
                selection = widen_selection(
                    kind, selection, prepared_input.texts, document_numbers
                )
        selection, relevant, result_note = self._judge_relevance(
            query, prepared_input, keep_rule, selection
        )
        rule_guarantee = None
        if isinstance(keep_rule, MarginRule):
            rule_guarantee = keep_rule.guarantee
        scoring = ScoringRecord(
            query,
            tuple(selection.spans),
            rule_guarantee,
            result_note,
        )
        return self._build_result(
            prepared_input, selection, scoring, relevant, scoring_seconds
        )

    def _prepare(self, passages: tuple[Passage, ...]) -> _PreparedInput:
        """Cut the passages into chunks."""
        prepared_input = _PreparedInput()
        if self.attaches_context:
            prepared_input.reader = DocumentReader(passages)
        for passage in passages:
            prepared_input.passages[passage.id] = passage
            if prepared_input.reader is not None and passage.text:
                for chunk in prepared_input.reader.chunks_of(passage):
                    stop_if_abandoned()
                    headings = filter(None, (passage.header, chunk.context_text))
                    context_text = "\n".join(headings)
                    prepared_input.add(chunk.span, context_text, chunk.text)
            else:
                for chunk_span in _check_tiles(passage, self.chunker(passage)):
                    raw_text = passage.text[chunk_span.start : chunk_span.end]
                    prepared_input.add(chunk_span, passage.header, raw_text)
        return prepared_input

    def _scores_per_chunk(
        self, prepared_input: _PreparedInput, text_scores: Floats
    ) -> Floats:
        """One score per chunk; minus infinity for chunks that are not scored."""
        chunk_scores = np.full(len(prepared_input.spans), -np.inf, dtype=np.float32)
        text_count = len(prepared_input.scored_chunks)
        if text_count:
            if text_scores.shape != (text_count,):
                raise BadScores(
                    f"{type(self.scorer).__name__}.score must return one score for "
                    f"each of {text_count} texts, got an array of shape {text_scores.shape}"
                )
            chunk_scores[prepared_input.scored_chunks] = text_scores
        return check_no_nan(chunk_scores)

    def _question_kind(self, query: str) -> QuestionKind:
        """What the question asks for; "lookup" if unknown or if ``max_keep`` limits it."""
        if self.max_keep is not None or not isinstance(self.scorer, KindClassifier):
            return "lookup"
        return self.scorer.question_kind(replace_surrogates(query))

    # -- the result --------------------------------------------------------------------

    def _judge_relevance(
        self,
        query: str,
        prepared_input: _PreparedInput,
        keep_rule: KeepRule,
        selection: Selection,
    ) -> tuple[Selection, bool | None, str | None]:
        """The selection, False if the best chunk is off topic (else None), and the note."""
        language_note = ""
        score_scale = getattr(self.scorer, "scale", None)
        if score_scale is not None:
            passages = prepared_input.passages
            head_length = LANGUAGE_SAMPLE // min(len(passages), SAMPLED_PASSAGES)
            passage_heads = []
            for passage in islice(passages.values(), SAMPLED_PASSAGES):
                passage_heads.append(passage.text[:head_length])
            sample_text = "\n".join(passage_heads)
            language_note = score_scale.language_mismatch(query, sample_text)
        relevant = None
        margin_note = None
        if isinstance(keep_rule, MarginRule):
            margin_note = keep_rule.note(selection.scores, selection.kept)
            if not language_note and keep_rule.is_off_topic(selection.scores):
                relevant = False
        if relevant is False:
            margin_note = f"{NOT_RELEVANT}: the best score is below the floor"
            if self.on_irrelevant == "drop":
                log_fallback("ENDDenoiser", NOT_RELEVANT, "no passage was kept")
                none_kept = np.zeros_like(selection.kept)
                drop_reasons = [NOT_RELEVANT] * len(selection.spans)
                selection = replace(selection, kept=none_kept, reasons=drop_reasons)
        result_notes = filter(None, (margin_note, *selection.notes, language_note))
        return selection, relevant, "; ".join(result_notes) or None

    def _build_result(
        self,
        prepared_input: _PreparedInput,
        selection: Selection,
        scoring: ScoringRecord,
        relevant: bool | None,
        scoring_seconds: float,
    ) -> DenoiseResult:
        is_scored = selection.scores != -np.inf
        row_scores: list[float | None] = selection.scores.tolist()
        for i in np.flatnonzero(~is_scored).tolist():
            row_scores[i] = None
        kept_chunks = []
        best_scores: dict[str, float] = {}
        for i in np.flatnonzero(selection.kept & is_scored).tolist():
            chunk_span = selection.spans[i]
            score = selection.scores[i].item()
            kept_chunks.append(Keep(chunk_span, score))
            top_score = best_scores.get(chunk_span.passage_id, score)
            best_scores[chunk_span.passage_id] = max(score, top_score)
            for context_span in prepared_input.context_of(chunk_span):
                # A passage that is kept as context ranks with the chunk that needs it.
                context_id = context_span.passage_id
                top_score = best_scores.get(context_id, score)
                best_scores[context_id] = max(score, top_score)
        kept_spans, dropped_spans = self._tile_spans(prepared_input, selection)
        drop_list = []
        for i, chunk_span in dropped_spans:
            drop_reason = selection.reasons[i]
            if row_scores[i] is None:
                passage = prepared_input.passages[chunk_span.passage_id]
                raw_text = passage.text[chunk_span.start : chunk_span.end]
                drop_reason = "heading or markup; not scored"
                if not raw_text.strip():
                    drop_reason = "no text"
            drop_list.append(Drop(chunk_span, drop_reason, row_scores[i]))
        passages = []
        for passage_id, spans in kept_spans.items():
            if not spans:
                continue
            passage = prepared_input.passages[passage_id]
            kept_passage = extract_spans(passage, spans)
            if kept_passage is not None:
                best_score = best_scores.get(passage_id, kept_passage.score)
                passages.append(replace(kept_passage, score=best_score))
        return DenoiseResult(
            scoring.query,
            tuple(passages),
            tuple(drop_list),
            Trace((Event("score", scoring, tuple(row_scores), scoring_seconds),)),
            kept=tuple(kept_chunks),
            relevant=relevant,
            note=scoring.note,
        )

    def _tile_spans(
        self, prepared_input: _PreparedInput, selection: Selection
    ) -> tuple[dict[str, list[Span]], list[tuple[int, Span]]]:
        """Divide the chunks into kept and dropped spans; together they tile the input.

        Returns:
            By passage the kept spans: kept chunks plus their context spans. And the
            parts of dropped chunks that are not kept as context, each with the row of
            its chunk.
        """
        kept_spans: dict[str, list[Span]] = {}
        context_ranges: dict[str, Ranges] = {}
        for passage_id in prepared_input.passages:
            kept_spans[passage_id] = []
            context_ranges[passage_id] = []
        for i in np.flatnonzero(selection.kept).tolist():
            chunk_span = selection.spans[i]
            kept_spans[chunk_span.passage_id].append(chunk_span)
            for context_span in prepared_input.context_of(chunk_span):
                if context_span not in selection.evicted_headers:
                    ranges = context_ranges[context_span.passage_id]
                    ranges.append((context_span.start, context_span.end))
        merged_ranges = {
            passage_id: merge_spans(ranges)
            for passage_id, ranges in context_ranges.items()
        }
        dropped_spans = []
        for i in np.flatnonzero(~selection.kept).tolist():
            chunk_span = selection.spans[i]
            passage_id = chunk_span.passage_id
            limits = chunk_span.start, chunk_span.end
            context_parts = clip_spans(merged_ranges[passage_id], *limits)
            if not context_parts:
                dropped_spans.append((i, chunk_span))
                continue
            kept_spans[passage_id] += passage_spans(passage_id, context_parts)
            gaps = complement_spans(context_parts, *limits)
            for part_span in passage_spans(passage_id, gaps):
                dropped_spans.append((i, part_span))
        return kept_spans, dropped_spans


@dataclass(slots=True)
class _PreparedInput:
    """Chunks of all passages.

    Chunk ``spans[i]`` has the text ``texts[i]``. ``scorer_texts[j]`` is the scored form
    of chunk ``scored_chunks[j]``; chunks without text and headings are not scored.
    ``reader`` knows the context of chunks; None if chunks have none.
    """

    reader: DocumentReader | None = None
    passages: dict[str, Passage] = field(default_factory=dict)
    spans: list[Span] = field(default_factory=list)
    texts: list[str] = field(default_factory=list)
    scored_chunks: list[int] = field(default_factory=list)
    scorer_texts: list[str] = field(default_factory=list)

    def add(self, span: Span, context: str, text: str) -> None:
        """Add a chunk; ``text`` is "" if it is not to be scored."""
        if text.strip():
            self.scored_chunks.append(len(self.spans))
            scorer_text = join_header(context, text)
            self.scorer_texts.append(replace_surrogates(scorer_text))
        raw_text = self.passages[span.passage_id].text[span.start : span.end]
        self.spans.append(span)
        self.texts.append(replace_surrogates(raw_text))

    def context_of(self, span: Span) -> tuple[Span, ...]:
        """What keeping a span must also keep, maybe of other passages."""
        if self.reader is None:
            return ()
        return self.reader.context_of(span)

    def document_numbers(self) -> list[int]:
        """The number of each chunk's document."""
        number_of_passage = number_documents(self.passages.values())
        chunk_numbers = []
        for span in self.spans:
            chunk_numbers.append(number_of_passage[span.passage_id])
        return chunk_numbers


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
