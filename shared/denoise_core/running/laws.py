"""The laws every result keeps, checked on what a denoiser hands back."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from denoise_core.errors import BrokenLaw
from denoise_core.result import DenoiseResult
from denoise_core.types import Drop, Passage, Span

UNLISTED = "left out"


def check_laws(given: Sequence[Passage], result: DenoiseResult) -> DenoiseResult:
    """The result, with a `Drop` for every character that it neither keeps nor drops: then its spans tile the
    input.

    Linear in the text, and n log n in the spans. Raises `BrokenLaw` for

    * anything but a `DenoiseResult` of passages
    * an id that comes twice, or a passage or span that names one not given
    * a span outside its passage's text, or two that overlap
    * a text that is not the input's at its spans, unless it is marked ``rewritten``
    * passages that are not rewritten, in another order than the input's
    """
    if not isinstance(result, DenoiseResult):
        raise BrokenLaw(f"a denoiser must return DenoiseResult, got {type(result).__name__}")
    source = {p.id: p for p in given}
    place = {p.id: n for n, p in enumerate(given)}
    covered: dict[str, list[tuple[int, int]]] = {p.id: [] for p in given}
    seen: set[str] = set()
    last = -1
    for p in result.passages:
        if not isinstance(p, Passage):
            raise BrokenLaw(f"a DenoiseResult must hold Passages, got a {type(p).__name__}")
        if p.id in seen:
            raise BrokenLaw(f"two passages of the result have the id {p.id!r}")
        seen.add(p.id)
        for span in p.covered if p.rewritten or p.spans or p.id in source else ():
            _within(span, source)
            covered[span.passage_id].append((span.start, span.end))
        if p.rewritten:
            continue
        if p.id not in source:
            raise BrokenLaw(f"the result holds a passage {p.id!r} that was not given")
        if place[p.id] < last:
            raise BrokenLaw(f"passage {p.id!r} stands behind one that came after it")
        last = place[p.id]
        if p.text != "".join(source[s.passage_id].text[s.start : s.end] for s in p.covered):
            raise BrokenLaw(f"passage {p.id!r}: its text is not the input's at its spans")
    for drop in result.dropped:
        _within(drop.span, source)
        covered[drop.span.passage_id].append((drop.span.start, drop.span.end))
    for keep in result.kept:
        _within(keep.span, source)
    unlisted = [drop for p in given for drop in _gaps(p, covered[p.id])]
    return replace(result, dropped=(*result.dropped, *unlisted)) if unlisted else result


def _within(span: Span, source: dict[str, Passage]) -> None:
    passage = source.get(span.passage_id)
    if passage is None:
        raise BrokenLaw(f"{span} names a passage that was not given")
    if not 0 <= span.start <= span.end <= len(passage.text):
        raise BrokenLaw(f"{span} lies outside its passage of {len(passage.text)} characters")


def _gaps(passage: Passage, spans: list[tuple[int, int]]) -> list[Drop]:
    """What no span covers. Raises `BrokenLaw` for two that overlap."""
    found: list[Drop] = []
    at = 0
    for start, end in sorted(spans):
        if start < at:
            raise BrokenLaw(f"passage {passage.id!r}: two spans of the result overlap at {start}")
        if start > at:
            found.append(Drop(Span(passage.id, at, start), UNLISTED))
        at = end
    if at < len(passage.text) or (not spans and not passage.text):
        found.append(Drop(Span(passage.id, at, len(passage.text)), UNLISTED))
    return found
