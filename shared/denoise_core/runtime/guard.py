"""Never worse than no denoising: what follows a failure or an empty result.

Also `validate_result`, which checks the rules that every denoiser's result keeps.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import pairwise
from operator import index
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
from denoise_core.types import Drop, Passage, Span, check_passages

FailurePolicy = Literal["keep", "drop", "raise"]

_INPUT_ACTIONS = {
    "keep": "the input was kept as it is",
    "drop": "everything was dropped",
}
_ITEM_ACTIONS = {"keep": "was kept as it is", "drop": "was dropped"}
UNLISTED_REASON = "left out"


class Guard:
    """A denoiser around another one, with a policy for each way of losing the context.

    Cancellation and Ctrl-C always pass through. Whatever was done instead of
    denoising is in ``result.fallback`` and, by passage, in ``result.failures``, and is
    logged.

    Args:
        denoiser: The denoiser to guard.
        on_error: What follows a failure. ``"keep"`` returns the input untouched,
            ``"drop"`` returns nothing, ``"raise"`` raises it. A failure is an
            exception, or an invalid result: another type, unknown ids, spans that are
            not the text's, a changed order (`ContractViolation`); or an empty result
            in whose ``failures`` each passage is, but for a `Pipeline`. User errors
            always raise, see `denoise_core.errors.is_user_error`.
        on_empty: The same for a result that keeps nothing (or only white space) of
            input that had text; ``"raise"`` raises `EmptyResult`. A result that says
            ``relevant=False`` may be empty, unless the denoiser has
            ``on_irrelevant="keep"``. The defaults never lose context.

    Raises:
        InputError: A policy is none of the three.
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
        """Denoise, with the policies; see `Denoiser.denoise`."""
        inputs = check_passages(passages)
        try:
            result = self.denoiser.denoise(query, inputs)
            result = validate_result(inputs, result)
        except Exception as error:
            return self._handle_failure(query, inputs, error)
        return self._handle_empty(inputs, result)

    async def adenoise(self, query: str, passages: Iterable[Passage]) -> DenoiseResult:
        """Do the same without blocking the event loop."""
        inputs = check_passages(passages)
        try:
            result = await self.denoiser.adenoise(query, inputs)
            result = validate_result(inputs, result)
        except Exception as error:
            return self._handle_failure(query, inputs, error)
        return self._handle_empty(inputs, result)

    def handle_failed_item(self, item: str, error: Exception) -> str | None:
        """Apply ``on_error`` to one document that an adapter cannot convert.

        Whatever the error's class, it is about this item, and the others go on.

        Returns:
            The note for an item that stays unchanged; None for one that is dropped.

        Raises:
            Exception: ``error``, under ``"raise"``.
        """
        if self.on_error == "raise":
            raise error
        component = f"{type(self.denoiser).__name__}, conversion"
        action = _ITEM_ACTIONS[self.on_error]
        message = log_fallback(component, error, f"{item} {action}")
        if self.on_error == "drop":
            return None
        return f"{message}; {action}"

    def _handle_failure(
        self, query: str, inputs: tuple[Passage, ...], error: Exception
    ) -> DenoiseResult:
        if self.on_error == "raise" or is_user_error(error):
            raise error
        result = DenoiseResult(query, (), trace=trace_of(error))
        return self._fall_back(result, inputs, self.on_error, error)

    def _handle_empty(
        self, inputs: tuple[Passage, ...], result: DenoiseResult
    ) -> DenoiseResult:
        if result.relevant is False and _may_keep_nothing(self.denoiser):
            return result
        texts = _without_blank(inputs)
        if _without_blank(result.passages) or not texts:
            return result
        name, policy = "on_empty", self.on_empty
        # In a pipeline one step may have failed and kept all, and a later one dropped it.
        is_single_step = not hasattr(self.denoiser, "denoisers")
        if is_single_step and all(passage.id in result.failures for passage in texts):
            name, policy = "on_error", self.on_error
        if policy == "raise":
            raise EmptyResult(
                f"nothing was kept of {len(inputs)} passages; pass {name}='keep' to "
                "keep all then"
            )
        return self._fall_back(result, inputs, policy, "nothing was kept")

    def _fall_back(
        self,
        result: DenoiseResult,
        inputs: tuple[Passage, ...],
        policy: FailurePolicy,
        error: Exception | str,
    ) -> DenoiseResult:
        action = _INPUT_ACTIONS[policy]
        component = type(self.denoiser).__name__
        message = log_fallback(component, error, action)
        note = f"{message}; {action}"
        failures = {}
        passages = []
        drops = []
        for passage in inputs:
            earlier_failure = result.failures.get(passage.id)
            failures[passage.id] = _join_notes(earlier_failure, note)
            if policy == "keep":
                # Spans of an earlier step are about another text than this step's input.
                cleaned = replace(passage, spans=(), is_rewritten=False)
                passages.append(cleaned)
            else:
                whole_span = Span(passage.id, 0, len(passage.text))
                drop = Drop(whole_span, message)
                drops.append(drop)
        return replace(
            result,
            passages=tuple(passages),
            kept=(),
            dropped=tuple(drops),
            failures=failures,
            fallback=_join_notes(result.fallback, note),
        )


def _may_keep_nothing(denoiser: Denoiser) -> bool:
    """Whether a denoiser or a step of it keeps nothing if nothing is relevant."""
    steps = getattr(denoiser, "denoisers", (denoiser,))
    return any(getattr(step, "on_irrelevant", "drop") == "drop" for step in steps)


def _join_notes(earlier: str | None, note: str) -> str:
    return f"{earlier}; {note}" if earlier else note


def _without_blank(passages: Iterable[Passage]) -> list[Passage]:
    return [passage for passage in passages if passage.text.strip()]


def validate_result(inputs: Sequence[Passage], result: DenoiseResult) -> DenoiseResult:
    """Check a denoiser's result, and complete it so that its spans tile the input.

    Linear in the text, and n log n in the spans.

    Args:
        inputs: What the denoiser was called with.
        result: What it returned.

    Returns:
        The result, with a `Drop` for every character that it neither keeps nor drops.

    Raises:
        ContractViolation: The result is

            * no `DenoiseResult`, or one whose fields do not have their types
            * has an id twice, or a passage or span of an unknown passage
            * has a span outside its passage's text, or two that overlap
            * has a text that is not the input's at its spans, unless ``is_rewritten``
            * has passages that are not rewritten in another order than the input
    """
    if not isinstance(result, DenoiseResult):
        raise ContractViolation(
            f"a denoiser must return DenoiseResult, got {type(result).__name__}"
        )
    try:
        result = _read_fields(result)
        unlisted = _check_spans(inputs, result)
    except (TypeError, AttributeError, ValueError, ArithmeticError) as error:
        raise ContractViolation(
            f"a field of the DenoiseResult has another type than it should: {error}"
        ) from error
    if not unlisted:
        return result
    return replace(result, dropped=(*result.dropped, *unlisted))


def _read_fields(result: DenoiseResult) -> DenoiseResult:
    """Read each field as its type allows, generators once; one of another type raises."""
    changed_fields: dict[str, Any] = {}
    for name in ("passages", "dropped", "kept"):
        items = getattr(result, name)
        item_tuple = tuple(items)
        if item_tuple is not items:
            changed_fields[name] = item_tuple
        for chunk in item_tuple:
            if chunk.score is not None:
                math.isfinite(chunk.score)
    names = [passage.id for passage in changed_fields.get("passages", result.passages)]
    notes = (result.query, result.fallback or "", result.note or "")
    "".join((*names, *notes, *result.failures, *result.failures.values()))
    return replace(result, **changed_fields) if changed_fields else result


def _check_spans(inputs: Sequence[Passage], result: DenoiseResult) -> list[Drop]:
    """Return drops for what the result neither keeps nor drops."""
    inputs_by_id = {passage.id: passage for passage in inputs}
    _check_passages(inputs_by_id, result)
    covered: dict[str, list[tuple[int, int]]] = {i: [] for i in inputs_by_id}
    for passage in result.passages:
        source_texts = []
        for span in passage.source_spans:
            source_texts.append(_read_span(span, inputs_by_id))
            covered[span.passage_id].append((span.start, span.end))
        if not passage.is_rewritten and passage.text != "".join(source_texts):
            raise ContractViolation(
                f"passage {passage.id!r}: its text is not the input's at its spans"
            )
    for drop in result.dropped:
        _read_span(drop.span, inputs_by_id)
        covered[drop.span.passage_id].append((drop.span.start, drop.span.end))
    for keep in result.kept:
        _read_span(keep.span, inputs_by_id)
    unlisted = []
    for passage in inputs:
        unlisted += _unlisted_drops(passage, covered[passage.id])
    return unlisted


def _check_passages(inputs_by_id: Mapping[str, Passage], result: DenoiseResult) -> None:
    """Raise for a passage that is unknown, there twice, or in another order."""
    positions = {passage_id: i for i, passage_id in enumerate(inputs_by_id)}
    seen_ids = set()
    last_position = -1
    for passage in result.passages:
        if passage.id in seen_ids:
            raise ContractViolation(
                f"two passages of the result have the id {passage.id!r}"
            )
        seen_ids.add(passage.id)
        if passage.is_rewritten:
            continue
        if passage.id not in inputs_by_id:
            raise ContractViolation(
                f"the result holds a passage {passage.id!r} that was not given"
            )
        if positions[passage.id] < last_position:
            raise ContractViolation(
                f"passage {passage.id!r} is behind one that came after it"
            )
        last_position = positions[passage.id]


def _read_span(span: Span, inputs_by_id: Mapping[str, Passage]) -> str:
    """Return the characters of a span; raises for one that is no part of the input."""
    passage = inputs_by_id.get(span.passage_id)
    if passage is None:
        raise ContractViolation(f"{span} names a passage that was not given")
    if not 0 <= index(span.start) <= index(span.end) <= len(passage.text):
        raise ContractViolation(
            f"{span} is outside its passage of {len(passage.text)} characters"
        )
    return passage.text[span.start : span.end]


def _unlisted_drops(passage: Passage, spans: list[tuple[int, int]]) -> list[Drop]:
    """Return drops for what no span covers; raises for two spans that overlap."""
    for (_, previous_end), (start, _) in pairwise(sorted(spans)):
        if start < previous_end:
            raise ContractViolation(
                f"passage {passage.id!r}: two spans of the result overlap at {start}"
            )
    merged_spans = merge_spans(spans)
    gaps = complement_spans(merged_spans, 0, len(passage.text))
    if not spans and not passage.text:
        gaps = [(0, 0)]
    drops = []
    for start, end in gaps:
        gap_span = Span(passage.id, start, end)
        drop = Drop(gap_span, UNLISTED_REASON)
        drops.append(drop)
    return drops
