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
        kept_tokens: Tokens of what it would have returned, by estimate.
        fallback: What went wrong, or None.
    """

    question: str
    passages: tuple[Passage, ...] = field(repr=False)
    kept_passages: tuple[Passage, ...] = field(repr=False)
    kept_tokens: int
    fallback: str | None = None

    @staticmethod
    def from_result(passages: Sequence[Passage], result: DenoiseResult) -> ShadowCall:
        """The call that was given ``passages`` and would have returned ``result``."""
        texts_by_id: dict[str, list[str]] = {}
        kept_tokens = 0
        for kept in result.passages:
            kept_tokens += estimate_tokens(kept.text)
            source_ids = []
            for span in kept.source_spans:
                source_ids.append(span.passage_id)
            for passage_id in dict.fromkeys(source_ids):
                texts = texts_by_id.setdefault(passage_id, [])
                texts.append(kept.text)
        kept_passages = []
        for passage in passages:
            texts = texts_by_id.get(passage.id, [])
            header = ""
            if texts:
                header = passage.header
            kept_text = "\n\n".join(texts)
            kept_passages.append(replace(passage, text=kept_text, header=header))
        return ShadowCall(
            result.query,
            tuple(passages),
            tuple(kept_passages),
            kept_tokens,
            result.fallback,
        )

    @property
    def tokens(self) -> int:
        """Tokens of what the call was given, by estimate."""
        token_count = 0
        for passage in self.passages:
            token_count += estimate_tokens(passage.text)
        return token_count

    @property
    def dropped_count(self) -> int:
        """Passages of which nothing would be kept."""
        count = 0
        for passage, kept in zip(self.passages, self.kept_passages, strict=True):
            if passage.text and not kept.text:
                count += 1
        return count


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

    def to_json(self) -> str:
        """The request as one line of JSON."""
        return json.dumps(to_jsonable(self), ensure_ascii=False)

    @staticmethod
    def from_json(line: str) -> ShadowRequest:
        """Read a line of `to_json`.

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
        if path is not None:
            path = Path(path)
            _check_writable(path)
        self.path = path
        self._counters = _create_counters(meter)
        self.forgotten_count = 0
        self._requests: dict[str, ShadowRequest] = {}
        self._open_calls: dict[str, list[ShadowCall]] = {}
        self._lock = threading.Lock()

    def add_call(self, request_id: str, call: ShadowCall) -> None:
        """Count a call of a request; an answer to earlier calls stays counted."""
        counts = _count_call(call)
        self._count(counts)
        with self._lock:
            request = self._requests.pop(request_id, ShadowRequest(request_id))
            totals = {}
            for name, count in counts.items():
                totals[name] = getattr(request, name) + count
            self._requests[request_id] = replace(request, **totals)
            calls = self._open_calls.setdefault(request_id, [])
            calls.append(call)
            if len(self._open_calls) > MAX_OPEN_REQUESTS:
                oldest_id = next(iter(self._open_calls))
                del self._open_calls[oldest_id]
                self._write_line(self._requests[oldest_id])
            self._forget_oldest()

    def add_answer(self, request_id: str, answer: str | None) -> ShadowRequest | None:
        """Compare an answer with what its request would have dropped.

        Args:
            request_id: As in `add_call`.
            answer: The answer; None if it is not known, which may follow later.

        Returns:
            The request; None if it has no call, or was closed before.
        """
        with self._lock:
            calls = list(self._open_calls.get(request_id, ()))
            request = self._requests.get(request_id)
        if request is None or not calls:
            return None
        new_losses: tuple[Loss, ...] = ()
        if answer is not None:
            new_losses = find_losses(calls, answer)
            self._count({"answers": 1, "losses": len(new_losses)})
        with self._lock:
            request = self._requests.get(request_id, request)
            if answer is not None:
                losses = (*request.losses, *new_losses)
                request = replace(request, is_answered=True, losses=losses)
                self._open_calls.pop(request_id, None)
            self._requests[request_id] = request
            self._write_line(request)
        return request

    def _count(self, counts: Mapping[str, int]) -> None:
        for name, counter in self._counters.items():
            if counts.get(name):
                counter.add(counts[name])

    def _forget_oldest(self) -> None:
        """Forget the oldest closed request if there are too many."""
        if len(self._requests) <= MAX_LISTED_REQUESTS:
            return
        for request_id in self._requests:
            if request_id not in self._open_calls:
                del self._requests[request_id]
                self.forgotten_count += 1
                return

    def _write_line(self, request: ShadowRequest) -> None:
        if self.path is not None:
            with open(self.path, "a", encoding="utf-8", errors="replace") as file:
                file.write(request.to_json() + "\n")

    @property
    def requests(self) -> tuple[ShadowRequest, ...]:
        """The requests it remembers, in the order of their first call."""
        with self._lock:
            return tuple(self._requests.values())

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


def _check_writable(path: Path) -> None:
    """Raise `InputError` unless lines can be appended to this file."""
    try:
        with open(path, "a", encoding="utf-8"):
            pass
    except OSError as error:
        raise InputError(
            f"path={str(path)!r}: shadow mode cannot write there ({error}); give a file "
            "in a folder that exists"
        ) from error


def find_losses(calls: Sequence[ShadowCall], answer: str) -> tuple[Loss, ...]:
    """What an answer takes from passages and would not find in what is kept of them.

    Something that one call would drop and another one keep is no loss.

    >>> passages = [Passage("It opened in 1889.", "a"), Passage("It is red.", "b")]
    >>> call = ShadowCall.from_result(passages, DenoiseResult("Why?", (passages[1],)))
    >>> find_losses([call], "In 1889.")
    (Loss(kind='fact', start=3, end=7, passage_ids=('a',)),)
    """
    supported: dict[AnswerRange, tuple[str, ...]] = {}
    kept: set[AnswerRange] = set()
    for call in calls:
        supports = _find_supports(call.question, answer, call.passages)
        if call.passages == call.kept_passages:
            kept.update(supports)
            continue
        supported |= supports
        kept_supports = _find_supports(call.question, answer, call.kept_passages)
        for key in kept_supports:
            kind, _, _ = key
            if kind != "citation":
                kept.add(key)
        kept.update(_kept_citations(answer, call))
    losses = []
    for answer_range, passage_ids in supported.items():
        if answer_range not in kept:
            losses.append(Loss(*answer_range, passage_ids))
    losses.sort(key=lambda loss: (loss.start, loss.end, loss.kind))
    return tuple(losses)


def _kept_citations(answer: str, call: ShadowCall) -> set[AnswerRange]:
    """Citations of which a passage, and every sentence that they name, is kept.

    Labels count the sentences of ``call.passages``, never of what is kept of them.
    """
    kept_texts = {}
    for passage in call.kept_passages:
        kept_texts[passage.id] = passage.text
    evidence = LabelledEvidence(call.passages)
    kept: set[AnswerRange] = set()
    for citation in find_citations(answer, call.passages):
        is_kept = any(kept_texts[passage_id] for passage_id in citation.ids)
        for name in cited_names(answer[citation.start : citation.end]):
            for label in named_labels(name):
                sentence = evidence.sentences.get(label)
                if sentence is not None:
                    kept_text = kept_texts[sentence.passage_id]
                    position = find_words(sentence.text, kept_text)
                    is_sentence_kept = position is not None
                    is_kept = is_kept and is_sentence_kept
        if is_kept:
            kept.add(("citation", citation.start, citation.end))
    return kept


def _find_supports(
    question: str, answer: str, passages: Sequence[Passage]
) -> dict[AnswerRange, tuple[str, ...]]:
    """What an answer takes from passages, and the ids of those that have it."""
    supports: dict[AnswerRange, tuple[str, ...]] = {}
    for quotation in check_quotations(answer, passages):
        if quotation.status != "nowhere":
            source_ids = []
            for span in quotation.spans:
                source_ids.append(span.passage_id)
            ids = tuple(dict.fromkeys(source_ids))
            supports["quotation", quotation.start, quotation.end] = ids
    empty_ids = set()
    for passage in passages:
        if not passage.text:
            empty_ids.add(passage.id)
    for citation in find_citations(answer, passages):
        if not empty_ids.issuperset(citation.ids):
            supports["citation", citation.start, citation.end] = citation.ids
    facts = _new_facts(question, answer)
    for passage in passages:
        source = passage.text_with_header
        differences = find_differences(answer, source)
        missing = {(difference.start, difference.end) for difference in differences}
        for start, end in facts - missing:
            stating_ids = supports.get(("fact", start, end), ())
            supports["fact", start, end] = (*stating_ids, passage.id)
    return supports


def _new_facts(question: str, answer: str) -> set[tuple[int, int]]:
    """The facts of an answer that its question does not say already."""
    facts = {(fact.start, fact.end) for fact in extract_facts(answer)}
    if question:
        differences = find_differences(answer, question)
        facts &= {(difference.start, difference.end) for difference in differences}
    return facts


def summarize_requests(requests: Iterable[ShadowRequest]) -> dict[str, Any]:
    """Tokens and losses of requests; of several with one id the last one counts.

    Returns:
        ``requests``, ``answered``, ``calls``, ``failures``, ``passages``, ``dropped``,
        ``tokens``, ``kept_tokens``, and ``losses``: for each request that lost
        something its id and the kinds of its losses with their counts.
    """
    latest = {}
    for request in requests:
        latest[request.request_id] = request
    summary: dict[str, Any] = {"requests": len(latest)}
    answered_count = 0
    for request in latest.values():
        answered_count += request.is_answered
    summary["answered"] = answered_count
    for name in _SUMMED_FIELDS:
        name_total = 0
        for request in latest.values():
            name_total += getattr(request, name)
        summary[name] = name_total
    losses: dict[str, dict[str, int]] = {}
    for request in latest.values():
        for loss in request.losses:
            counts = losses.setdefault(request.request_id, {})
            counts[loss.kind] = counts.get(loss.kind, 0) + 1
    summary["losses"] = losses
    return summary


def _count_call(call: ShadowCall) -> dict[str, int]:
    return {
        "calls": 1,
        "passages": len(call.passages),
        "dropped": call.dropped_count,
        "tokens": call.tokens,
        "kept_tokens": call.kept_tokens,
        "failures": int(call.fallback is not None),
    }
