"""From the outcomes of a passage's calls to the passage that is kept, what is dropped, and the report."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from denoise_core.s2a.asks import Part
from denoise_core.s2a.companions import companions
from denoise_core.s2a.cover import Source
from denoise_core.s2a.options import OnError, Options, Rule
from denoise_core.s2a.replies import Outcome
from denoise_core.s2a.result import Report, Sentence
from denoise_core.s2a.units import units
from denoise_core.spans import merge_in_passage
from denoise_core.support import check
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
    p: Passage, outcomes: Sequence[Outcome], policy: OnError, options: Options, *, question: str = ""
) -> Assembled:
    """What the model wrote, by the source sentences that cover it; with ``show="written"`` its own text.

    ``question`` is what a written sentence may repeat without saying anything.
    """
    found = [_covered(p, o, options, question) for o in outcomes]
    settled = [o for _, o in found]
    kept = [span for own, o in found for span in _shown(own, o, policy)]
    units = [s for o in outcomes for s in o.part.spans]
    brought = companions(p, units, kept) if options.context and kept else ()
    text, sentences = _together(found)
    report = replace(_report(p, settled), written=text or None, sentences=sentences, context=brought)
    spans = merge_in_passage(p.id, [*kept, *brought])
    drops = tuple(Drop(s, _why(s, settled)) for s in units if s not in {*kept, *brought})
    if options.show == "written" and report.problem is None and text.strip():
        # The model's own text; one without a source stands for the whole of it.
        passage = replace(p, text=text.strip(), spans=spans or merge_in_passage(p.id, units), rewritten=True)
        return Assembled(passage, drops if spans else (), report)
    return Assembled(extract(p, spans), drops, report)


def _shown(own: Sequence[Sentence], o: Outcome, policy: OnError) -> list[Span]:
    """The source that stands for one outcome: what covers its sentences, or all of it where it fell back."""
    if o.problem is not None:
        return list(o.part.spans) if policy == "keep" else []
    return [span for s in own for span in s.spans]


def _together(found: Sequence[tuple[list[Sentence], Outcome]]) -> tuple[str, tuple[Sentence, ...]]:
    """All that was written of one passage, a line for each call, and its sentences at their places there."""
    text = ""
    sentences: list[Sentence] = []
    for own, o in found:
        if o.written:
            text += "\n" if text else ""
            sentences += [replace(s, start=s.start + len(text), end=s.end + len(text)) for s in own]
            text += o.written
    return text, tuple(sentences)


def _covered(p: Passage, o: Outcome, options: Options, question: str) -> tuple[list[Sentence], Outcome]:
    """The written sentences with their covers; a problem when something was written and nothing covers it."""
    if o.problem is not None or not o.written:
        return [], o
    source = Source([p.text[s.start : s.end] for s in o.part.spans], options.language)
    checked = options.flag or options.show == "written"
    found: list[Sentence] = []
    asked = _plain(question)
    for span in units(Passage(o.written, p.id), language=options.language):
        text = o.written[span.start : span.end]
        if not text.strip() or (asked and _plain(text) == asked):
            continue
        cover = source.cover(text)
        spans = tuple(o.part.spans[n] for n in cover.chosen)
        said = Sentence(text.strip(), span.start, span.end, spans, cover.share)
        found.append(_checked(said, o.part) if checked else said)
    if found and not any(s.spans for s in found) and options.show == "source":
        return found, replace(o, problem="no sentence of the text covers anything that was written")
    return found, o


def _checked(said: Sentence, part: Part) -> Sentence:
    """With what the checker shows without a judge: unsupported where the source lacks a number, date or name."""
    verdict = check("", said.text, [Passage(part.text, part.passage.id)])
    lacking = [str(d) for claim in verdict.claims for d in claim.differences]
    return replace(said, supported=False if lacking else None, why="; ".join(lacking) or verdict.reason)


def _plain(text: str) -> str:
    return " ".join(text.casefold().split())


def _why(span: Span, outcomes: Sequence[Outcome]) -> str:
    problem = next((o.problem for o in outcomes if o.problem and span in set(o.part.spans)), None)
    return problem or "nothing that was written stands for it"


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
    reason = rule.reason()

    def narrowed(o: Outcome, kept: tuple[Span, ...]) -> Outcome:
        over = {s: reason for s in kept if s not in stays}
        return replace(o, kept=tuple(s for s in kept if s in stays), over=over)

    return [o if o.kept is None else narrowed(o, o.kept) for o in outcomes]


def _report(p: Passage, outcomes: Sequence[Outcome]) -> Report:
    notes = list(dict.fromkeys(n for o in outcomes for n in o.notes))
    if len(outcomes) > 1:
        notes.append(f"split over {len(outcomes)} calls, because it is longer than one may be")
    problems = dict.fromkeys(o.problem for o in outcomes if o.problem is not None)
    return Report(p.id, sum(o.calls for o in outcomes), tuple(notes), "; ".join(problems) or None)
