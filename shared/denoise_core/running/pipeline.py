"""Several denoisers one after the other, as one: END first to drop whole passages, then S2A on what is left.

Each step sees what the one before kept. The result is about the first input: kept and dropped spans of later
steps are carried back to it, so they still name its characters and still tile it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from denoise_core.errors import InputError
from denoise_core.protocols import Denoiser
from denoise_core.result import DenoiseResult, Trace
from denoise_core.types import Drop, Passage, Span


class Pipeline:
    """``Pipeline(first, second, ...)``: a denoiser made of denoisers.

    The query of a step that rewrites it goes to the next one. ``kept`` scores are those of the last step that
    scores. Once a passage is rewritten, what later steps drop of it cannot be traced to characters: it stays
    marked ``rewritten`` and stands for the same spans. Raises `InputError` without a step.
    """

    def __init__(self, *denoisers: Denoiser) -> None:
        if not denoisers:
            raise InputError("Pipeline(): expected at least one denoiser")
        self.denoisers = denoisers

    def denoise(self, query: str, passages: Sequence[Passage]) -> DenoiseResult:
        done = DenoiseResult(query, tuple(passages))
        for denoiser in self.denoisers:
            done = _then(done, denoiser.denoise(done.query, _as_input(done)))
        return done

    async def adenoise(self, query: str, passages: Sequence[Passage]) -> DenoiseResult:
        done = DenoiseResult(query, tuple(passages))
        for denoiser in self.denoisers:
            done = _then(done, await denoiser.adenoise(done.query, _as_input(done)))
        return done


def _as_input(done: DenoiseResult) -> tuple[Passage, ...]:
    """What was kept, as the next step's own input."""
    return tuple(replace(p, spans=(), rewritten=False) for p in done.passages)


def _then(before: DenoiseResult, step: DenoiseResult) -> DenoiseResult:
    """``step``, taken on what ``before`` kept, told in terms of what ``before`` was taken on."""
    given = {p.id: p for p in before.passages}
    passages = tuple(
        replace(
            p,
            spans=tuple(s for span in p.covered for s in back(span, given[span.passage_id])),
            rewritten=p.rewritten or any(given[s.passage_id].rewritten for s in p.covered),
        )
        for p in step.passages
    )
    still = {s.passage_id for p in step.passages for s in p.covered}
    dropped = [
        replace(drop, span=s)
        for drop in step.dropped
        for source in [given[drop.span.passage_id]]
        # Part of a rewritten text has no characters of its own to name; only all of it can be dropped.
        if not source.rewritten or source.id not in still
        for s in back(drop.span, source)
    ]
    kept = [
        replace(keep, span=s)
        for keep in step.kept
        for source in [given[keep.span.passage_id]]
        if not source.rewritten
        for s in back(keep.span, source)
    ]
    return DenoiseResult(
        step.query,
        tuple(replace(p, spans=()) if _untouched(p, given) else p for p in passages),
        (*before.dropped, *_once(dropped)),
        Trace(before.trace.events + step.trace.events),
        "; ".join(f for f in (before.fallback, step.fallback) if f) or None,
        tuple(kept) or before.kept,
        before.relevant if step.relevant is None else step.relevant,
        "; ".join(n for n in (before.note, step.note) if n) or None,
    )


def back(span: Span, source: Passage) -> tuple[Span, ...]:
    """A range of ``source``'s text as ranges of what ``source`` stands for; all of it for a rewritten text."""
    if source.rewritten:
        return source.covered
    out: list[Span] = []
    at = 0  # where each covered range begins in the text
    for own in source.covered:
        start, end = max(span.start, at), min(span.end, at + len(own))
        if start < end or (len(own) == 0 and span.start == span.end == at):
            out.append(Span(own.passage_id, own.start + start - at, own.start + end - at))
        at += len(own)
    return tuple(out)


def _untouched(passage: Passage, given: dict[str, Passage]) -> bool:
    """Whether every step left the passage as the user gave it."""
    source = given.get(passage.id)
    return source is not None and not source.spans and not passage.rewritten and passage.text == source.text


def _once(drops: list[Drop]) -> list[Drop]:
    """A rewritten text dropped in several pieces stands for one set of spans: each is listed once."""
    return list({d.span: d for d in drops}.values())
