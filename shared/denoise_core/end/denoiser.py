"""END as a denoiser: chunks, one score each, keep the best, in the order they came."""

from __future__ import annotations

import time
from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal, Protocol, TypeAlias, cast, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from denoise_core.end.budget import Trimming
from denoise_core.end.calibration import ConformalRule
from denoise_core.end.selection import (
    KeepRule,
    KeepSetting,
    MarginRule,
    ScoreCalibration,
    Selection,
    TokenLimit,
    check_no_nan,
    rule_for,
    select,
    split_span,
)
from denoise_core.errors import BadScores, InputError
from denoise_core.protocols import (
    AsyncScorer,
    BatchScorer,
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
    ChunkedText,
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

DEFAULT_KEEP = 0.3  # the paper's share
CALIBRATED_RISK = 0.05
PROGRESS_INTERVAL = 64  # chunks that are read between two words of progress

OnIrrelevant = Literal["keep", "drop"]


@dataclass(frozen=True, slots=True)
class Scoring:
    """What the trace says was asked of the scorer; the event's reply is one float for each span.

    ``guarantee`` is what a calibrated rule promises, and when it is void; None for other rules. ``split``
    are the spans too long for the model's window: they were read in parts and have their best part's score.
    ``note`` is what the rule says about its own choice.
    """

    query: str
    spans: tuple[Span, ...]
    guarantee: str | None = None
    split_spans: tuple[Span, ...] = ()
    note: str | None = None


class ENDDenoiser:
    """Scores every chunk and keeps the best, with any `Scorer`: Early Noise Dropping, section 2.3.

    ``keep``: a float keeps that share of the chunks (rounded up, over all passages together), an int that many, a
    rule of `denoise_core.end.selection` what it chooses; None is 0.3, the paper's share. ``threshold`` keeps every
    chunk with ``score >= threshold`` instead. Whatever they say, at least ``min_keep`` chunks stay (0 allows none)
    and at most ``max_keep``. Chunks without text go first and are not scored. A chunk is scored with its passage's
    header and the heading it stands under in front.

    ``keep="auto"`` keeps what lies within a margin of the best score (`denoise_core.end.selection`): at least two
    chunks, more where scores do not tell them apart, which ``result.note`` then says. It needs a scorer that comes
    with an `ScoreCalibration`, as the embedded default does; ``risk`` is 0.10 for lists of passages and 0.035 for pieces
    of files, unless given, and the trace names the kind. When the best score is below the scale's floor, nothing
    seems to fit and ``result.relevant`` is False; ``on_irrelevant="drop"`` then keeps nothing.

    ``keep="calibrated"`` keeps what the scorer's own calibration asks for, so that a relevant chunk is dropped in
    at most ``risk`` of the questions (`denoise_core.end.calibration` says for whom, and has stronger forms). The
    trace's event says what was promised.

    ``keep=TokenLimit(n)`` goes down by score; the piece that does not fit is cut at its sentences or rows
    (`denoise_core.end.budget`). What could not be cut is named in ``result.note``.

    ``chunker`` cuts passages; ``"auto"`` by the structure that the text has (`denoise_core.text.structural`), and a
    kept piece brings what it cannot be read without: its headings, its table's header row, the sentence before it
    when it begins with a pronoun. Headings and markup are not scored.

    Kept text comes in the input's order, with exact spans; a kept passage's ``score`` is that of its best
    kept chunk. Dropped spans carry their score and the reason. `adenoise` is a thread around the scorer, because
    scoring is bound by compute; a scorer with ``ascore``, such as one on a server, is awaited instead.

    Raises `InputError` for settings that make no sense, for passages that share an id, and for a scorer
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
                f"max_keep={max_keep}: expected at least 1 and at least min_keep={min_keep}"
            )
        if on_irrelevant not in ("keep", "drop"):
            raise InputError(
                f"on_irrelevant={on_irrelevant!r}: expected 'keep' or 'drop'"
            )
        if isinstance(chunker, str) and chunker != "auto":
            raise InputError(
                f"chunker={chunker!r}: expected 'auto' or a function from a passage to its spans"
            )
        self.scorer = expect_scorer(scorer)
        if keep == "calibrated" and threshold is None:
            own = "pass keep=calibrate(scorer, questions).rule(risk), or a share such as 0.3"
            keep = _required_attribute(scorer, "calibration", own).rule(
                CALIBRATED_RISK if risk is None else risk
            )
        elif keep == "auto" and threshold is None:
            own = "pass a share such as 0.3, or keep=calibrate_margins({'mine': scored}).rule() (denoise_core.end.calibration)"
            keep = _required_attribute(scorer, "scale", own).rule(risk)
        self.rule = rule_for(
            DEFAULT_KEEP if keep is None and threshold is None else keep, threshold
        )
        if max_keep is not None and isinstance(self.rule, ConformalRule):
            raise InputError(
                f"max_keep={max_keep} would void the calibrated guarantee: leave it out, or give a share"
            )
        self.min_keep = min_keep
        self.max_keep = max_keep
        self.on_irrelevant: OnIrrelevant = on_irrelevant
        self.attaches_context = chunker == "auto"
        self.chunker: Chunker = (
            structural_chunker if isinstance(chunker, str) else chunker
        )

    def denoise(self, query: str, passages: Sequence[Passage]) -> DenoiseResult:
        steps = self._steps(query, passages)
        return self._finished(steps, query, self._scored(query, next(steps)))

    def denoise_many(
        self, requests: Sequence[tuple[str, Sequence[Passage]]]
    ) -> list[DenoiseResult]:
        """Several questions, each over its own passages; what the scorer can read together it reads together."""
        if not isinstance(self.scorer, BatchScorer):
            return [self.denoise(query, passages) for query, passages in requests]
        begun = [(query, self._steps(query, passages)) for query, passages in requests]
        started = time.perf_counter()
        scored = self.scorer.score_batch(
            [(query, next(steps)) for query, steps in begun]
        )
        each = (time.perf_counter() - started) / max(1, len(requests))
        return [
            self._finished(steps, query, (own, each))
            for (query, steps), own in zip(begun, scored, strict=True)
        ]

    async def adenoise(self, query: str, passages: Sequence[Passage]) -> DenoiseResult:
        scorer = self.scorer
        if not isinstance(scorer, AsyncScorer):
            return await run_in_pool(self.denoise, query, passages)
        steps = self._steps(query, passages)
        texts = await run_in_pool(next, steps)
        while True:
            started = time.perf_counter()
            given = (
                await scorer.ascore(replace_surrogates(query), texts) if texts else ()
            )  # pyright: ignore
            try:
                texts = steps.send(
                    (ScoredTexts(to_float32(given), ()), time.perf_counter() - started)
                )
            except StopIteration as stop:
                return cast(DenoiseResult, stop.value)

    def precompute(
        self,
        passages: Sequence[Passage],
        progress: Callable[[int, int], None] | None = None,
    ) -> int:
        """Read passages before any question, such as at indexing time; returns how many chunks had to be read.

        ``progress`` hears of chunks done, and of all. Raises `InputError` for a scorer that keeps nothing of what
        it reads.
        """
        if not isinstance(self.scorer, Prefetchable):
            raise InputError(
                f"{type(self.scorer).__name__} keeps nothing of passages: there is nothing to warm"
            )
        texts = self._chunked(tuple(passages)).scorer_texts
        if progress is None:
            return self.scorer.precompute(texts)
        read = 0
        for start in range(0, len(texts), PROGRESS_INTERVAL):
            read += self.scorer.precompute(texts[start : start + PROGRESS_INTERVAL])
            progress(min(start + PROGRESS_INTERVAL, len(texts)), len(texts))
        return read

    # -- scoring -----------------------------------------------------------------------------------------------

    def _finished(
        self, steps: _Steps, query: str, scored: tuple[ScoredTexts, float]
    ) -> DenoiseResult:
        """The rest of the steps, from what the scorer gave for the first texts."""
        while True:
            try:
                texts = steps.send(scored)
            except StopIteration as stop:
                return cast(DenoiseResult, stop.value)
            scored = self._scored(query, texts)

    def _scored(self, query: str, texts: Sequence[str]) -> tuple[ScoredTexts, float]:
        """The scores of texts, and the seconds that they took."""
        started = time.perf_counter()
        if not texts:
            scored = ScoredTexts(np.zeros(0, dtype=np.float32), ())
        elif isinstance(self.scorer, WindowedScorer):
            scored = self.scorer.score_with_windows(replace_surrogates(query), texts)
        else:
            scored = ScoredTexts(
                to_float32(self.scorer.score(replace_surrogates(query), texts)), ()
            )
        return scored, time.perf_counter() - started

    def _steps(self, query: str, passages: Sequence[Passage]) -> _Steps:
        """All but the scoring: yields the texts of the chunks, then those of parts that a budget may take."""
        chunked = self._chunked(check_passages(passages))
        scored, seconds = yield chunked.scorer_texts
        if not chunked.spans:
            return DenoiseResult(query, ())
        scores = self._chunk_scores(chunked, scored)
        rule: KeepRule = self.rule
        if isinstance(rule, MarginRule):
            rule = rule.for_input(len(chunked.passages), len(chunked.scorable))
        if isinstance(rule, TokenLimit):
            trimming = Trimming(
                rule,
                chunked.passages,
                chunked.spans,
                scores,
                lambda own, unknown: self._edge(chunked, own, unknown),
                self.attaches_context,
                self.min_keep,
                self.max_keep,
            )
            selection, longer = yield from trimming.steps()
            seconds += longer
        else:
            kept, reasons = select(
                rule,
                scores,
                chunked.texts,
                min_keep=self.min_keep,
                max_keep=self.max_keep,
            )
            selection = Selection(chunked.spans, scores, kept, reasons)
        split = [
            chunked.spans[chunked.scorable[n]]
            for n, parts in enumerate(scored.window_counts)
            if parts > 1
        ]
        return self._result(query, chunked, rule, selection, tuple(split), seconds)

    def _chunked(self, passages: tuple[Passage, ...]) -> _Chunked:
        """The passages cut into chunks, and those that the scorer reads."""
        chunked = _Chunked({p.id: p for p in passages})
        for passage in passages:
            if self.attaches_context and passage.text:
                chunked.add_pieces(passage, chunk_text(passage.text))
            else:
                chunked.add_chunks(
                    passage, _check_tiles(passage, self.chunker(passage))
                )
        return chunked

    def _chunk_scores(
        self, chunked: _Chunked, scored: ScoredTexts
    ) -> NDArray[np.float32]:
        """A score for each chunk, minus infinity for one without text or of structure alone."""
        scores = np.full(len(chunked.spans), -np.inf, dtype=np.float32)
        if chunked.scorable:
            if scored.scores.shape != (len(chunked.scorable),):
                raise BadScores(
                    f"{type(self.scorer).__name__}.score must return one score for each of "
                    f"{len(chunked.scorable)} texts, got an array of shape {scored.scores.shape}"
                )
            scores[chunked.scorable] = scored.scores
        return check_no_nan(scores)

    @property
    def _scale(self) -> ScoreCalibration | None:
        return getattr(self.scorer, "scale", None)

    def _edge(
        self, chunked: _Chunked, scores: NDArray[np.float32], unknown: float
    ) -> float:
        """The score down to which pieces may fill what one that did not fit left; ``unknown`` without a scale."""
        scale = self._scale
        if scale is None:
            return unknown
        return (
            scale.rule()
            .for_input(len(chunked.passages), len(chunked.scorable))
            .keep_threshold(scores)
        )

    # -- the result --------------------------------------------------------------------------------------------

    def _result(
        self,
        query: str,
        chunked: _Chunked,
        rule: KeepRule,
        selection: Selection,
        split: tuple[Span, ...],
        seconds: float,
    ) -> DenoiseResult:
        selection, relevant, note = self._judged(query, chunked, rule, selection)
        scores = [
            None if score == -np.inf else score for score in selection.scores.tolist()
        ]
        guarantee = (
            rule.guarantee if isinstance(rule, ConformalRule | MarginRule) else None
        )
        scoring = Scoring(query, tuple(selection.spans), guarantee, split, note)
        kept_spans, dropped_spans = self._divided(chunked, selection)
        keeps: list[Keep] = []
        best: dict[str, float] = {}
        for i in np.flatnonzero(selection.kept).tolist():
            score = scores[i]
            if score is not None:
                keeps.append(Keep(selection.spans[i], score))
                name = selection.spans[i].passage_id
                best[name] = max(score, best.get(name, score))
        drops: list[Drop] = []
        for i, span in dropped_spans:
            reason = (
                chunked.why_unscored(span)
                if scores[i] is None
                else selection.reasons[i]
            )
            drops.append(Drop(span, reason, scores[i]))
        passages: list[Passage] = []
        for name, spans in kept_spans.items():
            part = extract_spans(chunked.passages[name], spans) if spans else None
            if part is not None:
                passages.append(
                    replace(part, score=best[name]) if name in best else part
                )
        return DenoiseResult(
            query,
            tuple(passages),
            tuple(drops),
            Trace((Event("score", scoring, tuple(scores), seconds),)),
            kept=tuple(keeps),
            relevant=relevant,
            note=note,
        )

    def _judged(
        self, query: str, chunked: _Chunked, rule: KeepRule, selection: Selection
    ) -> tuple[Selection, bool | None, str | None]:
        """The selection, whether its best chunk bears on the question (None: unknown), and what must be said."""
        relevant, notes = None, list(selection.notes)
        heads = [
            p.text[:200] for p in list(chunked.passages.values())[:20]
        ]  # enough to tell a language
        foreign = (
            ""
            if self._scale is None
            else self._scale.language_mismatch(query, "\n".join(heads))
        )
        if isinstance(rule, MarginRule):
            relevant = None if foreign else rule.is_relevant(selection.scores)
            notes.insert(0, rule.note(selection.scores, selection.kept) or "")
        if relevant is False:
            notes[0] = (
                "nothing seems to bear on the question: the best score is below the floor"
            )
            if self.on_irrelevant == "drop":
                reasons = ["nothing seems to bear on the question"] * len(
                    selection.spans
                )
                selection = replace(
                    selection, kept=np.zeros_like(selection.kept), reasons=reasons
                )
        return selection, relevant, "; ".join(filter(None, (*notes, foreign))) or None

    def _divided(
        self, chunked: _Chunked, selection: Selection
    ) -> tuple[dict[str, list[Span]], list[tuple[int, Span]]]:
        """By passage the ranges that stay, kept chunks with what they bring along; and the ranges that go, each
        with the number of its chunk. They tile what the chunks tile; a chunk of no characters goes, or stays, as
        it is."""
        kept_spans: dict[str, list[Span]] = {name: [] for name in chunked.passages}
        context: dict[str, list[Span]] = {name: [] for name in chunked.passages}
        for i in np.flatnonzero(selection.kept).tolist():
            span = selection.spans[i]
            kept_spans[span.passage_id].append(span)
            if self.attaches_context:
                for extra in context_spans_of(chunked.passages[span.passage_id], span):
                    if extra not in selection.evicted_headers:
                        context[span.passage_id].append(extra)
        dropped_spans: list[tuple[int, Span]] = []
        for i in np.flatnonzero(~selection.kept).tolist():
            span = selection.spans[i]
            inside: list[Span] = []
            for other in context[span.passage_id]:
                if other.start < span.end and other.end > span.start:
                    inside.append(
                        Span(
                            other.passage_id,
                            max(other.start, span.start),
                            min(other.end, span.end),
                        )
                    )
            if not inside:
                dropped_spans.append((i, span))
                continue
            for part in split_span(span, inside):
                if any(
                    own.start <= part.start and part.end <= own.end for own in inside
                ):
                    kept_spans[span.passage_id].append(part)
                else:
                    dropped_spans.append((i, part))
        return kept_spans, dropped_spans


@dataclass(frozen=True, slots=True)
class _Chunked:
    """Passages by id, cut into ``spans`` with their ``texts``. ``scorer_texts`` is what the scorer reads of each
    chunk but those without text and of structure alone, ``scorable`` their positions."""

    passages: dict[str, Passage]
    spans: list[Span] = field(default_factory=list)
    texts: list[str] = field(default_factory=list)
    scorable: list[int] = field(default_factory=list)
    scorer_texts: list[str] = field(default_factory=list)

    def add_pieces(self, passage: Passage, structure: ChunkedText) -> None:
        """A passage in the pieces of its structure, each read under its headings."""
        for piece in structure.chunks:
            heading, text = structure.chunk_context_and_text(piece)
            above = "\n".join(filter(None, (passage.header, heading)))
            self._add(
                passage,
                Span(passage.id, piece.start, piece.end),
                above,
                "" if piece.is_structural else text,
            )

    def add_chunks(self, passage: Passage, spans: Sequence[Span]) -> None:
        """A passage in the chunks of a chunker."""
        for span in spans:
            self._add(
                passage, span, passage.header, passage.text[span.start : span.end]
            )

    def _add(self, passage: Passage, span: Span, above: str, text: str) -> None:
        if text.strip():
            self.scorable.append(len(self.spans))
            self.scorer_texts.append(
                replace_surrogates(f"{above}\n{text}" if above else text)
            )
        self.spans.append(span)
        self.texts.append(replace_surrogates(passage.text[span.start : span.end]))

    def why_unscored(self, span: Span) -> str:
        """Why a chunk has no score."""
        text = self.passages[span.passage_id].text[span.start : span.end]
        return "structure alone" if text.strip() else "no text"


_Steps: TypeAlias = Generator[Sequence[str], tuple[ScoredTexts, float], DenoiseResult]


@runtime_checkable
class Prefetchable(Protocol):
    """A scorer that keeps what it reads of texts, as the default and a probe's do."""

    def precompute(self, texts: Sequence[str]) -> int: ...


def _required_attribute(scorer: Scorer, name: str, otherwise: str) -> Any:
    """What the scorer was given when it was fitted: its ``calibration``, or the ``scale`` of its scores."""
    carried = getattr(scorer, name, None)
    if carried is None:
        raise InputError(
            f"this {type(scorer).__name__} comes without a {name} of its scores: {otherwise}"
        )
    return carried


def _check_tiles(passage: Passage, spans: Sequence[Span]) -> Sequence[Span]:
    """The chunks as they are. Raises `InputError` unless they tile the passage: what they miss would be lost."""
    at = 0
    for span in spans:
        if span.passage_id != passage.id or span.start != at or span.end < at:
            break
        at = span.end
    else:
        if at == len(passage.text):
            return spans
    raise InputError(
        f"the chunker's spans do not tile passage {passage.id!r} of {len(passage.text)} characters: from {at} on "
        "there is a gap, an overlap or another passage's id"
    )
