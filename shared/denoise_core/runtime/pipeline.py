"""Several denoisers in a row, as one: END drops whole passages, then S2A the rest.

Each step sees what the one before kept. The result is about the first input: kept
and dropped spans of later steps are mapped back to it, so they still name its
characters and still tile it.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import accumulate
from typing import TypeVar

from denoise_core.errors import InputError
from denoise_core.protocols import Denoiser, expect_denoiser
from denoise_core.result import DenoiseResult
from denoise_core.runtime.guard import validate_result
from denoise_core.types import Drop, Keep, Passage, Span, check_passages

Chunk = TypeVar("Chunk", Keep, Drop)


class Pipeline:
    """``Pipeline(first, second, ...)``: a denoiser made of denoisers.

    The query of a step that rewrites it goes to the next one. ``kept`` scores are
    those of the last step that scores. Once a passage is rewritten, what later steps
    drop of it cannot be traced to characters: it stays marked ``is_rewritten`` and
    keeps its spans.

    Raises:
        InputError: There is no step.
        ContractViolation: A step returned an invalid result.
    """

    def __init__(self, *denoisers: Denoiser) -> None:
        if not denoisers:
            raise InputError("Pipeline(): expected at least one denoiser")
        steps = []
        for number, denoiser in enumerate(denoisers, 1):
            step = expect_denoiser(denoiser, f"Pipeline step {number}")
            steps.append(step)
        self.denoisers = tuple(steps)

    def denoise(self, query: str, passages: Iterable[Passage]) -> DenoiseResult:
        """Run all steps in order; see `Denoiser.denoise`."""
        result = DenoiseResult(query, check_passages(passages))
        for denoiser in self.denoisers:
            inputs = _as_input(result)
            step = denoiser.denoise(result.query, inputs)
            step = validate_result(inputs, step)
            result = _compose(result, step)
        return result

    async def adenoise(self, query: str, passages: Iterable[Passage]) -> DenoiseResult:
        """Do the same without blocking the event loop."""
        result = DenoiseResult(query, check_passages(passages))
        for denoiser in self.denoisers:
            inputs = _as_input(result)
            step = await denoiser.adenoise(result.query, inputs)
            step = validate_result(inputs, step)
            result = _compose(result, step)
        return result


def _as_input(result: DenoiseResult) -> tuple[Passage, ...]:
    """Return what was kept, as input of the next step."""
    inputs = []
    for passage in result.passages:
        input_passage = replace(passage, spans=(), is_rewritten=False)
        inputs.append(input_passage)
    return tuple(inputs)


def _compose(before: DenoiseResult, step: DenoiseResult) -> DenoiseResult:
    """Express ``step``, taken on what ``before`` kept, in spans of the first input."""
    sources = {p.id: SourceMap(p) for p in before.passages}
    surviving_ids = set()
    for passage in step.passages:
        for span in passage.source_spans:
            surviving_ids.add(span.passage_id)
    rewritten_ids = set()
    for passage in before.passages:
        if passage.is_rewritten:
            rewritten_ids.add(passage.id)
    # Part of a rewritten text has no characters; only all of it can drop.
    untraceable_ids = rewritten_ids & surviving_ids
    traceable_drops = []
    for drop in step.dropped:
        if drop.span.passage_id not in untraceable_ids:
            traceable_drops.append(drop)
    traceable_keeps = []
    for keep in step.kept:
        if keep.span.passage_id not in rewritten_ids:
            traceable_keeps.append(keep)
    dropped = _map_chunks(traceable_drops, sources)
    kept = _map_chunks(traceable_keeps, sources)
    # Several dropped parts of a rewritten text share its spans: each is listed once.
    distinct_drops = {drop.span: drop for drop in dropped}
    passages = [_map_passage(passage, sources) for passage in step.passages]
    relevant = step.relevant
    if relevant is None:
        relevant = before.relevant
    return DenoiseResult(
        step.query,
        tuple(passages),
        dropped=(*before.dropped, *distinct_drops.values()),
        trace=before.trace + step.trace,
        fallback=_join_notes(before.fallback, step.fallback),
        kept=tuple(kept) or before.kept,
        relevant=relevant,
        note=_join_notes(before.note, step.note),
        failures=_merge_failures(before, step, sources),
        question_note=_join_notes(before.question_note, step.question_note),
    )


def _map_chunks(
    chunks: Sequence[Chunk], sources: Mapping[str, SourceMap]
) -> list[Chunk]:
    """Return the chunks with spans of the first input; one may become several."""
    mapped = []
    for chunk in chunks:
        source = sources[chunk.span.passage_id]
        for span in source.map_to_source(chunk.span):
            mapped_chunk = replace(chunk, span=span)
            mapped.append(mapped_chunk)
    return mapped


def _map_passage(passage: Passage, sources: Mapping[str, SourceMap]) -> Passage:
    """Return a kept passage with its spans of the first input."""
    if passage.id in sources and not passage.is_rewritten:
        source = sources[passage.id].passage
        is_original = not (source.spans or source.is_rewritten)
        if is_original and passage.text == source.text:
            return replace(passage, spans=())
    spans: list[Span] = []
    is_rewritten = passage.is_rewritten
    for span in passage.source_spans:
        source_map = sources[span.passage_id]
        spans += source_map.map_to_source(span)
        if source_map.passage.is_rewritten:
            is_rewritten = True
    return replace(passage, spans=tuple(spans), is_rewritten=is_rewritten)


def _merge_failures(
    before: DenoiseResult, step: DenoiseResult, sources: Mapping[str, SourceMap]
) -> dict[str, str]:
    """Name failures by the first input's ids: a step's input may join several."""
    failures = dict(before.failures)
    for failed_id, reason in step.failures.items():
        source_ids = [failed_id]
        if failed_id in sources:
            source_spans = sources[failed_id].source_spans
            source_ids = [span.passage_id for span in source_spans]
        for source_id in dict.fromkeys(source_ids):
            earlier_reason = failures.get(source_id)
            reasons = _join_notes(earlier_reason, reason)
            failures[source_id] = reasons or ""
    return failures


def _join_notes(*notes: str | None) -> str | None:
    filled_notes = filter(None, notes)
    return "; ".join(filled_notes) or None


class SourceMap:
    """Maps ranges of a kept passage's text to the input spans that it comes from."""

    def __init__(self, passage: Passage) -> None:
        self.passage = passage
        self.source_spans = passage.source_spans
        lengths = [len(span) for span in self.source_spans]
        self.offsets = [0, *accumulate(lengths)]

    def map_to_source(self, span: Span) -> tuple[Span, ...]:
        """Return a range of the text as input spans; all of them for a rewritten text."""
        if self.passage.is_rewritten:
            return self.source_spans
        mapped = []
        first = max(0, bisect_left(self.offsets, span.start) - 1)
        for index in range(first, len(self.source_spans)):
            offset = self.offsets[index]
            source = self.source_spans[index]
            if offset > span.end:
                break
            start = max(span.start, offset)
            end = min(span.end, offset + len(source))
            # An empty source span is found by an empty range at its place.
            is_empty_range = span.start == span.end == offset
            is_empty_match = is_empty_range and len(source) == 0
            if start < end or is_empty_match:
                start += source.start - offset
                end += source.start - offset
                source_span = Span(source.passage_id, start, end)
                mapped.append(source_span)
        return tuple(mapped)
