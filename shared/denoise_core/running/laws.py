"""The laws every result keeps, checked on what a denoiser hands back."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from numbers import Integral, Real
from typing import Any

from denoise_core.errors import BrokenLaw
from denoise_core.result import DenoiseResult
from denoise_core.types import Drop, Keep, Passage, Span

UNLISTED = "left out"


def check_laws(given: Sequence[Passage], result: DenoiseResult) -> DenoiseResult:
    """The result, with a `Drop` for every character that it neither keeps nor drops: then its spans tile the
    input.

    Linear in the text, and n log n in the spans. Raises `BrokenLaw` for

    * anything but a `DenoiseResult` whose fields hold what they promise
    * an id that comes twice, or a passage or span that names one not given
    * a span outside its passage's text, or two that overlap
    * a text that is not the input's at its spans, unless it is marked ``rewritten``
    * passages that are not rewritten, in another order than the input's
    """
    result = _whole(result)
    source = {p.id: p for p in given}
    place = {p.id: n for n, p in enumerate(given)}
    covered: dict[str, list[tuple[int, int]]] = {p.id: [] for p in given}
    seen: set[str] = set()
    last = -1
    for p in result.passages:
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


def _whole(result: DenoiseResult) -> DenoiseResult:
    """The result with each field in its promised type: a generator is read once, here."""
    if not isinstance(result, DenoiseResult):
        raise BrokenLaw(f"a denoiser must return DenoiseResult, got {type(result).__name__}")
    fields: dict[str, tuple[Any, ...]] = {}
    for name, kind in _FIELDS.items():
        given = getattr(result, name)
        if not isinstance(given, Iterable) or isinstance(given, str):
            raise BrokenLaw(f"DenoiseResult.{name}: expected {kind.__name__}s, got a {type(given).__name__}")
        items = fields[name] = tuple(given)
        for item in items:
            if not isinstance(item, kind):
                raise BrokenLaw(f"DenoiseResult.{name} must hold {kind.__name__}s, got a {type(item).__name__}")
            _check_types(item)
    failures = result.failures if isinstance(result.failures, Mapping) else {None: None}
    told = (result.query, result.fallback or "", result.note or "", *failures, *failures.values())
    if not all(isinstance(t, str) for t in told):
        raise BrokenLaw("DenoiseResult: expected query, fallback, note and failures to be texts")
    same = all(items is getattr(result, name) for name, items in fields.items())
    given_once: dict[str, Any] = dict(fields)
    return result if same else replace(result, **given_once)


_FIELDS: dict[str, type] = {"passages": Passage, "dropped": Drop, "kept": Keep}


def _check_types(item: Any) -> None:
    if item.score is not None and not isinstance(item.score, float | Real):
        raise BrokenLaw(f"a score must be a number or None, got {item.score!r:.80}")
    if isinstance(item, Passage) and not (isinstance(item.id, str) and isinstance(item.spans, tuple)):
        raise BrokenLaw(f"a Passage must have a text as id and a tuple of spans, got {item.id!r:.80}")
    for span in item.spans if isinstance(item, Passage) else (item.span,):
        if not (isinstance(span, Span) and isinstance(span.start, Integral) and isinstance(span.end, Integral)):
            raise BrokenLaw(f"a range must be a Span of whole numbers, got {span!r:.80}")


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
