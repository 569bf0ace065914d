"""Shadow mode: what denoising would drop, and which answers rest on it.

An adapter in shadow mode returns what it got. Here the result that it would have
returned is compared with that, and with the answer, without a model::

    log = ShadowLog("shadow.jsonl")
    log.add_call("request-1", ShadowCall.from_result(passages, result))
    log.add_answer("request-1", answer)
    log.summary()  # tokens, and the requests that would have lost something

A loss is a quotation, a citation or a fact (a number, a date, a name) of an answer that
the passages have and what is kept of them has not. An answer in other words may rest on
dropped text without a trace, so no loss proves that nothing was needed.
"""

from __future__ import annotations

import json
import threading
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal, TypeAlias

from denoise_core.errors import InputError
from denoise_core.jsonable import from_jsonable, to_jsonable
from denoise_core.result import DenoiseResult
from denoise_core.support.citation_marks import cited_names, named_labels
from denoise_core.support.citing import find_citations
from denoise_core.support.labels import LabelledEvidence
from denoise_core.support.normal_form import find_words
from denoise_core.support.quotations import check_quotations
from denoise_core.text.facts import extract_facts, find_differences
from denoise_core.text.token_budget import estimate_tokens
from denoise_core.types import Passage

LossKind = Literal["quotation", "citation", "fact"]
AnswerRange: TypeAlias = tuple[LossKind, int, int]
Supports: TypeAlias = dict[AnswerRange, tuple[str, ...]]
"""By a part of an answer, the ids of the passages that have it."""

MAX_OPEN_REQUESTS = 1000
"""Requests that wait for their answer, with their texts; the oldest is closed first."""

MAX_LISTED_REQUESTS = 10_000
"""Requests that a log remembers, without texts; the file has all of them."""


@dataclass(frozen=True, slots=True)
class Loss:
    """``[start, end)`` of an answer rests on text that would have been dropped.

    ``passage_ids`` name the passages that have it.
    """

    kind: LossKind
    start: int
    end: int
    passage_ids: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class ShadowCall:
    """What one call was given and what it would have returned.

    Attributes:
        question: The query of the call.
        passages: What it was given, and returned.
        kept_passages: What would be kept of each of ``passages``, in their order.
        counts: What a `ShadowRequest` sums up, by its field.
    """

    question: str
    passages: tuple[Passage, ...] = field(repr=False)
    kept_passages: tuple[Passage, ...] = field(repr=False)
    counts: Mapping[str, int]

    @staticmethod
    def from_result(passages: Sequence[Passage], result: DenoiseResult) -> ShadowCall:
        """The call that was given ``passages`` and would have returned ``result``."""
        texts_by_id: dict[str, list[str]] = {}
        for kept in result.passages:
            source_ids = {span.passage_id for span in kept.source_spans}
            for passage_id in source_ids:
                passage_texts = texts_by_id.setdefault(passage_id, [])
                passage_texts.append(kept.text)
        kept_passages = []
        dropped_count = 0
        for passage in passages:
            texts = texts_by_id.get(passage.id, [])
            header = passage.header if texts else ""
            kept_text = "\n\n".join(texts)
            kept_passage = replace(passage, text=kept_text, header=header)
            kept_passages.append(kept_passage)
            is_dropped = bool(passage.text) and not kept_text
            dropped_count += is_dropped
        has_failed = result.fallback is not None
        total_tokens = _count_tokens(passages)
        kept_tokens = _count_tokens(result.passages)
        counts = {
            "calls": 1,
            "passages": len(passages),
            "dropped": dropped_count,
            "tokens": total_tokens,
            "kept_tokens": kept_tokens,
            "failures": int(has_failed),
        }
        return ShadowCall(result.query, tuple(passages), tuple(kept_passages), counts)


def _count_tokens(passages: Iterable[Passage]) -> int:
    return sum(estimate_tokens(passage.text) for passage in passages)


@dataclass(frozen=True, slots=True)
class ShadowRequest:
    """The calls of one request, counted, and what its answer would have lost.

    It has no text of the user's, so that it may be written to a file.

    Attributes:
        request_id: The caller's name of the request.
        calls: Denoisings.
        passages: Passages they were given.
        dropped: Passages of which nothing would be kept.
        tokens: Tokens they were given, by estimate.
        kept_tokens: Tokens they would have returned.
        failures: Calls that fell back.
        is_answered: Whether the answer is known.
        losses: What the answer takes from dropped text.
    """

    request_id: str
    calls: int = 0
    passages: int = 0
    dropped: int = 0
    tokens: int = 0
    kept_tokens: int = 0
    failures: int = 0
    is_answered: bool = False
    losses: tuple[Loss, ...] = ()

    @staticmethod
    def from_json(line: str) -> ShadowRequest:
        """Read a line that a `ShadowLog` wrote.

        Raises:
            InputError: It is no such line.
        """
        try:
            row = json.loads(line)
            request: ShadowRequest = from_jsonable(ShadowRequest, row)
        except (ValueError, TypeError) as error:
            raise InputError("expected a line that shadow mode wrote") from error
        return request


_SUMMED_FIELDS = ("calls", "failures", "passages", "dropped", "tokens", "kept_tokens")


class ShadowLog:
    """Collects the calls and the answers of requests; safe for many threads.

    It remembers the latest `MAX_LISTED_REQUESTS`; ``forgotten_count`` older ones are
    only in the file.

    Args:
        path: JSON lines to append to, without any text of the user's: one for each
            request, and another one if more follows later.
        meter: An OpenTelemetry meter, which gets counters ``denoise.shadow.tokens``,
            ``kept_tokens``, ``calls``, ``passages``, ``dropped``, ``failures``,
            ``answers`` and ``losses``.

    Raises:
        InputError: The file cannot be written, or ``meter`` is none.
    """

    def __init__(self, path: str | Path | None = None, *, meter: Any = None) -> None:
        self.path = path
        if path is not None:
            try:
                open(path, "a", encoding="utf-8").close()
            except OSError as error:
                raise InputError(
                    f"path={str(path)!r}: shadow mode cannot write there ({error}); "
                    "give a file in a folder that exists"
                ) from error
        self._counters = _create_counters(meter)
        self.forgotten_count = 0
        self._requests: dict[str, ShadowRequest] = {}
        self._open_calls: dict[str, list[ShadowCall]] = {}
        self._lock = threading.Lock()

    def add_call(self, request_id: str, call: ShadowCall) -> None:
        """Count a call of a request; an answer to earlier calls stays counted."""
        self._count(call.counts)
        with self._lock:
            new_request = ShadowRequest(request_id)
            request = self._requests.pop(request_id, new_request)
            totals = {}
            for name, count in call.counts.items():
                previous_count = getattr(request, name)
                totals[name] = previous_count + count
            self._requests[request_id] = replace(request, **totals)
            open_calls = self._open_calls.setdefault(request_id, [])
            open_calls.append(call)
            if len(self._open_calls) > MAX_OPEN_REQUESTS:
                first_id = next(iter(self._open_calls))
                self._close_request(first_id)
            if len(self._requests) > MAX_LISTED_REQUESTS:
                oldest_id = next(iter(self._requests))
                self._close_request(oldest_id)
                del self._requests[oldest_id]
                self.forgotten_count += 1

    def add_answer(self, request_id: str, answer: str | None) -> ShadowRequest | None:
        """Compare an answer with what its request would have dropped.

        Args:
            request_id: As in `add_call`.
            answer: The answer; None if it is not known, which may follow later.

        Returns:
            The request; None if it has no call, or was closed before.
        """
        with self._lock:
            open_calls = self._open_calls.get(request_id, ())
            calls = list(open_calls)
        if not calls:
            return None
        losses: tuple[Loss, ...] = ()
        if answer is not None:
            losses = find_losses(calls, answer)
            answer_counts = {"answers": 1, "losses": len(losses)}
            self._count(answer_counts)
        with self._lock:
            request = self._requests.get(request_id)
            if request is None:
                return None
            if answer is not None:
                losses = (*request.losses, *losses)
                request = replace(request, is_answered=True, losses=losses)
                self._requests[request_id] = request
                self._open_calls.pop(request_id, None)
            self._write_line(request)
        return request

    def _count(self, counts: Mapping[str, int]) -> None:
        for name, counter in self._counters.items():
            added_count = counts.get(name)
            if added_count:
                counter.add(added_count)

    def _close_request(self, request_id: str) -> None:
        """Forget the texts of a request, and write what is known of it."""
        open_calls = self._open_calls.pop(request_id, None)
        if open_calls:
            request = self._requests[request_id]
            self._write_line(request)

    def _write_line(self, request: ShadowRequest) -> None:
        if self.path is not None:
            with open(self.path, "a", encoding="utf-8", errors="replace") as file:
                request_row = to_jsonable(request)
                line = json.dumps(request_row, ensure_ascii=False)
                file.write(f"{line}\n")

    @property
    def requests(self) -> tuple[ShadowRequest, ...]:
        """The requests it remembers, in the order of their first call."""
        with self._lock:
            known_requests = self._requests.values()
            return tuple(known_requests)

    def summary(self) -> dict[str, Any]:
        """Tokens and losses of the requests it remembers, see `summarize_requests`.

        ``forgotten`` counts the older ones.
        """
        summary = summarize_requests(self.requests)
        return {**summary, "forgotten": self.forgotten_count}


def _create_counters(meter: Any) -> dict[str, Any]:
    """Counters of an OpenTelemetry meter by name; none without a meter."""
    if meter is None:
        return {}
    if not hasattr(meter, "create_counter"):
        raise InputError(
            f"meter: expected an OpenTelemetry meter, got {type(meter).__name__}; write "
            "opentelemetry.metrics.get_meter('rag-denoise')"
        )
    counters = {}
    for name in (*_SUMMED_FIELDS, "answers", "losses"):
        counters[name] = meter.create_counter(f"denoise.shadow.{name}")
    return counters


def find_losses(calls: Sequence[ShadowCall], answer: str) -> tuple[Loss, ...]:
    """What an answer takes from passages and would not find in what is kept of them.

    Something that one call would drop and another one keep is no loss.

    >>> passages = [Passage("It opened in 1889.", "a"), Passage("It is red.", "b")]
    >>> call = ShadowCall.from_result(passages, DenoiseResult("Why?", (passages[1],)))
    >>> find_losses([call], "In 1889.")
    (Loss(kind='fact', start=3, end=7, passage_ids=('a',)),)
    """
    supported: Supports = {}
    kept: Supports = {}
    for call in calls:
        whole_evidence = (call.passages, supported)
        kept_evidence = (call.kept_passages, kept)
        for shown, supports in (whole_evidence, kept_evidence):
            supports |= _find_quotations(answer, shown)
            supports |= _find_citations(answer, call.passages, shown)
            supports |= _find_facts(call.question, answer, shown)
    losses = []
    for answer_range, passage_ids in supported.items():
        if answer_range not in kept:
            lost_part = Loss(*answer_range, passage_ids)
            losses.append(lost_part)
    return tuple(losses)


def _find_quotations(answer: str, passages: Sequence[Passage]) -> Supports:
    """The quotations of an answer, and the ids of the passages that have them."""
    quotations: Supports = {}
    for quotation in check_quotations(answer, passages):
        if quotation.status != "nowhere":
            source_ids = [span.passage_id for span in quotation.spans]
            unique_ids = dict.fromkeys(source_ids)
            quotations["quotation", quotation.start, quotation.end] = tuple(unique_ids)
    return quotations


def _find_citations(
    answer: str, passages: Sequence[Passage], shown: Sequence[Passage]
) -> Supports:
    """Citations of which a passage, and every sentence that they name, is shown.

    Labels count the sentences of ``passages``, never of what is shown of them.
    """
    shown_texts = {passage.id: passage.text for passage in shown}
    evidence = LabelledEvidence(passages)
    citations: Supports = {}
    for citation in find_citations(answer, passages):
        is_shown = any(shown_texts[passage_id] for passage_id in citation.ids)
        cited_text = answer[citation.start : citation.end]
        for name in cited_names(cited_text):
            for label in named_labels(name):
                sentence = evidence.sentences.get(label)
                if sentence is None:
                    continue
                shown_text = shown_texts[sentence.passage_id]
                shown_range = find_words(sentence.text, shown_text)
                is_shown = is_shown and shown_range is not None
        if is_shown:
            citations["citation", citation.start, citation.end] = citation.ids
    return citations


def _find_facts(question: str, answer: str, passages: Sequence[Passage]) -> Supports:
    """The facts of an answer that its question does not say, and who states them."""
    stated_facts: Supports = {}
    answer_facts = extract_facts(answer)
    facts = {(fact.start, fact.end) for fact in answer_facts}
    if question:
        facts &= _missing_facts(answer, question)
    for passage in passages:
        missing_facts = _missing_facts(answer, passage.text_with_header)
        for start, end in facts - missing_facts:
            stating_ids = stated_facts.get(("fact", start, end), ())
            stated_facts["fact", start, end] = (*stating_ids, passage.id)
    return stated_facts


def _missing_facts(answer: str, source: str) -> set[tuple[int, int]]:
    """The facts of an answer that the source does not state."""
    differences = find_differences(answer, source)
    return {(difference.start, difference.end) for difference in differences}


def summarize_requests(requests: Iterable[ShadowRequest]) -> dict[str, Any]:
    """Tokens and losses of requests; of several with one id the last one counts.

    Returns:
        ``requests``, ``answered``, ``calls``, ``failures``, ``passages``, ``dropped``,
        ``tokens``, ``kept_tokens``, and ``losses``: for each request that lost
        something its id and the kinds of its losses with their counts.
    """
    latest = {request.request_id: request for request in requests}
    summary: dict[str, Any] = {"requests": len(latest)}
    latest_requests = latest.values()
    summary["answered"] = sum(request.is_answered for request in latest_requests)
    for name in _SUMMED_FIELDS:
        summary[name] = sum(getattr(request, name) for request in latest_requests)
    losses = {}
    for request_id, request in latest.items():
        if request.losses:
            kind_counts = Counter(loss.kind for loss in request.losses)
            losses[request_id] = dict(kind_counts)
    summary["losses"] = losses
    return summary
