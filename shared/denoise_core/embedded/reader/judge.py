"""The judge that ships: a reader of real text says whether passages support a claim, how surely, and where.

An answer to a question is found among the spans of the passages and weighed against the best other span; a claim
in free words is read against what of the evidence shares most with it. Both give a calibrated probability, and
where it lies between the lines nothing is said (`Calibration`: two logistic functions, fitted and given their
operating points on questions and documents that nothing was trained on, in `denoise_lab.span_reader`).
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from importlib.resources import files
from pathlib import Path
from typing import Any, Literal

from denoise_core._optional import require
from denoise_core.embedded.default import DefaultScorer
from denoise_core.embedded.minilm import check, minilm, weights
from denoise_core.embedded.reader.claims import NEAR, Told, chosen, features, logit
from denoise_core.embedded.reader.forward import Network
from denoise_core.embedded.reader.span_reader import NOWHERE, Fit, Found, Reads, SpanReader
from denoise_core.embedded.reader.windows import tokens, windows
from denoise_core.errors import InputError
from denoise_core.running.caches import Once
from denoise_core.running.offload import offload
from denoise_core.support.judging import Claim, Judged, Judgement, Quote
from denoise_core.text.language import language_of
from denoise_core.types import Passage, Span, check_passages, well_formed

Point = Literal["lenient", "even", "strict"]
POINTS: tuple[Point, ...] = ("lenient", "even", "strict")


@dataclass(frozen=True, slots=True)
class Logistic:
    """``weights`` by feature and a ``bias``; right and wrong counted as equally likely before.

    ``points`` are the probabilities from which a claim is supported at `POINTS`, where at most .3, .2 and .1 of
    the wrong ones passed; below ``refused`` it is said not to be, between the two nothing is said.
    """

    weights: Mapping[str, float] = field(default_factory=dict)
    bias: float = 0.0
    points: Mapping[str, float] = field(default_factory=lambda: dict.fromkeys(POINTS, 0.5))
    refused: float = 0.0

    def probability(self, features: Mapping[str, float]) -> float:
        """In [0, 1], of features with the names of ``weights``."""
        x = self.bias + sum(w * features[name] for name, w in self.weights.items())
        return 1 / (1 + math.exp(-min(max(x, -60.0), 60.0)))

    def decide(self, probability: float, point: str) -> bool | None:
        """True from the operating point on, False below ``refused``, None between."""
        if probability >= self.points[point]:
            return True
        return False if probability < self.refused else None


@dataclass(frozen=True, slots=True)
class Calibration:
    """``answers`` of `Fit.features`, ``claims`` of `claims.features`; ``floor`` is the probability of holding an
    answer below which a window is said to hold none."""

    answers: Logistic = field(default_factory=Logistic)
    claims: Logistic = field(default_factory=Logistic)
    floor: float = 0.2

    @staticmethod
    def read(text: str) -> Calibration:
        """Of its fields as JSON."""
        data: dict[str, Any] = json.loads(text)
        return Calibration(Logistic(**data["answers"]), Logistic(**data["claims"]), data["floor"])


NAME = 4  # words from which on a claim's own words say which language it is in
LONGEST = 25  # words of a claim that is looked for as a span
SPREAD = 0.5  # added to the spread of the passages' scores, so that passages all alike do not stand apart


@dataclass(frozen=True, slots=True)
class Read:
    """What the networks say of one claim: how it fits the question, and the features of both calibrations."""

    fit: Fit
    answers: dict[str, float]
    claims: dict[str, float]
    evidence: Span | None


class ShippedJudge:
    """Judges claims without any other model, in English. Safe to share between threads.

    ``point`` says where a claim counts as supported: at ``lenient`` .3 of the wrong ones passed on the questions
    and documents that it was calibrated on, at ``even`` .2, at ``strict`` .1. Raises `InputError` for another.
    """

    def __init__(self, reader: SpanReader, claims: Reads, calibration: Calibration, point: Point = "even") -> None:
        if point not in POINTS:
            raise InputError(f"point={point!r}: expected {', '.join(map(repr, POINTS))}")
        self.reader, self.claims, self.calibration, self.point = reader, claims, calibration, point

    @property
    def id(self) -> str:
        """With its operating point, and the weights' by their version."""
        return f"shipped reader, {self.point}"

    def judge(self, question: str, claims: Sequence[Claim], passages: Sequence[Passage]) -> Judgement:
        """One `Judged` a claim, with the spans found. Of several claims each is read by itself, and the one that
        fits the question best says whether the answer answers it."""
        if isinstance(claims, str) or not all(isinstance(c, Claim) for c in claims):
            raise InputError("judge: expected a sequence of Claim, as `denoise_core.support.parse` gives them")
        given = check_passages(passages)
        if not any(p.text.strip() for p in given):
            why = "there is no evidence"
            return Judgement(tuple(_unknown(c, "empty_evidence", why) for c in claims), why=why)
        read = self.read(question, [c.whole for c in claims], given)
        fits = [r for r in read if r.fit is not NOWHERE]
        if len(claims) > 1:
            read = [replace(r, fit=NOWHERE) for r in read]
        texts = {p.id: p.text for p in given}
        said = tuple(self._said(question, c, r, texts) for c, r in zip(claims, read, strict=True))
        best = max(fits, key=self.probability, default=None)
        return Judgement(said, answers=None if best is None else self.decide(best))

    async def ajudge(self, question: str, claims: Sequence[Claim], passages: Sequence[Passage]) -> Judgement:
        """`judge` on a thread."""
        return await offload(self.judge, question, claims, passages)

    def read(self, question: str, claims: Sequence[str], passages: Sequence[Passage]) -> list[Read]:
        """What the networks say of each claim, before any line is drawn; those of at most `LONGEST` words that
        answer a question are looked for as spans."""
        short = [bool(question.strip()) and len(c.split()) <= LONGEST for c in claims]
        asked = [c for c, ok in zip(claims, short, strict=True) if ok]
        fits = iter(self.reader.fits(question, asked, passages) if asked else ())
        return self._read(question, claims, passages, [next(fits) if ok else NOWHERE for ok in short])

    def _read(
        self, question: str, claims: Sequence[str], passages: Sequence[Passage], fits: Sequence[Fit]
    ) -> list[Read]:
        cut = [w for p in passages for w in windows(p, self.reader.tokens)]
        rows = [chosen(question, c, cut, self.reader.tokens) for c in claims]
        logits = self.claims.logits([r.row for r in rows])
        texts = {p.id: p.text for p in passages}
        told = [Told.of(texts[w.passage_id][w.start : w.end], NEAR) for w in cut]
        stands = self._standing(question, passages) if any(fit.at for fit in fits) else {}
        out = []
        for claim, fit, row, said in zip(claims, fits, rows, logits, strict=True):
            found = features(logit(said), claim, told)
            where = row.windows[0] if row.windows else None
            evidence = Span(where.passage_id, where.start, where.end) if where else None
            own = stands[fit.at.passage_id] if fit.at else 0.0
            out.append(Read(fit, {**fit.features, "logit": found["logit"], "stands": own}, found, evidence))
        return out

    def _standing(self, question: str, passages: Sequence[Passage]) -> dict[str, float]:
        """How far the question prefers each passage to the others, in their spreads; 0 for one alone. Noise puts
        its answers into passages that stand back."""
        scores = DefaultScorer().score(well_formed(question), [well_formed(p.headed) for p in passages])
        apart = (scores - scores.mean()) / (scores.std() + SPREAD)
        return {p.id: float(x) for p, x in zip(passages, apart, strict=True)}

    def probability(self, read: Read) -> float:
        """That people would call the claim supported: by the span found for it, else by the claim as it reads."""
        line, features = self._line(read)
        return line.probability(features)

    def decide(self, read: Read) -> bool | None:
        """What is said of it at this operating point."""
        return self._line(read)[0].decide(self.probability(read), self.point)

    def _line(self, read: Read) -> tuple[Logistic, dict[str, float]]:
        if read.fit is NOWHERE:
            return self.calibration.claims, read.claims
        return self.calibration.answers, read.answers

    def _said(self, question: str, claim: Claim, read: Read, texts: dict[str, str]) -> Judged:
        told = claim.whole if len(claim.whole.split()) > NAME or not question.strip() else question
        if language_of(told, "en") != "en":
            return _unknown(claim, "language", "this judge reads English")
        supported, probability = self.decide(read), self.probability(read)
        found = read.fit is not NOWHERE
        where = read.fit.at if found else read.evidence
        quotes = [Quote(s, texts[s.passage_id][s.start : s.end]) for s in (where,) if s is not None]
        kind = why = ""
        if supported is None:
            kind, why = "unsure", "the reader cannot tell"
        elif not supported and found and read.fit.instead is not None:
            s = read.fit.instead
            quotes.insert(0, Quote(s, texts[s.passage_id][s.start : s.end], "contradicts"))
            kind, why = "off_question", f"the evidence rather answers {quotes[0].text!r}"
        elif not supported:
            kind, why = "unsupported", "the evidence does not say this"
        shown = tuple(quotes) if supported is not False or kind == "off_question" else ()
        own = (claim.text, claim.start, claim.end, supported, round(probability, 4), shown)
        return Judged(*own, kind=kind, why=why)


def _unknown(claim: Claim, kind: str, why: str) -> Judged:
    return Judged(claim.text, claim.start, claim.end, None, kind=kind, why=why)


DIGESTS = {
    "reader.safetensors": "4995079004bd93615d31e2a4fe715992be166525e535dc5b29008f43a3753bd8",
    "claims.safetensors": "6e919f8f1394dbd54a9c0c2d74f56888eb68b576caf8234e242a4b7934af0aa7",
    "calibration.json": "697b2765ff15757eab7534c59d0aa716799e66c9f787aa180a3b80dea236ca3d",
}

_loaded: Once[_Parts] = Once(keep=None)


class _Parts:
    """The networks, which share MiniLM's word pieces, and the calibration."""

    def __init__(self) -> None:
        loads = require("safetensors.numpy", extra="embedded")
        base = weights(minilm())
        self.calibration = Calibration.read(shipped("calibration.json").decode("utf-8"))
        network = Network(base, loads.load(shipped("reader.safetensors")))
        self.reader = _Shipped(network, tokens(), floor=self.calibration.floor)
        self.claims = Network(base, loads.load(shipped("claims.safetensors")))


class _Shipped(SpanReader):
    """Pickled or copied, it is the shared one of that process."""

    def __reduce__(self) -> tuple[Any, ...]:
        return span_reader, ()


class _ShippedJudge(ShippedJudge):
    """Pickled or copied, it is the one of that process at the same operating point."""

    def __reduce__(self) -> tuple[Any, ...]:
        return judge, (self.point,)


def shipped(name: str) -> bytes:
    """The bytes of a file that ships. Raises `InputError` when they are not the ones that this version knows."""
    path = Path(str(files("denoise_core.embedded") / "data" / "reader" / name))
    check(path, DIGESTS[name], "rag-denoise")
    return path.read_bytes()


def span_reader() -> SpanReader:
    """The shared reader; threads that ask at the same time wait for one load.

    Raises `MissingExtra` without the extra ``embedded``.
    """
    return _loaded("parts", _Parts).reader


def judge(point: Point = "even") -> ShippedJudge:
    """The judge that ships at an operating point: ``lenient``, ``even`` or ``strict``; see `ShippedJudge`.

    Raises `MissingExtra` without the extra ``embedded``.
    """
    parts = _loaded("parts", _Parts)
    return _ShippedJudge(parts.reader, parts.claims, parts.calibration, point)


def answer(query: str, passages: Sequence[Passage]) -> Found | None:
    """Where the passages answer the question, by the reader that ships; None when they seem not to."""
    return span_reader().answer(query, passages)
