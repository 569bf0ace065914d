"""Several denoisers one after the other, as one: END first to drop whole passages, then S2A on what is left.

Each step sees what the one before kept. The result is about the first input: kept and dropped spans of later
steps are carried back to it, so they still name its characters and still tile it.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Mapping
from dataclasses import replace
from itertools import accumulate

from denoise_core.errors import InputError
from denoise_core.protocols import Denoiser, expect_denoiser
from denoise_core.result import DenoiseResult, Trace
from denoise_core.runtime.guard import validate_result
from denoise_core.types import Passage, Span, check_passages


class Pipeline:
    """``Pipeline(first, second, ...)``: a denoiser made of denoisers.

    The query of a step that rewrites it goes to the next one. ``kept`` scores are those of the last step that
    scores. Once a passage is rewritten, what later steps drop of it cannot be traced to characters: it stays
    marked ``rewritten`` and stands for the same spans. Raises `InputError` without a step, and `BrokenLaw`
    for a step whose result is none.
    """

    def __init__(self, *denoisers: Denoiser) -> None:
        if not denoisers:
            raise InputError("Pipeline(): expected at least one denoiser")
        self.denoisers = tuple(
            expect_denoiser(d, f"Pipeline step {n}") for n, d in enumerate(denoisers, 1)
        )

    def denoise(self, query: str, passages: Iterable[Passage]) -> DenoiseResult:
        done = DenoiseResult(query, check_passages(passages))
        for denoiser in self.denoisers:
            given = _as_input(done)
            done = _then(
                done, validate_result(given, denoiser.denoise(done.query, given))
            )
        return done

    async def adenoise(self, query: str, passages: Iterable[Passage]) -> DenoiseResult:
        done = DenoiseResult(query, check_passages(passages))
        for denoiser in self.denoisers:
            given = _as_input(done)
            done = _then(
                done, validate_result(given, await denoiser.adenoise(done.query, given))
            )
        return done


def _as_input(done: DenoiseResult) -> tuple[Passage, ...]:
    """What was kept, as the next step's own input."""
    return tuple(replace(p, spans=(), is_rewritten=False) for p in done.passages)


def _then(before: DenoiseResult, step: DenoiseResult) -> DenoiseResult:
    """``step``, taken on what ``before`` kept, told in terms of what ``before`` was taken on."""
    given = {p.id: SourceMap(p) for p in before.passages}
    still = {s.passage_id for p in step.passages for s in p.source_spans}
    dropped = [
        replace(drop, span=s)
        for drop in step.dropped
        for source in [given[drop.span.passage_id]]
        # Part of a rewritten text has no characters of its own to name; only all of it can be dropped.
        if not source.passage.is_rewritten or source.passage.id not in still
        for s in source.back(drop.span)
    ]
    kept = [
        replace(keep, span=s)
        for keep in step.kept
        for source in [given[keep.span.passage_id]]
        if not source.passage.is_rewritten
        for s in source.back(keep.span)
    ]
    return DenoiseResult(
        step.query,
        tuple(_told(p, given) for p in step.passages),
        # A rewritten text dropped in several pieces stands for one set of spans: each is listed once.
        (*before.dropped, *{d.span: d for d in dropped}.values()),
        Trace(before.trace.events + step.trace.events),
        _joined(before.fallback, step.fallback),
        tuple(kept) or before.kept,
        before.relevant if step.relevant is None else step.relevant,
        _joined(before.note, step.note),
        _failures(before, step, given),
        _joined(before.question_note, step.question_note),
    )


def _told(passage: Passage, given: Mapping[str, SourceMap]) -> Passage:
    """A kept passage with the spans that it stands for in the first input."""
    source = given[passage.id].passage if passage.id in given else None
    if (
        source
        and passage.text == source.text
        and not (source.spans or source.is_rewritten or passage.is_rewritten)
    ):
        return replace(passage, spans=())  # every step left it as the user gave it
    return replace(
        passage,
        spans=tuple(
            s
            for span in passage.source_spans
            for s in given[span.passage_id].back(span)
        ),
        is_rewritten=passage.is_rewritten
        or any(given[s.passage_id].passage.is_rewritten for s in passage.source_spans),
    )


def _failures(
    before: DenoiseResult, step: DenoiseResult, given: Mapping[str, SourceMap]
) -> dict[str, str]:
    """Named by what stands behind the passage that failed: the step's input may have come of several."""
    failures = dict(before.failures)
    for failed, why in step.failures.items():
        behind = (
            [s.passage_id for s in given[failed].source_spans]
            if failed in given
            else [failed]
        )
        for name in dict.fromkeys(behind):
            failures[name] = f"{failures[name]}; {why}" if name in failures else why
    return failures


def _joined(*said: str | None) -> str | None:
    return "; ".join(filter(None, said)) or None


class SourceMap:
    """A passage that one step kept, with where each range it stands for begins in its text."""

    def __init__(self, passage: Passage) -> None:
        self.passage = passage
        self.source_spans = passage.source_spans
        self.starts = [0, *accumulate(len(own) for own in self.source_spans)]

    def back(self, span: Span) -> tuple[Span, ...]:
        """A range of the text as ranges of what the passage stands for; all of it for a rewritten text."""
        if self.passage.is_rewritten:
            return self.source_spans
        out: list[Span] = []
        first = max(0, bisect_left(self.starts, span.start) - 1)
        for place in range(first, len(self.source_spans)):
            at, own = self.starts[place], self.source_spans[place]
            if at > span.end:
                break
            start, end = max(span.start, at), min(span.end, at + len(own))
            if start < end or (len(own) == 0 and span.start == span.end == at):
                out.append(
                    Span(own.passage_id, own.start + start - at, own.start + end - at)
                )
        return tuple(out)
