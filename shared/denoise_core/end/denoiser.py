"""END as a denoiser: chunks, one score each, keep the best, in the order they came."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Literal, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from denoise_core.end.auto import RISK, AutoKeep, AutoScale
from denoise_core.end.calibration import Calibrated, Calibration
from denoise_core.end.selection import Keep as KeepRule
from denoise_core.end.selection import rule_for, select
from denoise_core.end.widen import widened
from denoise_core.errors import BadScores, InputError
from denoise_core.protocols import ReportsParts, Scored, Scorer, ScoresAsync, ScoresMany, expect_scorer
from denoise_core.result import DenoiseResult, Event, Trace
from denoise_core.running.offload import offload
from denoise_core.text.chunk import Chunker, extract, whole
from denoise_core.text.pieces import brought, heading, pieces
from denoise_core.types import Drop, Keep, Passage, Span, check_passages, well_formed

DEFAULT_KEEP = 0.3  # the paper's share
CALIBRATED_RISK = 0.05
HEARD_EVERY = 64  # chunks that are read between two words of progress

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
    split: tuple[Span, ...] = ()
    note: str | None = None


class ENDDenoiser:
    """Scores every chunk and keeps the best; works with any `Scorer`: Early Noise Dropping, arXiv 2502.18915,
    section 2.3.

    ``keep``: a float keeps that share of the chunks (rounded up, over all passages together), an int that
    many, a rule of `denoise_core.end.selection` (``Tokens(2000)``) what it chooses; None is 0.3, the
    paper's share. ``threshold`` keeps every chunk with ``score >= threshold`` instead. Whatever they say,
    at least ``min_keep`` chunks stay (0 allows none) and at most ``max_keep``. Chunks without text go
    first and are not scored. A chunk is scored with its passage's header and the heading it stands under in front.

    ``keep="auto"`` keeps what lies within a margin of the best score (`denoise_core.end.auto`): at least two
    chunks, more where scores do not tell them apart, which ``result.note`` then says. It needs a scorer that comes
    with an `AutoScale`, as the embedded default does; ``risk`` is 0.10 unless given. When the best score is below
    the scale's floor, nothing seems to fit and ``result.relevant`` is False; ``on_irrelevant="drop"`` then keeps
    nothing.

    ``chunker`` cuts passages; ``"auto"`` cuts those longer than some 1,200 characters into pieces, and a kept
    piece brings its heading, and the sentence before it when it begins with a pronoun
    (`denoise_core.text.pieces`).

    ``keep="calibrated"`` keeps what the scorer's own calibration asks for, so that a relevant chunk is
    dropped in at most ``risk`` of the questions, on average over calibration sets. This holds for questions
    drawn like those it was calibrated on, and is void for another corpus, retriever, chunking or model. For
    your own data, or the stronger forms: ``keep=calibrate(scorer, questions).rule(0.05, confidence=0.95)``
    (`denoise_core.end.calibration`). The trace's event says what was promised.

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
        keep: KeepRule | None = None,
        threshold: float | None = None,
        risk: float | None = None,
        min_keep: int = 1,
        max_keep: int | None = None,
        chunker: Chunker | Literal["auto"] = whole,
        on_irrelevant: OnIrrelevant = "keep",
    ) -> None:
        if min_keep < 0:
            raise InputError(f"min_keep={min_keep}: expected 0 or more")
        if max_keep is not None and max_keep < max(1, min_keep):
            raise InputError(f"max_keep={max_keep}: expected at least 1 and at least min_keep={min_keep}")
        if on_irrelevant not in ("keep", "drop"):
            raise InputError(f"on_irrelevant={on_irrelevant!r}: expected 'keep' or 'drop'")
        if isinstance(chunker, str) and chunker != "auto":
            raise InputError(f"chunker={chunker!r}: expected 'auto' or a function from a passage to its spans")
        self.scorer = expect_scorer(scorer)
        if keep == "calibrated" and threshold is None:
            keep = _calibration_of(scorer).rule(CALIBRATED_RISK if risk is None else risk)
        elif keep == "auto" and threshold is None:
            keep = _scale_of(scorer).rule(RISK if risk is None else risk)
        self.rule = rule_for(DEFAULT_KEEP if keep is None and threshold is None else keep, threshold)
        if max_keep is not None and isinstance(self.rule, Calibrated):
            raise InputError(
                f"max_keep={max_keep} would void the calibrated guarantee: leave it out, or give a share"
            )
        self.min_keep = min_keep
        self.max_keep = max_keep
        self.on_irrelevant: OnIrrelevant = on_irrelevant
        self.brings = chunker == "auto"
        self.chunker: Chunker = pieces if isinstance(chunker, str) else chunker

    def denoise(self, query: str, passages: Sequence[Passage]) -> DenoiseResult:
        asked = self._asked(passages)
        started = time.perf_counter()
        if not asked.texts:
            found = Scored(np.zeros(0, dtype=np.float32), ())
        elif isinstance(self.scorer, ReportsParts):
            found = self.scorer.scored(well_formed(query), asked.texts)
        else:
            found = Scored(np.asarray(self.scorer.score(well_formed(query), asked.texts), dtype=np.float32), ())
        return self._result(query, asked, found, time.perf_counter() - started)

    def denoise_many(self, asked: Sequence[tuple[str, Sequence[Passage]]]) -> list[DenoiseResult]:
        """Several questions, each over its own passages; what the scorer can read together it reads together."""
        if not isinstance(self.scorer, ScoresMany):
            return [self.denoise(query, passages) for query, passages in asked]
        cut = [self._asked(passages) for _, passages in asked]
        started = time.perf_counter()
        found = self.scorer.scored_many([(q, own.texts) for (q, _), own in zip(asked, cut, strict=True)])
        seconds = (time.perf_counter() - started) / max(1, len(asked))
        rows = zip(asked, cut, found, strict=True)
        return [self._result(query, own, scored, seconds) for (query, _), own, scored in rows]

    async def adenoise(self, query: str, passages: Sequence[Passage]) -> DenoiseResult:
        if not isinstance(self.scorer, ScoresAsync):
            return await offload(self.denoise, query, passages)
        asked = await offload(self._asked, passages)
        started = time.perf_counter()
        found = Scored(np.asarray(await self.scorer.ascore(well_formed(query), asked.texts), dtype=np.float32), ())
        return self._result(query, asked, found, time.perf_counter() - started)

    def _asked(self, passages: Sequence[Passage]) -> _Asked:
        checked = check_passages(passages)
        spans = [span for p in checked for span in _tiling(p, self.chunker(p))]
        source = {p.id: p for p in checked}
        texts = [well_formed(source[s.passage_id].text[s.start : s.end]) for s in spans]
        worth = [i for i, t in enumerate(texts) if t.strip()]
        read = [_read(texts[i], self._above(source[spans[i].passage_id], spans[i])) for i in worth]
        return _Asked(checked, spans, texts, worth, read)

    def _result(self, query: str, asked: _Asked, found: Scored, seconds: float) -> DenoiseResult:
        checked, spans, texts = asked.passages, asked.spans, asked.whole
        if not spans:
            return DenoiseResult(query, ())
        scores, split = self._placed(asked, found)
        kept, reasons = select(self.rule, scores, texts, min_keep=self.min_keep, max_keep=self.max_keep)
        relevant, note = None, None
        if isinstance(self.rule, AutoKeep):
            relevant, note = self.rule.relevant(scores), self.rule.note(scores, kept)
        if relevant is False:
            note = "nothing seems to bear on the question: the best score is below the floor"
            if self.on_irrelevant == "drop":
                kept, reasons = np.zeros_like(kept), ["nothing seems to bear on the question"] * len(spans)
        known = [None if s == -np.inf else float(s) for s in scores]
        promised = self.rule.guarantee if isinstance(self.rule, Calibrated | AutoKeep) else None
        scoring = Scoring(query, tuple(spans), promised, tuple(spans[i] for i in split), note)
        event = Event("score", scoring, tuple(known), seconds)
        stays, goes = widened(checked, spans, kept, brought if self.brings else None)
        return DenoiseResult(
            query,
            tuple(_kept(checked, spans, kept, known, stays)),
            tuple(
                Drop(span, reasons[i] if texts[i].strip() else "no text", known[i])
                for i, parts in goes
                for span in parts
            ),
            Trace((event,)),
            kept=tuple(
                Keep(span, float(scores[i])) for i, span in enumerate(spans) if kept[i] and known[i] is not None
            ),
            relevant=relevant,
            note=note,
        )

    def _above(self, passage: Passage, span: Span) -> str:
        """What is read in front of a chunk: the passage's header, and the heading it stands under."""
        own = passage.text[slice(*found)].strip() if self.brings and (found := heading(passage, span)) else ""
        return "\n".join(part for part in (passage.header, own) if part)

    def warm(self, passages: Sequence[Passage], progress: Callable[[int, int], None] | None = None) -> int:
        """Read passages before any question, such as at indexing time; returns how many chunks had to be read.

        ``progress`` hears of chunks done, and of all. Raises `InputError` for a scorer that keeps nothing of what
        it reads.
        """
        if not isinstance(self.scorer, Warms):
            raise InputError(f"{type(self.scorer).__name__} keeps nothing of passages: there is nothing to warm")
        texts = []
        for passage in passages:
            for span in _tiling(passage, self.chunker(passage)):
                text = well_formed(passage.text[span.start : span.end])
                if text.strip():
                    texts.append(_read(text, self._above(passage, span)))
        if progress is None:
            return self.scorer.warm(texts)
        read = 0
        for start in range(0, len(texts), HEARD_EVERY):
            read += self.scorer.warm(texts[start : start + HEARD_EVERY])
            progress(min(start + HEARD_EVERY, len(texts)), len(texts))
        return read

    def _placed(self, asked: _Asked, found: Scored) -> tuple[NDArray[np.float32], list[int]]:
        """A score for each chunk, minus infinity for one without text; and which were read in parts."""
        scores = np.full(len(asked.whole), -np.inf, dtype=np.float32)
        if asked.worth:
            if found.scores.shape != (len(asked.worth),):
                raise BadScores(
                    f"{type(self.scorer).__name__}.score must return one score for each of {len(asked.worth)} "
                    f"texts, got an array of shape {found.scores.shape}"
                )
            scores[asked.worth] = found.scores
        return scores, [asked.worth[i] for i in found.split]


@dataclass(frozen=True, slots=True)
class _Asked:
    """Passages cut into ``spans``, ``whole`` their texts; ``texts`` is what the scorer reads of those that have
    any, ``worth`` their positions."""

    passages: tuple[Passage, ...]
    spans: list[Span]
    whole: list[str]
    worth: list[int]
    texts: list[str]


@runtime_checkable
class CarriesCalibration(Protocol):
    """A scorer that was calibrated when it was fitted, such as a probe's."""

    @property
    def calibration(self) -> Calibration | None: ...


@runtime_checkable
class Warms(Protocol):
    """A scorer that keeps what it reads of texts, as the default and a probe's do."""

    def warm(self, texts: Sequence[str]) -> int: ...


def _read(text: str, above: str) -> str:
    """A chunk as the scorer reads it."""
    return f"{well_formed(above)}\n{text}" if above else text


@runtime_checkable
class CarriesScale(Protocol):
    """A scorer whose scores' meaning is known, such as the embedded default's."""

    @property
    def scale(self) -> AutoScale | None: ...


def _scale_of(scorer: Scorer) -> AutoScale:
    found = scorer.scale if isinstance(scorer, CarriesScale) else None
    if found is None:
        raise InputError(
            f"keep='auto': this {type(scorer).__name__} comes without a scale of its scores; pass a share such as "
            "0.3, or keep=auto_scale({'mine': scored}).rule() with questions of your own (denoise_core.end.auto)"
        )
    return found


def _calibration_of(scorer: Scorer) -> Calibration:
    found = scorer.calibration if isinstance(scorer, CarriesCalibration) else None
    if found is None:
        raise InputError(
            f"keep='calibrated': this {type(scorer).__name__} carries no calibration; pass "
            "keep=calibrate(scorer, questions).rule(risk) with questions of your own, or a share such as 0.3"
        )
    return found


def _tiling(passage: Passage, spans: Sequence[Span]) -> Sequence[Span]:
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


def _kept(
    passages: Sequence[Passage],
    spans: Sequence[Span],
    kept: NDArray[np.bool_],
    scores: Sequence[float | None],
    stays: Sequence[Span],
) -> list[Passage]:
    """Passages of the ranges that stay, scored by their best kept chunk."""
    best: dict[str, list[float]] = {}
    for i in np.flatnonzero(kept).tolist():
        if (score := scores[i]) is not None:
            best.setdefault(spans[i].passage_id, []).append(score)
    of: dict[str, list[Span]] = {}
    for span in stays:
        of.setdefault(span.passage_id, []).append(span)
    out = []
    for p in passages:
        part = extract(p, of.get(p.id, []))
        if part is not None:
            out.append(replace(part, score=max(best[p.id])) if p.id in best else part)
    return out
