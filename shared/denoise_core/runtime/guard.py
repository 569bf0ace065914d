"""Never worse than no denoising: what a failure or an empty result gives is decided here, and said.

Beside it the laws that every result keeps, checked on what a denoiser hands back.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import pairwise
from numbers import Integral, Real
from typing import Any, Literal

from denoise_core.errors import (
    ContractViolation,
    EmptyResult,
    InputError,
    is_user_error,
)
from denoise_core.protocols import Denoiser, expect_denoiser
from denoise_core.result import DenoiseResult, trace_of
from denoise_core.runtime.fallbacks import log_fallback
from denoise_core.spans import complement_spans, merge_spans
from denoise_core.types import Drop, Keep, Passage, Span, check_passages

FailurePolicy = Literal["keep", "drop", "raise"]

_DONE = {"keep": "the input was kept as it is", "drop": "everything was dropped"}
_ITEM = {"keep": "was kept as it is", "drop": "was dropped"}


class Guard:
    """A denoiser around another one, with a policy for each way of losing the context.

    ``on_error``: what a failure gives. ``"keep"`` hands the input back untouched, ``"drop"`` nothing,
    ``"raise"`` lets it through. A failure is an exception, or a result that breaks a law: another type, ids that
    were not given, spans that are not the text's, a changed order (`ContractViolation`). Mistakes always raise, as
    `denoise_core.errors.is_user_error` tells them: settings, types, a missing extra, a refused key.

    ``on_empty``: the same for a result that keeps nothing (or only white space) of input that had text;
    ``"raise"`` is `EmptyResult`. The defaults never lose context. A result that says ``relevant=False`` may be
    empty: that nothing fits is what it found. Whatever was done instead of denoising stands in
    ``result.fallback`` and, by passage, in ``result.failures``, and is logged. Cancellation and Ctrl-C always go
    through.
    """

    def __init__(
        self,
        denoiser: Denoiser,
        *,
        on_error: FailurePolicy = "keep",
        on_empty: FailurePolicy = "keep",
    ) -> None:
        for name, policy in (("on_error", on_error), ("on_empty", on_empty)):
            if policy not in ("keep", "drop", "raise"):
                raise InputError(
                    f"{name}={policy!r}: expected 'keep', 'drop' or 'raise'"
                )
        self.denoiser = expect_denoiser(denoiser)
        self.on_error: FailurePolicy = on_error
        self.on_empty: FailurePolicy = on_empty

    def denoise(self, query: str, passages: Iterable[Passage]) -> DenoiseResult:
        given = check_passages(passages)
        try:
            result = validate_result(given, self.denoiser.denoise(query, given))
        except Exception as error:
            return self._failed(query, given, error)
        return self._checked(given, result)

    async def adenoise(self, query: str, passages: Iterable[Passage]) -> DenoiseResult:
        given = check_passages(passages)
        try:
            result = validate_result(given, await self.denoiser.adenoise(query, given))
        except Exception as error:
            return self._failed(query, given, error)
        return self._checked(given, result)

    def handle_failed_item(self, item: str, error: Exception) -> str | None:
        """What to note on one ``item`` that stays as it came, by ``on_error``; None for one that goes.

        For adapters: a document that cannot be made a passage, or not be made a document again. Whatever the
        error's class, it is about this item, and the others go on. Raises it under ``"raise"``.
        """
        if self.on_error == "raise":
            raise error
        why = log_fallback(
            f"{type(self.denoiser).__name__}, conversion",
            error,
            f"{item} {_ITEM[self.on_error]}",
        )
        return f"{why}; {_ITEM[self.on_error]}" if self.on_error == "keep" else None

    def _failed(
        self, query: str, given: tuple[Passage, ...], error: Exception
    ) -> DenoiseResult:
        if self.on_error == "raise" or is_user_error(error):
            raise error
        why = log_fallback(type(self.denoiser).__name__, error, _DONE[self.on_error])
        return _instead(
            DenoiseResult(query, (), trace=trace_of(error)), given, self.on_error, why
        )

    def _checked(
        self, given: tuple[Passage, ...], result: DenoiseResult
    ) -> DenoiseResult:
        if any(p.text.strip() for p in result.passages) or not any(
            p.text.strip() for p in given
        ):
            return result
        if result.relevant is False:
            return result
        if self.on_empty == "raise":
            raise EmptyResult(
                f"nothing was kept of {len(given)} passages; pass on_empty='keep' to keep all then"
            )
        why = log_fallback(
            type(self.denoiser).__name__, "nothing was kept", _DONE[self.on_empty]
        )
        return _instead(result, given, self.on_empty, why)


def _instead(
    result: DenoiseResult, given: tuple[Passage, ...], policy: FailurePolicy, why: str
) -> DenoiseResult:
    done = f"{why}; {_DONE[policy]}"
    failures = {
        p.id: "; ".join(w for w in (result.failures.get(p.id), done) if w)
        for p in given
    }
    said = f"{result.fallback}; {done}" if result.fallback else done
    if policy == "keep":
        # Spans name the input of this step; what an earlier step may have left there is about another text.
        kept = tuple(
            replace(p, spans=(), is_rewritten=False) if p.spans or p.is_rewritten else p
            for p in given
        )
        return replace(
            result, passages=kept, dropped=(), kept=(), fallback=said, failures=failures
        )
    dropped = tuple(Drop(Span(p.id, 0, len(p.text)), why) for p in given)
    return replace(
        result, passages=(), dropped=dropped, kept=(), fallback=said, failures=failures
    )


UNLISTED_REASON = "left out"


def validate_result(given: Sequence[Passage], result: DenoiseResult) -> DenoiseResult:
    """The result, with a `Drop` for every character that it neither keeps nor drops: then its spans tile the
    input.

    Linear in the text, and n log n in the spans. Raises `ContractViolation` for

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
            raise ContractViolation(f"two passages of the result have the id {p.id!r}")
        seen.add(p.id)
        for span in (
            p.source_spans if p.is_rewritten or p.spans or p.id in source else ()
        ):
            _within(span, source)
            covered[span.passage_id].append((span.start, span.end))
        if p.is_rewritten:
            continue
        if p.id not in source:
            raise ContractViolation(
                f"the result holds a passage {p.id!r} that was not given"
            )
        if place[p.id] < last:
            raise ContractViolation(
                f"passage {p.id!r} stands behind one that came after it"
            )
        last = place[p.id]
        if p.text != "".join(
            source[s.passage_id].text[s.start : s.end] for s in p.source_spans
        ):
            raise ContractViolation(
                f"passage {p.id!r}: its text is not the input's at its spans"
            )
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
        raise ContractViolation(
            f"a denoiser must return DenoiseResult, got {type(result).__name__}"
        )
    fields: dict[str, tuple[Any, ...]] = {}
    for name, kind in _FIELDS.items():
        given = getattr(result, name)
        if not isinstance(given, Iterable) or isinstance(given, str):
            raise ContractViolation(
                f"DenoiseResult.{name}: expected {kind.__name__}s, got a {type(given).__name__}"
            )
        items = fields[name] = tuple(given)
        for item in items:
            if not isinstance(item, kind):
                raise ContractViolation(
                    f"DenoiseResult.{name} must hold {kind.__name__}s, got a {type(item).__name__}"
                )
            _check_types(item)
    failures = result.failures if isinstance(result.failures, Mapping) else {None: None}
    told = (
        result.query,
        result.fallback or "",
        result.note or "",
        *failures,
        *failures.values(),
    )
    if not all(isinstance(t, str) for t in told):
        raise ContractViolation(
            "DenoiseResult: expected query, fallback, note and failures to be texts"
        )
    same = all(items is getattr(result, name) for name, items in fields.items())
    given_once: dict[str, Any] = dict(fields)
    return result if same else replace(result, **given_once)


_FIELDS: dict[str, type] = {"passages": Passage, "dropped": Drop, "kept": Keep}


def _check_types(item: Any) -> None:
    if item.score is not None and not isinstance(item.score, float | Real):
        raise ContractViolation(
            f"a score must be a number or None, got {item.score!r:.80}"
        )
    if isinstance(item, Passage) and not (
        isinstance(item.id, str) and isinstance(item.spans, tuple)
    ):
        raise ContractViolation(
            f"a Passage must have a text as id and a tuple of spans, got {item.id!r:.80}"
        )
    for span in item.spans if isinstance(item, Passage) else (item.span,):
        if not (
            isinstance(span, Span)
            and isinstance(span.start, Integral)
            and isinstance(span.end, Integral)
        ):
            raise ContractViolation(
                f"a range must be a Span of whole numbers, got {span!r:.80}"
            )


def _within(span: Span, source: dict[str, Passage]) -> None:
    passage = source.get(span.passage_id)
    if passage is None:
        raise ContractViolation(f"{span} names a passage that was not given")
    if not 0 <= span.start <= span.end <= len(passage.text):
        raise ContractViolation(
            f"{span} lies outside its passage of {len(passage.text)} characters"
        )


def _gaps(passage: Passage, spans: list[tuple[int, int]]) -> list[Drop]:
    """What no span covers. Raises `ContractViolation` for two that overlap."""
    for before, after in pairwise(sorted(spans)):
        if after[0] < before[1]:
            raise ContractViolation(
                f"passage {passage.id!r}: two spans of the result overlap at {after[0]}"
            )
    gaps = complement_spans(merge_spans(spans), 0, len(passage.text))
    if not spans and not passage.text:
        gaps = [(0, 0)]
    return [Drop(Span(passage.id, start, end), UNLISTED_REASON) for start, end in gaps]
