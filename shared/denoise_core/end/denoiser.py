"""END as a denoiser: chunks, one score each, keep the best, in the order they came."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from denoise_core.end.calibration import Calibrated, Calibration
from denoise_core.end.selection import Keep as KeepRule
from denoise_core.end.selection import rule_for, select
from denoise_core.errors import InputError
from denoise_core.protocols import ReportsParts, Scorer
from denoise_core.result import DenoiseResult, Event, Trace
from denoise_core.running.offload import offload
from denoise_core.text.chunk import Chunker, extract, whole
from denoise_core.types import Drop, Keep, Passage, Span, check_passages, well_formed

DEFAULT_KEEP = 0.3  # the paper's share


@dataclass(frozen=True, slots=True)
class Scoring:
    """What the trace says was asked of the scorer; the event's reply is one float for each span.

    ``guarantee`` is what a calibrated rule promises, and when it is void; None for other rules. ``split``
    are the spans too long for the model's window: they were read in parts and have their best part's score.
    """

    query: str
    spans: tuple[Span, ...]
    guarantee: str | None = None
    split: tuple[Span, ...] = ()


class ENDDenoiser:
    """Scores every chunk and keeps the best; works with any `Scorer`.

    ``keep``: a float keeps that share of the chunks (rounded up, over all passages together), an int that
    many, a rule of `denoise_core.end.selection` (``Tokens(2000)``) what it chooses; None is 0.3, the
    paper's share. ``threshold`` keeps every chunk with ``score >= threshold`` instead. Whatever they say,
    at least ``min_keep`` chunks stay (0 allows none) and at most ``max_keep``. Chunks without text go
    first and are not scored.

    ``keep="calibrated"`` keeps what the scorer's own calibration asks for, so that a relevant chunk is
    dropped in at most ``risk`` of the questions, on average over calibration sets. This holds for questions
    drawn like those it was calibrated on, and is void for another corpus, retriever, chunking or model. For
    your own data, or the stronger forms: ``keep=calibrate(scorer, questions).rule(0.05, confidence=0.95)``
    (`denoise_core.end.calibration`). The trace's event says what was promised.

    Kept text comes in the input's order, with exact spans; a kept passage's ``score`` is that of its best
    kept chunk. Dropped spans carry their score and the reason. `adenoise` is a thread around the scorer:
    scoring is bound by compute.

    Raises `InputError` for settings that make no sense, for passages that share an id, and for a scorer
    that gives NaN or another number of scores than texts.
    """

    def __init__(
        self,
        scorer: Scorer,
        *,
        keep: KeepRule | None = None,
        threshold: float | None = None,
        risk: float = 0.05,
        min_keep: int = 1,
        max_keep: int | None = None,
        chunker: Chunker = whole,
    ) -> None:
        if min_keep < 0:
            raise InputError(f"min_keep={min_keep}: expected 0 or more")
        if max_keep is not None and max_keep < max(1, min_keep):
            raise InputError(f"max_keep={max_keep}: expected at least 1 and at least min_keep={min_keep}")
        self.scorer = scorer
        if keep == "calibrated" and threshold is None:
            keep = _calibration_of(scorer).rule(risk)
        self.rule = rule_for(DEFAULT_KEEP if keep is None and threshold is None else keep, threshold)
        if max_keep is not None and isinstance(self.rule, Calibrated):
            raise InputError(
                f"max_keep={max_keep} would void the calibrated guarantee: leave it out, or give a share"
            )
        self.min_keep = min_keep
        self.max_keep = max_keep
        self.chunker = chunker

    def denoise(self, query: str, passages: Sequence[Passage]) -> DenoiseResult:
        checked = check_passages(passages)
        spans = [span for p in checked for span in _tiling(p, self.chunker(p))]
        if not spans:
            return DenoiseResult(query, ())
        source = {p.id: p.text for p in checked}
        texts = [well_formed(source[s.passage_id][s.start : s.end]) for s in spans]
        started = time.perf_counter()
        scores, split = self._score(query, texts)
        seconds = time.perf_counter() - started
        kept, reasons = select(self.rule, scores, texts, min_keep=self.min_keep, max_keep=self.max_keep)
        known = [None if s == -np.inf else float(s) for s in scores]
        promised = self.rule.guarantee if isinstance(self.rule, Calibrated) else None
        scoring = Scoring(query, tuple(spans), promised, tuple(spans[i] for i in split))
        event = Event("score", scoring, tuple(known), seconds)
        return DenoiseResult(
            query,
            tuple(_kept(checked, spans, kept, known)),
            tuple(
                Drop(span, reason if texts[i].strip() else "no text", known[i])
                for i, (span, reason) in enumerate(zip(spans, reasons))
                if not kept[i]
            ),
            Trace((event,)),
            kept=tuple(
                Keep(span, float(scores[i])) for i, span in enumerate(spans) if kept[i] and known[i] is not None
            ),
        )

    async def adenoise(self, query: str, passages: Sequence[Passage]) -> DenoiseResult:
        return await offload(self.denoise, query, passages)

    def _score(self, query: str, texts: Sequence[str]) -> tuple[NDArray[np.float32], list[int]]:
        """A score for each text, minus infinity for one without text; and which texts were read in parts."""
        worth = [i for i, t in enumerate(texts) if t.strip()]
        scores = np.full(len(texts), -np.inf, dtype=np.float32)
        split: list[int] = []
        if worth:
            asked = [texts[i] for i in worth]
            if isinstance(self.scorer, ReportsParts):
                found = self.scorer.scored(query, asked)
                given, split = found.scores, [worth[i] for i in found.split]
            else:
                given = np.asarray(self.scorer.score(query, asked), dtype=np.float32)
            if given.shape != (len(worth),):
                raise InputError(
                    f"{type(self.scorer).__name__}.score must return one score for each of {len(worth)} texts, "
                    f"got an array of shape {given.shape}"
                )
            scores[worth] = given
        return scores, split


@runtime_checkable
class CarriesCalibration(Protocol):
    """A scorer that was calibrated when it was fitted, such as a probe's."""

    @property
    def calibration(self) -> Calibration | None: ...


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
    passages: Sequence[Passage], spans: Sequence[Span], kept: NDArray[np.bool_], scores: Sequence[float | None]
) -> list[Passage]:
    chosen: dict[str, list[int]] = {}
    for i in np.flatnonzero(kept).tolist():
        chosen.setdefault(spans[i].passage_id, []).append(i)
    out = []
    for p in passages:
        part = extract(p, [spans[i] for i in chosen.get(p.id, [])])
        if part is not None:
            known = [s for i in chosen[p.id] if (s := scores[i]) is not None]
            out.append(replace(part, score=max(known)) if known else part)
    return out
