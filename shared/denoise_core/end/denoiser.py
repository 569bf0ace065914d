"""END as a denoiser: score every chunk, keep the best, in the order they came."""

from __future__ import annotations

import time
from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import Any, Literal, Protocol, TypeAlias, cast, runtime_checkable

import numpy as np

from denoise_core.end.budget import BudgetTrimmer
from denoise_core.end.calibration import ConformalRule
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
    split_span,
)
from denoise_core.errors import BadScores, InputError
from denoise_core.protocols import (
    AsyncScorer,
    ScoredTexts,
    Scorer,
    WindowedScorer,
    expect_scorer,
    to_float32,
)
from denoise_core.result import DenoiseResult, Trace
from denoise_core.runtime.thread_pool import run_in_pool
from denoise_core.text.chunk import Chunker, extract_spans, no_chunking
from denoise_core.text.structural import (
    chunk_text,
    context_spans_of,
    structural_chunker,
)
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
CALIBRATED_RISK = 0.05
PROGRESS_INTERVAL = 64  # chunks read between two reports of progress
NOT_RELEVANT = "nothing seems to bear on the question"

OnIrrelevant = Literal["keep", "drop"]
DenoiseSteps: TypeAlias = Generator[
    Sequence[str], tuple[ScoredTexts, float], DenoiseResult
]


@dataclass(frozen=True, slots=True)
class Scoring:
    """The trace's record of a scoring request; the event's reply is one float per span.

    Attributes:
        query: The question.
        spans: The chunks, or parts of chunks that a token budget split.
        guarantee: What a calibrated rule promises, and when it is void; else None.
        split_spans: Chunks too long for the model's window; they have the score of
            their best part.
        note: The result's note.
    """

    query: str
    spans: tuple[Span, ...]
    guarantee: str | None = None
    split_spans: tuple[Span, ...] = ()
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
    `ScoreCalibration`, as the embedded default has. If the best score is below the
    calibration's floor, ``result.relevant`` is False.

    ``keep="calibrated"`` uses the scorer's own calibration: a relevant chunk is dropped
    in at most ``risk`` of the questions (`denoise_core.end.calibration` says for which,
    and has stronger forms). The trace's event has the promise.

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
        risk: For "auto" (0.10 for passages, 0.035 for pieces of files) and
            "calibrated" (0.05).
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
        if max_keep is not None and isinstance(self.rule, ConformalRule):
            raise InputError(
                f"max_keep={max_keep} would void the calibrated guarantee: leave it "
                "out, or give a fraction"
            )
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
        texts = next(steps)
        while True:
            start_time = time.perf_counter()
            scored = self._score(replace_surrogates(query), texts)
            try:
                texts = steps.send((scored, time.perf_counter() - start_time))
            except StopIteration as stop:
                return cast(DenoiseResult, stop.value)

    async def adenoise(self, query: str, passages: Sequence[Passage]) -> DenoiseResult:
        """`denoise` without blocking the event loop."""
        scorer = self.scorer
        if not isinstance(scorer, AsyncScorer):
            return await run_in_pool(self.denoise, query, passages)
        steps = self._denoise_steps(query, passages)
        texts = await run_in_pool(next, steps)
        while True:
            start_time = time.perf_counter()
            scores: Sequence[float] = ()
            if texts:
                scores = await scorer.ascore(replace_surrogates(query), texts)  # pyright: ignore
            scored = ScoredTexts(to_float32(scores), ())
            try:
                texts = steps.send((scored, time.perf_counter() - start_time))
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
        texts = self._prepare(tuple(passages)).scorer_texts
        count = 0
        interval = PROGRESS_INTERVAL if progress is not None else max(1, len(texts))
        for start in range(0, len(texts), interval):
            stop = min(start + interval, len(texts))
            count += self.scorer.precompute(texts[start:stop])
            if progress is not None:
                progress(stop, len(texts))
        return count

    # -- scoring -----------------------------------------------------------------------

    def _score(self, query: str, texts: Sequence[str]) -> ScoredTexts:
        if not texts:
            return ScoredTexts(np.zeros(0, dtype=np.float32), ())
        if isinstance(self.scorer, WindowedScorer):
            return self.scorer.score_with_windows(query, texts)
        return ScoredTexts(to_float32(self.scorer.score(query, texts)), ())

    def _denoise_steps(self, query: str, passages: Sequence[Passage]) -> DenoiseSteps:
        """All but the scoring, so that `denoise` and `adenoise` share it.

        Yields the texts of the chunks, then those of parts that a budget may keep.
        """
        prepared = self._prepare(check_passages(passages))
        scored, seconds = yield prepared.scorer_texts
        if not prepared.spans:
            return DenoiseResult(query, ())
        scores = self._scores_per_chunk(prepared, scored)
        rule: KeepRule = self.rule
        counts = len(prepared.passages), len(prepared.scored_chunks)
        if isinstance(rule, MarginRule):
            rule = rule.for_input(*counts)
        if isinstance(rule, TokenLimit):
            scale = getattr(self.scorer, "scale", None)
            trimmer = BudgetTrimmer(
                rule,
                prepared.passages,
                prepared.spans,
                scores,
                None if scale is None else scale.rule().for_input(*counts),
                self.attaches_context,
                self.min_keep,
                self.max_keep,
            )
            selection, part_seconds = yield from trimmer.trim_steps()
            seconds += part_seconds
        else:
            kept, reasons = select_chunks(
                rule,
                scores,
                prepared.texts,
                min_keep=self.min_keep,
                max_keep=self.max_keep,
            )
            selection = Selection(prepared.spans, scores, kept, reasons)
        selection, relevant, note = self._judge_relevance(
            query, prepared, rule, selection
        )
        split_spans = [
            prepared.spans[prepared.scored_chunks[text]]
            for text in scored.split_positions
        ]
        guarantee = None
        if isinstance(rule, ConformalRule | MarginRule):
            guarantee = rule.guarantee
        scoring = Scoring(
            query, tuple(selection.spans), guarantee, tuple(split_spans), note
        )
        return self._build_result(prepared, selection, scoring, relevant, seconds)

    def _prepare(self, passages: tuple[Passage, ...]) -> _PreparedInput:
        """Cut the passages into chunks."""
        prepared = _PreparedInput({p.id: p for p in passages})
        for passage in passages:
            if self.attaches_context and passage.text:
                structure = chunk_text(passage.text)
                for chunk in structure.chunks:
                    heading, text = structure.chunk_context_and_text(chunk)
                    context = "\n".join(filter(None, (passage.header, heading)))
                    span = Span(passage.id, chunk.start, chunk.end)
                    prepared.add(span, context, "" if chunk.is_structural else text)
            else:
                for span in _check_tiles(passage, self.chunker(passage)):
                    text = passage.text[span.start : span.end]
                    prepared.add(span, passage.header, text)
        return prepared

    def _scores_per_chunk(
        self, prepared: _PreparedInput, scored: ScoredTexts
    ) -> Floats:
        """One score per chunk; minus infinity for chunks that are not scored."""
        chunk_scores = np.full(len(prepared.spans), -np.inf, dtype=np.float32)
        count = len(prepared.scored_chunks)
        if count:
            if scored.scores.shape != (count,):
                raise BadScores(
                    f"{type(self.scorer).__name__}.score must return one score for "
                    f"each of {count} texts, got an array of shape {scored.scores.shape}"
                )
            chunk_scores[prepared.scored_chunks] = scored.scores
        return check_no_nan(chunk_scores)

    # -- the result --------------------------------------------------------------------

    def _judge_relevance(
        self, query: str, prepared: _PreparedInput, rule: KeepRule, selection: Selection
    ) -> tuple[Selection, bool | None, str | None]:
        """The selection, whether the best chunk seems relevant, and the note."""
        mismatch = ""
        scale = getattr(self.scorer, "scale", None)
        if scale is not None:
            # Enough text to tell its language.
            heads = [p.text[:200] for p in islice(prepared.passages.values(), 20)]
            mismatch = scale.language_mismatch(query, "\n".join(heads))
        relevant = None
        margin_note = None
        if isinstance(rule, MarginRule):
            margin_note = rule.note(selection.scores, selection.kept)
            if not mismatch:
                relevant = rule.is_relevant(selection.scores)
        if relevant is False:
            margin_note = f"{NOT_RELEVANT}: the best score is below the floor"
            if self.on_irrelevant == "drop":
                none_kept = np.zeros_like(selection.kept)
                reasons = [NOT_RELEVANT] * len(selection.spans)
                selection = replace(selection, kept=none_kept, reasons=reasons)
        notes = filter(None, (margin_note, *selection.notes, mismatch))
        return selection, relevant, "; ".join(notes) or None

    def _build_result(
        self,
        prepared: _PreparedInput,
        selection: Selection,
        scoring: Scoring,
        relevant: bool | None,
        seconds: float,
    ) -> DenoiseResult:
        is_scored = selection.scores != -np.inf
        scores = [
            score if scored else None
            for score, scored in zip(selection.scores.tolist(), is_scored, strict=True)
        ]
        keeps: list[Keep] = []
        best_scores: dict[str, float] = {}
        for i in np.flatnonzero(selection.kept & is_scored).tolist():
            span, score = selection.spans[i], selection.scores[i].item()
            keeps.append(Keep(span, score))
            best_score = best_scores.get(span.passage_id, score)
            best_scores[span.passage_id] = max(score, best_score)
        kept_spans, dropped_spans = self._tile_spans(prepared, selection)
        drops: list[Drop] = []
        for i, span in dropped_spans:
            reason = selection.reasons[i]
            if scores[i] is None:
                text = prepared.passages[span.passage_id].text[span.start : span.end]
                reason = "heading or markup; not scored" if text.strip() else "no text"
            drops.append(Drop(span, reason, scores[i]))
        passages: list[Passage] = []
        for name, spans in kept_spans.items():
            part = extract_spans(prepared.passages[name], spans) if spans else None
            if part is not None:
                passages.append(replace(part, score=best_scores.get(name, part.score)))
        return DenoiseResult(
            scoring.query,
            tuple(passages),
            tuple(drops),
            Trace((Event("score", scoring, tuple(scores), seconds),)),
            kept=tuple(keeps),
            relevant=relevant,
            note=scoring.note,
        )

    def _tile_spans(
        self, prepared: _PreparedInput, selection: Selection
    ) -> tuple[dict[str, list[Span]], list[tuple[int, Span]]]:
        """Divide the chunks into kept and dropped spans; together they tile the input.

        Returns:
            By passage the kept spans: kept chunks plus their context spans. And the
            parts of dropped chunks that are not kept as context, each with the row of
            its chunk.
        """
        kept_spans: dict[str, list[Span]] = {name: [] for name in prepared.passages}
        context_spans: dict[str, list[Span]] = {name: [] for name in prepared.passages}
        for i in np.flatnonzero(selection.kept).tolist():
            span = selection.spans[i]
            kept_spans[span.passage_id].append(span)
            if self.attaches_context:
                context = context_spans_of(prepared.passages[span.passage_id], span)
                context_spans[span.passage_id] += context
        dropped_spans: list[tuple[int, Span]] = []
        for i in np.flatnonzero(~selection.kept).tolist():
            span = selection.spans[i]
            overlaps: list[Span] = []
            for context in context_spans[span.passage_id]:
                overlap = _overlap(span, context)
                if overlap is not None and context not in selection.evicted_headers:
                    overlaps.append(overlap)
            for part in split_span(span, overlaps):
                if any(o.start <= part.start and part.end <= o.end for o in overlaps):
                    kept_spans[span.passage_id].append(part)
                else:
                    dropped_spans.append((i, part))
        return kept_spans, dropped_spans


@dataclass(frozen=True, slots=True)
class _PreparedInput:
    """Chunks of all passages.

    Chunk ``spans[i]`` has the text ``texts[i]``. ``scorer_texts[j]`` is the scored form
    of chunk ``scored_chunks[j]``; chunks without text and headings are not scored.
    """

    passages: dict[str, Passage]
    spans: list[Span] = field(default_factory=list)
    texts: list[str] = field(default_factory=list)
    scored_chunks: list[int] = field(default_factory=list)
    scorer_texts: list[str] = field(default_factory=list)

    def add(self, span: Span, context: str, text: str) -> None:
        """Add a chunk; ``text`` is "" if it is not to be scored."""
        if text.strip():
            self.scored_chunks.append(len(self.spans))
            scorer_text = f"{context}\n{text}" if context else text
            self.scorer_texts.append(replace_surrogates(scorer_text))
        raw_text = self.passages[span.passage_id].text[span.start : span.end]
        self.spans.append(span)
        self.texts.append(replace_surrogates(raw_text))


def _resolve_keep(
    scorer: Scorer, keep: KeepSetting | None, risk: float | None
) -> KeepSetting:
    """The rule behind "auto" and "calibrated"; any other setting as it is."""
    if keep == "auto":
        calibration = _required_attribute(
            scorer,
            "scale",
            "pass a fraction such as 0.3, or keep=calibrate_margins({'mine': scored})"
            ".rule() (denoise_core.end.calibration)",
        )
        return cast(KeepRule, calibration.rule(risk))
    if keep == "calibrated":
        calibration = _required_attribute(
            scorer,
            "calibration",
            "pass keep=calibrate(scorer, questions).rule(risk), or a fraction such as "
            "0.3",
        )
        risk = CALIBRATED_RISK if risk is None else risk
        return cast(KeepRule, calibration.rule(risk))
    return DEFAULT_KEEP if keep is None else keep


def _required_attribute(scorer: Scorer, name: str, advice: str) -> Any:
    """What fitting attached to the scorer: its ``calibration``, or its ``scale``."""
    attached = getattr(scorer, name, None)
    if attached is None:
        raise InputError(
            f"this {type(scorer).__name__} comes without a {name} of its scores: "
            f"{advice}"
        )
    return attached


def _overlap(span: Span, context: Span) -> Span | None:
    """The part of ``span`` in ``context``, half-open; None if they are apart."""
    if context.start < span.end and context.end > span.start:
        start = max(context.start, span.start)
        return Span(span.passage_id, start, min(context.end, span.end))
    return None


def _check_tiles(passage: Passage, spans: Sequence[Span]) -> Sequence[Span]:
    """The chunks; raises `InputError` unless they tile the passage.

    Text between chunks would be lost.
    """
    position = 0
    for span in spans:
        is_next = span.passage_id == passage.id and span.start == position
        if not is_next or span.end < position:
            break
        position = span.end
    else:
        if position == len(passage.text):
            return spans
    raise InputError(
        f"the chunker's spans do not tile passage {passage.id!r} of "
        f"{len(passage.text)} characters: from {position} on there is a gap, an "
        "overlap or another passage's id"
    )
