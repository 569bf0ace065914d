"""From the outcomes of a passage's calls to the passage that is kept, what is dropped, and the report."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from denoise_core.s2a.alignment import gate as gates
from denoise_core.s2a.alignment.gate import FidelityGate, Gated
from denoise_core.s2a.options import OnUnparsable
from denoise_core.s2a.replies.read import Outcome
from denoise_core.s2a.result import Report, Sentence
from denoise_core.text.chunk import extract
from denoise_core.types import Drop, Passage, Span

NOT_NEEDED = "not needed for the question"


@dataclass(frozen=True, slots=True)
class Assembled:
    """``passage`` is None when nothing is left of it; ``questions`` are those found in the written text."""

    passage: Passage | None
    drops: tuple[Drop, ...]
    report: Report
    questions: tuple[str, ...] = ()


def untouched(p: Passage, note: str) -> Assembled:
    """A passage that was not asked about: kept as it is."""
    return Assembled(p, (), Report(p.id, 0, (note,)))


def blank(p: Passage) -> Assembled:
    return Assembled(None, (Drop(Span(p.id, 0, len(p.text)), "blank"),), Report(p.id, 0))


def extracted(p: Passage, outcomes: Sequence[Outcome], policy: OnUnparsable) -> Assembled:
    """Kept pieces of the source, at exact spans."""
    keep: list[Span] = []
    drops: list[Drop] = []
    for o in outcomes:
        chosen = set(o.part.spans if o.problem is not None and policy == "keep" else o.kept or ())
        keep += chosen
        drops += [Drop(s, o.problem or NOT_NEEDED) for s in o.part.spans if s not in chosen]
    return Assembled(extract(p, keep), tuple(drops), _report(p, outcomes))


def rewritten(
    p: Passage,
    outcomes: Sequence[Outcome],
    policy: OnUnparsable,
    gate: FidelityGate | None,
    *,
    question: str,
    language: str,
) -> Assembled:
    """Written text behind the gate; where all of it is the source's own, exact spans as in `extracted`."""
    pieces: list[Gated] = []
    sentences: list[Sentence] = []
    written = ""
    settled: list[Outcome] = []
    for o in outcomes:
        piece, o = _gated(p, o, policy, gate, question, language)
        pieces.append(piece)
        settled.append(o)
        if o.written:
            written += "\n" if written else ""
            sentences += [
                replace(s, start=s.start + len(written), end=s.end + len(written)) for s in piece.sentences
            ]
            written += o.written
    spans = tuple(span for piece in pieces for span in piece.spans)
    texts = [piece.text for piece in pieces if piece.text]
    report = replace(_report(p, settled), written=written or None, sentences=tuple(sentences))
    drops = tuple(_drops(p, settled, spans))
    questions = tuple(s.text.strip() for s in sentences if s.kind == "question")
    if not texts:
        return Assembled(None, drops, report, questions)
    if all(piece.verbatim for piece in pieces if piece.text):
        return Assembled(extract(p, spans), drops, report, questions)
    out = replace(p, text="\n".join(texts), spans=_merged(spans), rewritten=True)
    return Assembled(out, drops, report, questions)


def _gated(
    p: Passage, o: Outcome, policy: OnUnparsable, gate: FidelityGate | None, question: str, language: str
) -> tuple[Gated, Outcome]:
    kept = Gated(o.part.text, o.part.spans, (), verbatim=True)
    nothing = Gated(None, (), (), verbatim=True)
    if o.problem is not None:
        return (kept if policy == "keep" else nothing), o
    if not o.written:
        return nothing, o
    if gate is None:
        return Gated(o.written, o.part.spans, ()), o
    piece = gates.check(o.written, p, o.part.spans, gate, question=question, language=language)
    added = [s for s in piece.sentences if s.kind == "added"]
    if piece.rejected:
        problem = f"{len(added)} written sentence(s) are not borne out by the text"
        return replace(kept, sentences=piece.sentences), replace(o, problem=problem)
    if piece.text is None and any(s.kind != "question" for s in piece.sentences):
        problem = "nothing that was written is borne out by the text"
        return replace(kept if policy == "keep" else nothing, sentences=piece.sentences), replace(
            o, problem=problem
        )
    if piece.text is not None and not piece.spans:  # flagged text without a source stands for all of it
        piece = replace(piece, spans=o.part.spans)
    return piece, o


def _drops(p: Passage, outcomes: Sequence[Outcome], kept: Sequence[Span]) -> list[Drop]:
    chosen = set(kept)
    return [
        Drop(span, o.problem or "left out of the rewritten text")
        for o in outcomes
        for span in o.part.spans
        if span not in chosen
    ]


def _merged(spans: Sequence[Span]) -> tuple[Span, ...]:
    out: list[Span] = []
    for span in sorted(spans, key=lambda s: s.start):
        if out and span.start <= out[-1].end:
            out[-1] = replace(out[-1], end=max(out[-1].end, span.end))
        else:
            out.append(span)
    return tuple(out)


def _report(p: Passage, outcomes: Sequence[Outcome]) -> Report:
    notes = list(dict.fromkeys(n for o in outcomes for n in o.notes))
    if len(outcomes) > 1:
        notes.append(f"split over {len(outcomes)} calls, because it is longer than one may be")
    problems = dict.fromkeys(o.problem for o in outcomes if o.problem is not None)
    return Report(p.id, len(outcomes), tuple(notes), "; ".join(problems) or None)
