"""From the outcomes of a passage's calls to the passage that is kept, what is dropped, and the report."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from denoise_core.s2a.alignment import gate as gates
from denoise_core.s2a.alignment.gate import FidelityGate, Gated
from denoise_core.s2a.companions import companions
from denoise_core.s2a.options import OnError, Rule
from denoise_core.s2a.replies.read import Outcome
from denoise_core.s2a.result import Report, Sentence
from denoise_core.text.chunk import extract
from denoise_core.types import Drop, Passage, Span

NOT_NEEDED = "not needed for the question"


@dataclass(frozen=True, slots=True)
class Assembled:
    """``passage`` is None when nothing is left of it."""

    passage: Passage | None
    drops: tuple[Drop, ...]
    report: Report


def untouched(p: Passage, note: str) -> Assembled:
    """A passage that was not asked about: kept as it is."""
    return Assembled(p, (), Report(p.id, 0, (note,)))


def blank(p: Passage) -> Assembled:
    return Assembled(None, (Drop(Span(p.id, 0, len(p.text)), "blank"),), Report(p.id, 0))


def extracted(p: Passage, outcomes: Sequence[Outcome], policy: OnError, *, context: bool) -> Assembled:
    """Kept pieces of the source, at exact spans; with ``context``, what they are not read well without."""
    keep: list[Span] = []
    drops: list[Drop] = []
    for o in outcomes:
        chosen = set(o.part.spans if o.problem is not None and policy == "keep" else o.kept or ())
        keep += chosen
        drops += [Drop(s, o.problem or o.over.get(s, NOT_NEEDED)) for s in o.part.spans if s not in chosen]
    brought: tuple[Span, ...] = ()
    if context and drops:
        brought = companions(p, [s for o in outcomes for s in o.part.spans], keep)
        own = set(brought)
        drops = [d for d in drops if d.span not in own]
    report = replace(_report(p, outcomes), context=brought)
    return Assembled(extract(p, [*keep, *brought]), tuple(drops), report)


def bare(p: Passage, done: Assembled) -> Assembled:
    """Extracted pieces without the white space behind the last one, which the model did not name either."""
    left = done.passage
    if left is None or not left.spans or not left.text.strip():
        return done
    *spans, last = left.spans
    end = last.start + len(p.text[last.start : last.end].rstrip())
    if end in (last.start, last.end):
        return done
    passage = extract(p, [*spans, Span(p.id, last.start, end)])
    return replace(done, passage=passage, drops=(*done.drops, Drop(Span(p.id, end, last.end), NOT_NEEDED)))


def rewritten(
    p: Passage,
    outcomes: Sequence[Outcome],
    policy: OnError,
    gate: FidelityGate | None,
    *,
    question: str,
    language: str,
    context: bool,
) -> Assembled:
    """Written text behind the gate; where all that is shown is the source's own, exact spans as in `extracted`."""
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
    verbatim = all(piece.verbatim for piece in pieces if piece.text)
    brought: tuple[Span, ...] = ()
    if context and verbatim and spans:
        units = [s for o in outcomes for s in o.part.spans]
        brought = companions(p, units, _touched(units, spans))
    report = replace(_report(p, settled), written=written or None, sentences=tuple(sentences), context=brought)
    kept = merged([*spans, *brought])
    drops = tuple(_drops(settled, kept))
    texts = [piece.text for piece in pieces if piece.text]
    if not texts:
        return Assembled(None, drops, report)
    if verbatim:
        return Assembled(extract(p, kept), drops, report)
    return Assembled(replace(p, text="\n".join(texts), spans=kept, rewritten=True), drops, report)


def within(rule: Rule, passages: Sequence[Passage], outcomes: Sequence[Outcome]) -> list[Outcome]:
    """The outcomes with only the kept pieces that ``rule`` chooses.

    A piece's score is its place in the reply that named it: the first pieces of all replies come before the second
    ones. It is measured with what it cannot be read without. Outcomes with a problem stay as they are.
    """
    texts = {p.id: p for p in passages}
    named: list[tuple[Span, int, str]] = []
    for o in outcomes:
        for span in o.kept or ():
            passage = texts[span.passage_id]
            read = [*companions(passage, o.part.spans, (span,)), span]
            named.append((span, o.order[span], "".join(passage.text[s.start : s.end] for s in read)))
    if not named:
        return list(outcomes)
    scores = np.array([-place for _, place, _ in named], dtype=np.float32)
    mask = rule.choose(scores, [text for _, _, text in named])
    stays = {span for (span, _, _), chosen in zip(named, mask) if chosen}
    return list(_chosen(outcomes, stays, rule.reason()))


def _chosen(outcomes: Sequence[Outcome], stays: set[Span], reason: str) -> Iterator[Outcome]:
    for o in outcomes:
        if o.kept is None:
            yield o
        else:
            yield replace(
                o, kept=tuple(s for s in o.kept if s in stays), over={s: reason for s in o.kept if s not in stays}
            )


def _gated(
    p: Passage, o: Outcome, policy: OnError, gate: FidelityGate | None, question: str, language: str
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


def _touched(units: Sequence[Span], spans: Iterable[Span]) -> list[Span]:
    """The units that ``spans`` lie in; both are in order within a passage."""
    starts = sorted((s.start, s.end) for s in spans)
    out: list[Span] = []
    at = 0
    for unit in units:
        while at < len(starts) and starts[at][1] <= unit.start:
            at += 1
        if at < len(starts) and starts[at][0] < unit.end:
            out.append(unit)
    return out


def _drops(outcomes: Sequence[Outcome], kept: Sequence[Span]) -> list[Drop]:
    """What of each unit is not among ``kept``, which are merged and in order."""
    drops: list[Drop] = []
    at = 0
    for o in outcomes:
        for span in o.part.spans:
            start = span.start
            while at < len(kept) and kept[at].end <= span.start:
                at += 1
            n = at
            while n < len(kept) and kept[n].start < span.end:
                if kept[n].start > start:
                    drops.append(_left_out(span, start, kept[n].start, o))
                start = max(start, kept[n].end)
                n += 1
            if start < span.end:
                drops.append(_left_out(span, start, span.end, o))
    return drops


def _left_out(span: Span, start: int, end: int, o: Outcome) -> Drop:
    return Drop(Span(span.passage_id, start, end), o.problem or "left out of the rewritten text")


def merged(spans: Iterable[Span]) -> tuple[Span, ...]:
    """The spans of one passage in order, neighbours joined."""
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
