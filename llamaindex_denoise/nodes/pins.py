"""What ``must_keep`` names: records and paragraphs that stay, whatever is decided."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace

from denoise_core import DenoiseResult, Drop, Passage, Span
from denoise_core.spans import clip_spans, complement_spans, merge_spans
from denoise_core.text.chunk import extract_spans
from denoise_core.text.structural import chunk_text


def keep_pinned(
    result: DenoiseResult,
    inputs: Sequence[Passage],
    is_pinned: Callable[[str], bool] | None,
) -> DenoiseResult:
    """Return the result with all records and paragraphs that must stay.

    A text that a model wrote from a passage with such a part is replaced by that
    passage. Passages that were left out come last, or in their place if the result is
    in the order of the input.

    Args:
        result: Result of any denoiser.
        inputs: The denoiser's input.
        is_pinned: Whether a record or paragraph must stay; None if none must.
    """
    pinned_spans = {}
    if is_pinned is not None:
        pinned_spans = _spans_by_passage(inputs, is_pinned)
    if not pinned_spans:
        return result
    kept_ids = [passage.id for passage in result.passages]
    places = {origin.id: place for place, origin in enumerate(inputs)}
    passages = []
    for kept in result.passages:
        if kept.id in pinned_spans:
            origin = inputs[places[kept.id]]
            kept = _with_spans(kept, origin, pinned_spans[kept.id])
        passages.append(kept)
    for passage_id in [key for key in pinned_spans if key not in kept_ids]:
        origin = inputs[places[passage_id]]
        pinned_part = extract_spans(origin, pinned_spans[passage_id])
        passages.append(replace(pinned_part or origin, score=None))
    known_places = [places.get(passage_id, -1) for passage_id in kept_ids]
    if known_places == sorted(known_places):
        passages.sort(key=lambda passage: places.get(passage.id, -1))
    drops = tuple(_other_drops(result.dropped, pinned_spans))
    return replace(result, passages=tuple(passages), dropped=drops)


def _with_spans(kept: Passage, origin: Passage, spans: Sequence[Span]) -> Passage:
    """Return what is kept of a passage with more of it."""
    kept_part: Passage | None = origin
    if not kept.is_rewritten:
        kept_part = extract_spans(origin, (*kept.source_spans, *spans))
    return replace(kept_part or origin, score=kept.score)


def _spans_by_passage(
    inputs: Sequence[Passage], is_pinned: Callable[[str], bool]
) -> dict[str, tuple[Span, ...]]:
    pinned_spans = {}
    for origin in inputs:
        spans = _pinned_spans(origin, is_pinned)
        if spans:
            pinned_spans[origin.id] = spans
    return pinned_spans


def _pinned_spans(
    passage: Passage, is_pinned: Callable[[str], bool]
) -> tuple[Span, ...]:
    text = passage.text
    spans = []
    for chunk in chunk_text(text).chunks:
        texts = (chunk.text_of(text), chunk.display_text)
        if any(map(is_pinned, texts)):
            spans.append(Span(passage.id, chunk.start, chunk.end))
    return tuple(spans)


def _other_drops(
    drops: Sequence[Drop], pinned_spans: Mapping[str, Sequence[Span]]
) -> Iterator[Drop]:
    """Yield what is still dropped beside the pinned parts."""
    for drop in drops:
        span = drop.span
        pinned = pinned_spans.get(span.passage_id, ())
        pinned_ranges = merge_spans((pin.start, pin.end) for pin in pinned)
        inner_ranges = clip_spans(pinned_ranges, span.start, span.end)
        if not inner_ranges:
            yield drop
            continue
        for start, end in complement_spans(inner_ranges, span.start, span.end):
            yield replace(drop, span=Span(span.passage_id, start, end))
