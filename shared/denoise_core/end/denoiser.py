"""END as a denoiser: chunks, one score each, keep the best, in the order they came."""

from __future__ import annotations

import time
from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, Protocol, TypeAlias, TypeVar, cast, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from denoise_core.end.auto import AutoKeep, AutoScale
from denoise_core.end.budget import Brings, Purse, spend, too_long
from denoise_core.end.calibration import Calibrated
from denoise_core.end.selection import Keep as KeepRule
from denoise_core.end.selection import Mask, Rule, Tokens, no_nan, ranking, rule_for, select
from denoise_core.errors import BadScores, InputError
from denoise_core.protocols import ReportsParts, Scored, Scorer, ScoresAsync, ScoresMany, expect_scorer, numbers
from denoise_core.result import DenoiseResult, Trace
from denoise_core.running.offload import offload
from denoise_core.spans import tile_spans
from denoise_core.text.chunk import Chunker, extract, whole
from denoise_core.text.cutting import brought, cut, pieces
from denoise_core.text.piece import Piece
from denoise_core.types import Drop, Event, Keep, Passage, Span, check_passages, well_formed

DEFAULT_KEEP = 0.3  # the paper's share
CALIBRATED_RISK = 0.05
HEARD_EVERY = 64  # chunks that are read between two words of progress

OnIrrelevant = Literal["keep", "drop"]
T = TypeVar("T")


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
    """Scores every chunk and keeps the best, with any `Scorer`: Early Noise Dropping, section 2.3.

    ``keep``: a float keeps that share of the chunks (rounded up, over all passages together), an int that many, a
    rule of `denoise_core.end.selection` what it chooses; None is 0.3, the paper's share. ``threshold`` keeps every
    chunk with ``score >= threshold`` instead. Whatever they say, at least ``min_keep`` chunks stay (0 allows none)
    and at most ``max_keep``. Chunks without text go first and are not scored. A chunk is scored with its passage's
    header and the heading it stands under in front.

    ``keep="auto"`` keeps what lies within a margin of the best score (`denoise_core.end.auto`): at least two
    chunks, more where scores do not tell them apart, which ``result.note`` then says. It needs a scorer that comes
    with an `AutoScale`, as the embedded default does; ``risk`` is 0.10 for lists of passages and 0.035 for pieces
    of files, unless given, and the trace names the kind. When the best score is below the scale's floor, nothing
    seems to fit and ``result.relevant`` is False; ``on_irrelevant="drop"`` then keeps nothing.

    ``keep="calibrated"`` keeps what the scorer's own calibration asks for, so that a relevant chunk is dropped in
    at most ``risk`` of the questions (`denoise_core.end.calibration` says for whom, and has stronger forms). The
    trace's event says what was promised.

    ``keep=Tokens(n)`` goes down by score; the piece that does not fit is cut at its sentences or rows
    (`denoise_core.end.budget`). What could not be cut is named in ``result.note``.

    ``chunker`` cuts passages; ``"auto"`` by the structure that the text has (`denoise_core.text.cutting`), and a
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
            own = "pass keep=calibrate(scorer, questions).rule(risk), or a share such as 0.3"
            keep = _carried(scorer, "calibration", own).rule(CALIBRATED_RISK if risk is None else risk)
        elif keep == "auto" and threshold is None:
            own = "pass a share such as 0.3, or keep=auto_scale({'mine': scored}).rule() (denoise_core.end.auto)"
            keep = _carried(scorer, "scale", own).rule(risk)
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
        steps = self._steps(query, passages)
        return self._finished(steps, query, _timed(self._scored, query, next(steps)))

    def denoise_many(self, asked: Sequence[tuple[str, Sequence[Passage]]]) -> list[DenoiseResult]:
        """Several questions, each over its own passages; what the scorer can read together it reads together."""
        if not isinstance(self.scorer, ScoresMany):
            return [self.denoise(query, passages) for query, passages in asked]
        begun = [(query, self._steps(query, passages)) for query, passages in asked]
        found, seconds = _timed(self.scorer.scored_many, [(query, next(steps)) for query, steps in begun])
        each = seconds / max(1, len(asked))
        return [
            self._finished(steps, query, (own, each)) for (query, steps), own in zip(begun, found, strict=True)
        ]

    async def adenoise(self, query: str, passages: Sequence[Passage]) -> DenoiseResult:
        scorer = self.scorer
        if not isinstance(scorer, ScoresAsync):
            return await offload(self.denoise, query, passages)
        steps = self._steps(query, passages)
        texts = await offload(next, steps)
        while True:
            started = time.perf_counter()
            given = await scorer.ascore(well_formed(query), texts) if texts else ()  # pyright: ignore
            try:
                texts = steps.send((Scored(numbers(given), ()), time.perf_counter() - started))
            except StopIteration as stop:
                return cast(DenoiseResult, stop.value)

    def _finished(self, steps: _Steps, query: str, found: tuple[Scored, float]) -> DenoiseResult:
        """The rest of the steps, from what the scorer gave for the first texts."""
        while True:
            try:
                found = _timed(self._scored, query, steps.send(found))
            except StopIteration as stop:
                return cast(DenoiseResult, stop.value)

    def _scored(self, query: str, texts: Sequence[str]) -> Scored:
        if not texts:
            return Scored(np.zeros(0, dtype=np.float32), ())
        if isinstance(self.scorer, ReportsParts):
            return self.scorer.scored(well_formed(query), texts)
        return Scored(numbers(self.scorer.score(well_formed(query), texts)), ())

    def _steps(self, query: str, passages: Sequence[Passage]) -> _Steps:
        """All but the scoring: yields the texts of the chunks, then those of parts that a budget may take."""
        asked = self._asked(passages)
        found, seconds = yield asked.texts
        if not asked.spans:
            return DenoiseResult(query, ())
        scores = self._placed(asked, found)
        rule: Rule = self.rule
        if isinstance(rule, AutoKeep):
            rule = rule.of(len(asked.passages), len(asked.worth))
        if isinstance(rule, Tokens):
            purse = Purse(rule, {p.id: p for p in asked.passages}, self._brings)
            named, texts = self._parts(asked, scores, purse)
            more, longer = yield texts
            seconds += longer
            chosen = self._spent(rule, asked, scores, named, more.scores)
        else:
            kept, reasons = select(rule, scores, asked.whole, min_keep=self.min_keep, max_keep=self.max_keep)
            chosen = _Chosen(asked.spans, scores, kept, reasons)
        return self._result(query, asked, rule, chosen, [asked.worth[i] for i in found.split], seconds)

    def _asked(self, passages: Sequence[Passage]) -> _Asked:
        checked = check_passages(passages)
        cuts = [(p, _tiling(p, self.chunker(p))) for p in checked]
        spans = [span for _, own in cuts for span in own]
        source = {p.id: p for p in checked}
        texts = [well_formed(source[s.passage_id].text[s.start : s.end]) for s in spans]
        read = [t for p, own in cuts for t in self._readings(p, own)]
        worth = [i for i, t in enumerate(read) if t]
        return _Asked(checked, spans, texts, worth, [read[i] for i in worth])

    def _readings(self, passage: Passage, spans: Sequence[Span]) -> list[str]:
        """Each chunk as the scorer reads it, with what stands above it; "" for one without text, or structure
        alone."""
        out = []
        own = cut(passage.text) if self.brings and passage.text else None
        for n, span in enumerate(spans):
            above, said = passage.header, passage.text[span.start : span.end]
            if own is not None:
                piece = own.pieces[n]
                over, said = own.read(piece)
                above = "\n".join(s for s in (passage.header, over) if s)
                said = "" if piece.frame else said
            out.append(well_formed(f"{above}\n{said}" if above else said) if said.strip() else "")
        return out

    def _placed(self, asked: _Asked, found: Scored) -> NDArray[np.float32]:
        """A score for each chunk, minus infinity for one without text or of structure alone."""
        scores = np.full(len(asked.whole), -np.inf, dtype=np.float32)
        if asked.worth:
            if found.scores.shape != (len(asked.worth),):
                raise BadScores(
                    f"{type(self.scorer).__name__}.score must return one score for each of {len(asked.worth)} "
                    f"texts, got an array of shape {found.scores.shape}"
                )
            scores[asked.worth] = found.scores
        return no_nan(scores)

    def _brings(self, passage: Passage, span: Span) -> Sequence[Span]:
        """What a kept range brings along; nothing from a cutter of one's own."""
        return brought(passage, span) if self.brings else ()

    @property
    def _scale(self) -> AutoScale | None:
        return getattr(self.scorer, "scale", None)

    def _edge(self, asked: _Asked, scores: NDArray[np.float32], unknown: float = np.inf) -> float:
        """The score down to which pieces may fill what one that did not fit left; ``unknown`` without a scale."""
        scale = self._scale
        return unknown if scale is None else scale.rule().of(len(asked.passages), len(asked.worth)).edge(scores)

    def _parts(
        self, asked: _Asked, scores: NDArray[np.float32], purse: Purse
    ) -> tuple[list[tuple[int, Span]], list[str]]:
        """The parts of the pieces that a budget of tokens may have to cut, each with its piece's number, and how
        the scorer reads them."""
        named: list[tuple[int, Span]] = []
        texts: list[str] = []
        for i in too_long(purse, asked.spans, scores, self._edge(asked, scores)):
            span = asked.spans[i]
            passage = purse.passages[span.passage_id]
            own = cut(passage.text)
            piece = own.pieces[own.at(span.start)] if self.brings else Piece(span.start, span.end)
            above = own.read(piece)[0] if self.brings else ""
            for start, end in own.smaller(piece):
                if passage.text[start:end].strip():
                    named.append((i, Span(span.passage_id, start, end)))
                    over = "\n".join(s for s in (passage.header, above, own.plain(start, end)) if s)
                    texts.append(well_formed(over))
        return named, texts

    def _spent(
        self,
        rule: Tokens,
        asked: _Asked,
        scores: NDArray[np.float32],
        named: Sequence[tuple[int, Span]],
        more: NDArray[np.float32],
    ) -> _Chosen:
        """What a budget of tokens keeps: pieces that are cut stand as their parts from here on."""
        purse = Purse(rule, {p.id: p for p in asked.passages}, self._brings)
        smaller: dict[int, list[tuple[Span, float]]] = {}
        for (i, span), score in zip(named, more, strict=True):
            smaller.setdefault(i, []).append((span, float(score)))
        for i, own in smaller.items():  # of a piece that is cut, too, nothing below the margin fills the room
            low = self._edge(asked, np.array([score for _, score in own], dtype=np.float32), -np.inf)
            smaller[i] = [part for part in own if part[1] >= low]
        edge = self._edge(asked, scores)
        found, parts, unfit = spend(purse, asked.spans, scores, edge, smaller, self.max_keep)
        whole = set(found)
        unfit = [i for i in unfit if purse.alone(asked.spans[i]) > rule.limit]
        for i in ranking(scores).tolist():
            if len(whole) + len(parts) >= self.min_keep:
                break
            whole.add(i)
        made = [(i, part) for i, s in enumerate(asked.spans) for part in _split(s, parts.get(i, ()))]
        kept = np.array([i in whole or part in parts.get(i, ()) for i, part in made], dtype=np.bool_)
        notes = []
        if unfit:
            told = ", ".join(f"{s.passage_id} [{s.start}:{s.end}]" for s in (asked.spans[i] for i in unfit[:3]))
            what = "kept over the budget" if any(i in whole for i in unfit) else "left out"
            notes.append(f"{len(unfit)} too long for {rule.limit} tokens and not to be cut, {what}: {told}")
        if purse.away:
            notes.append(f"{len(purse.away)} headings or header rows gave way to pieces")
        of, spans = zip(*made, strict=True)
        return _Chosen(spans, scores[[*of]], kept, [rule.reason()] * len(made), tuple(notes), purse.away)

    def _result(
        self, query: str, asked: _Asked, rule: Rule, chosen: _Chosen, split: Sequence[int], seconds: float
    ) -> DenoiseResult:
        relevant, notes = None, list(chosen.notes)
        head = "\n".join(p.text[:200] for p in asked.passages[:20])  # enough to tell a language
        foreign = "" if self._scale is None else self._scale.foreign(query, head)
        if isinstance(rule, AutoKeep):
            relevant = None if foreign else rule.relevant(chosen.scores)
            notes = [rule.note(chosen.scores, chosen.kept) or "", *notes]
        if relevant is False:
            notes[0] = "nothing seems to bear on the question: the best score is below the floor"
            if self.on_irrelevant == "drop":
                gone = ["nothing seems to bear on the question"] * len(chosen.spans)
                chosen = replace(chosen, kept=np.zeros_like(chosen.kept), reasons=gone)
        note = "; ".join(n for n in (*notes, foreign) if n) or None
        spans, kept = chosen.spans, chosen.kept
        known = [None if s == -np.inf else float(s) for s in chosen.scores]
        promised = rule.guarantee if isinstance(rule, Calibrated | AutoKeep) else None
        scoring = Scoring(query, tuple(spans), promised, tuple(asked.spans[i] for i in split), note)

        def brings(passage: Passage, span: Span) -> list[Span]:
            return [s for s in self._brings(passage, span) if s not in chosen.away]

        stays, goes = _with_brought(asked.passages, spans, kept, brings)
        keeps = tuple(Keep(spans[i], s) for i, s in enumerate(known) if kept[i] and s is not None)
        return DenoiseResult(
            query,
            tuple(_kept(asked.passages, keeps, stays)),
            tuple(
                Drop(span, _unread(asked.passages, span) if known[i] is None else chosen.reasons[i], known[i])
                for i, own in goes
                for span in own
            ),
            Trace((Event("score", scoring, tuple(known), seconds),)),
            kept=keeps,
            relevant=relevant,
            note=note,
        )

    def warm(self, passages: Sequence[Passage], progress: Callable[[int, int], None] | None = None) -> int:
        """Read passages before any question, such as at indexing time; returns how many chunks had to be read.

        ``progress`` hears of chunks done, and of all. Raises `InputError` for a scorer that keeps nothing of what
        it reads.
        """
        if not isinstance(self.scorer, Warms):
            raise InputError(f"{type(self.scorer).__name__} keeps nothing of passages: there is nothing to warm")
        texts = [t for p in passages for t in self._readings(p, _tiling(p, self.chunker(p))) if t]
        if progress is None:
            return self.scorer.warm(texts)
        read = 0
        for start in range(0, len(texts), HEARD_EVERY):
            read += self.scorer.warm(texts[start : start + HEARD_EVERY])
            progress(min(start + HEARD_EVERY, len(texts)), len(texts))
        return read


@dataclass(frozen=True, slots=True)
class _Asked:
    """Passages cut into ``spans``, ``whole`` their texts; ``texts`` is what the scorer reads of those that have
    any, ``worth`` their positions."""

    passages: tuple[Passage, ...]
    spans: list[Span]
    whole: list[str]
    worth: list[int]
    texts: list[str]


@dataclass(frozen=True, slots=True)
class _Chosen:
    """Chunks, or parts of them where a budget cut one; their scores, which are kept, why each would be dropped,
    and what stands above some of them and gave way."""

    spans: Sequence[Span]
    scores: NDArray[np.float32]
    kept: Mask
    reasons: list[str]
    notes: tuple[str, ...] = ()
    away: frozenset[Span] = frozenset()


_Steps: TypeAlias = Generator[Sequence[str], tuple[Scored, float], DenoiseResult]


def _timed(call: Callable[..., T], *args: Any) -> tuple[T, float]:
    """What the call returns, and the seconds that it took."""
    started = time.perf_counter()
    return call(*args), time.perf_counter() - started


def _unread(passages: Sequence[Passage], span: Span) -> str:
    """Why a chunk has no score."""
    text = next(p.text for p in passages if p.id == span.passage_id)
    return "structure alone" if text[span.start : span.end].strip() else "no text"


def _split(span: Span, parts: Sequence[Span]) -> list[Span]:
    """The span as its parts and what lies between them; itself without parts."""
    cuts = [edge for part in parts for edge in (part.start, part.end)]
    tiles = tile_spans(cuts, span.start, span.end)
    return [Span(span.passage_id, start, end) for start, end in tiles] or [span]


def _with_brought(
    passages: Sequence[Passage], spans: Sequence[Span], kept: Mask, brings: Brings
) -> tuple[list[Span], list[tuple[int, list[Span]]]]:
    """The ranges that stay, kept chunks with what they bring along, and for each dropped chunk its number and the
    ranges of it that go. They tile what ``spans`` tile; a chunk of no characters goes, or stays, as it is.
    """
    by_id = {p.id: p for p in passages}
    stays = [spans[i] for i in np.flatnonzero(kept).tolist()]
    extra: dict[str, list[Span]] = {}
    for span in stays:
        extra.setdefault(span.passage_id, []).extend(brings(by_id[span.passage_id], span))
    goes: list[tuple[int, list[Span]]] = []
    for i in np.flatnonzero(~kept).tolist():
        span = spans[i]
        over = [s for s in extra.get(span.passage_id, ()) if s.start < span.end and s.end > span.start]
        inside = [Span(s.passage_id, max(s.start, span.start), min(s.end, span.end)) for s in over]
        left: list[Span] = []
        for part in _split(span, inside):
            into = stays if any(s.start <= part.start and part.end <= s.end for s in inside) else left
            into.append(part)
        if left:
            goes.append((i, left))
    return stays, goes


@runtime_checkable
class Warms(Protocol):
    """A scorer that keeps what it reads of texts, as the default and a probe's do."""

    def warm(self, texts: Sequence[str]) -> int: ...


def _carried(scorer: Scorer, name: str, otherwise: str) -> Any:
    """What the scorer was given when it was fitted: its ``calibration``, or the ``scale`` of its scores."""
    found = getattr(scorer, name, None)
    if found is None:
        raise InputError(f"this {type(scorer).__name__} comes without a {name} of its scores: {otherwise}")
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


def _kept(passages: Sequence[Passage], keeps: Sequence[Keep], stays: Sequence[Span]) -> list[Passage]:
    """Passages of the ranges that stay, scored by their best kept chunk."""
    best: dict[str, float] = {}
    for keep in keeps:
        name = keep.span.passage_id
        best[name] = max(keep.score, best.get(name, -np.inf))
    of: dict[str, list[Span]] = {}
    for span in stays:
        of.setdefault(span.passage_id, []).append(span)
    parts = [part for p in passages if (part := extract(p, of.get(p.id, []))) is not None]
    return [replace(p, score=best[p.id]) if p.id in best else p for p in parts]
