"""A result as plain JSON: what the framework adapters put beside each kept text and into a trace."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Literal

from denoise_core.result import DenoiseResult, Trace
from denoise_core.runtime.effects import Complete
from denoise_core.spans import merge_spans
from denoise_core.types import Drop, Keep, Passage, Reply, Span

RECORD_KEY = "denoise"
"""The one metadata key under which adapters store a record."""

RECORD_VERSION = 1

RecordDetail = Literal["full", "spans", "none"]
"""How much of a run stands beside each text: ``"spans"`` is what a citation needs, at most `RECORD_BYTES`;
``"full"`` also lists every scored chunk, of any length; ``"none"`` leaves the texts without a record."""

RECORD_BYTES = 2048
"""What a ``"spans"`` record may weigh as JSON in UTF-8."""

SUMMARY_ROWS = 50
"""How many passages, kept and dropped chunks `bounded_result_summary` lists, each."""

_LONGEST = 200  # bytes of an id, a query or a reason, as JSON
_LONGEST_FALLBACK = 600

Chunks = Mapping[str, tuple[list[Keep], list[Drop]]]


def group_chunks(result: DenoiseResult) -> Chunks:
    """The scored chunks by passage id: made once for many calls of `passage_record` on one result."""
    found: dict[str, tuple[list[Keep], list[Drop]]] = {}
    for keep in result.kept:
        found.setdefault(keep.span.passage_id, ([], []))[0].append(keep)
    for drop in result.dropped:
        found.setdefault(drop.span.passage_id, ([], []))[1].append(drop)
    return found


def passage_record(
    kept: Passage,
    given: Mapping[str, Passage],
    result: DenoiseResult,
    chunks: Chunks | None = None,
    *,
    detail: RecordDetail = "full",
) -> dict[str, Any]:
    """What happened to the passage that became ``kept``; strings, numbers, lists and dicts only.

    ``given`` is the input by id. ``spans`` maps each input passage the text stands for to half-open
    character ranges of it; ``coverage`` is the share of those passages' characters they cover.
    ``score_before`` is the score the passage came with; a score that is not finite becomes None. ``fallback``
    says what went wrong, or is None.

    ``detail="full"`` adds ``kept`` and ``dropped``: the scored chunks of these passages, where the method
    scores. ``chunks`` is `group_chunks` the result, made here when not given. ``detail="spans"`` has no chunks and
    holds to `RECORD_BYTES`: ranges that touch are one, ids over 200 bytes stand as ``sha256:...``, the query
    is cut to 200 bytes, the fallback to 600, and of ranges too many the first are listed, ``spans_left_out`` the
    number of the others. ``detail="none"`` is for the caller to put nothing, and gives ``{}``.
    """
    if detail == "none":
        return {}
    spans, coverage = source_coverage(kept, given)
    before = given[kept.id].score if kept.id in given else None
    fallback = fallback_for(spans, result)
    short = detail == "spans"
    record: dict[str, Any] = {
        "v": RECORD_VERSION,
        "origin": short_id(kept.id) if short else kept.id,
        "spans": {short_id(i): _joined(r) for i, r in spans.items()}
        if short
        else spans,
        "extractive": not kept.is_rewritten,
        "coverage": coverage,
        "score": _number(kept.score),
        "score_before": _number(before),
        "query": _cut(result.query) if short else result.query,
        "fallback": _cut(fallback, _LONGEST_FALLBACK)
        if short and fallback
        else fallback,
        **_question_note(result),
    }
    if short:
        return _bounded(record)
    chunks = group_chunks(result) if chunks is None else chunks
    record["kept"] = [_scored(k) for i in spans if i in chunks for k in chunks[i][0]]
    record["dropped"] = [_scored(d) for i in spans if i in chunks for d in chunks[i][1]]
    return record | {"relevant": result.relevant, "note": result.note}


def source_coverage(
    kept: Passage, given: Mapping[str, Passage]
) -> tuple[dict[str, list[list[int]]], float]:
    """The ranges a text stands for, by input passage, and the share of those passages' characters they cover."""
    covered = kept.source_spans
    spans = spans_by_passage(covered)
    length = sum([len(given[i].text) for i in spans if i in given])
    return spans, round(
        sum([s.end - s.start for s in covered]) / length, 4
    ) if length else 1.0


def fallback_for(ids: Iterable[str], result: DenoiseResult) -> str | None:
    """What went wrong with these input passages: their own failures, where the result lists failures by
    passage.
    """
    if not result.failures:
        return result.fallback
    own = dict.fromkeys(result.failures[i] for i in ids if i in result.failures)
    return "; ".join(own) or None


def _question_note(result: DenoiseResult) -> dict[str, str]:
    """Why the user's own question was asked with, where that is so; nothing otherwise."""
    return (
        {}
        if result.question_note is None
        else {"question_note": _cut(result.question_note)}
    )


def _bounded(record: dict[str, Any]) -> dict[str, Any]:
    """The record with no more ranges than there is room for."""
    spans = record["spans"]
    if len(spans) == 1 and all(
        len(ranges) <= 12 for ranges in spans.values()
    ):  # too few to weigh that much
        return record
    room = RECORD_BYTES - _weight({**record, "spans": {}, "spans_left_out": 10**9})
    listed: dict[str, list[list[int]]] = {}
    left_out = 0
    for i, ranges in spans.items():
        for place, one in enumerate(ranges):
            cost = _weight(one) + 2 + (_weight(i) + 6 if i not in listed else 0)
            if cost > room:
                left_out += len(ranges) - place
                break
            room -= cost
            listed.setdefault(i, []).append(one)
    return {
        **record,
        "spans": listed,
        **({"spans_left_out": left_out} if left_out else {}),
    }


def _joined(ranges: list[list[int]]) -> list[list[int]]:
    """Ranges that follow one another without a gap, as one."""
    return [
        [start, end]
        for start, end in merge_spans((start, end) for start, end in ranges)
    ]


def short_id(name: str) -> str:
    """An id as it stands in a bounded record: a long one by its hash."""
    if (
        len(name) <= _LONGEST // 6 or _weight(name) <= _LONGEST
    ):  # a character weighs six bytes at most
        return name
    return f"sha256:{hashlib.sha256(name.encode('utf-8', 'surrogatepass')).hexdigest()}"


def _cut(text: str, longest: int = _LONGEST) -> str:
    if len(text) <= longest // 6 or (len(text) <= longest and _weight(text) <= longest):
        return text
    size = min(len(text), longest)
    while _weight(text[:size]) > longest - 3:
        size = size * 3 // 4
    return f"{text[:size]}..."


def _weight(value: Any) -> int:
    return len(json.dumps(value, ensure_ascii=False).encode("utf-8", "surrogatepass"))


def result_summary(
    passages: Sequence[Passage], result: DenoiseResult
) -> dict[str, Any]:
    """The whole result as plain JSON, without any passage text: fit for a custom event or a log."""
    return {
        "v": RECORD_VERSION,
        "query": result.query,
        "given": [p.id for p in passages],
        "passages": [
            {
                "id": p.id,
                "spans": spans_by_passage(p.source_spans),
                "score": _number(p.score),
            }
            for p in result.passages
        ],
        "kept": [{"id": k.span.passage_id, **_scored(k)} for k in result.kept],
        "dropped": [{"id": d.span.passage_id, **_scored(d)} for d in result.dropped],
        "relevant": result.relevant,
        "note": result.note,
        "fallback": result.fallback,
        "failures": dict(result.failures),
        **_question_note(result),
        **run_costs(result.trace),
    }


def bounded_result_summary(
    passages: Sequence[Passage], result: DenoiseResult
) -> dict[str, Any]:
    """`result_summary` for a trace: lists of at most `SUMMARY_ROWS`, ``left_out`` says how many more there were.

    Passages are listed without their spans, which their own records hold.
    """
    sizes = {
        name: len(getattr(result, name)) for name in ("passages", "kept", "dropped")
    }
    return {
        "v": RECORD_VERSION,
        "query": _cut(result.query),
        "given": len(passages),
        "passages": [
            {"id": short_id(p.id), "score": _number(p.score)}
            for p in result.passages[:SUMMARY_ROWS]
        ],
        "kept": [
            {"id": short_id(k.span.passage_id), **_scored(k)}
            for k in result.kept[:SUMMARY_ROWS]
        ],
        "dropped": [
            {"id": short_id(d.span.passage_id), **_scored(d), "reason": _cut(d.reason)}
            for d in result.dropped[:SUMMARY_ROWS]
        ],
        "left_out": {
            name: n - SUMMARY_ROWS for name, n in sizes.items() if n > SUMMARY_ROWS
        },
        "fallback": None
        if result.fallback is None
        else _cut(result.fallback, _LONGEST_FALLBACK),
        **_question_note(result),
        **run_costs(result.trace),
    }


def run_costs(trace: Trace) -> dict[str, Any]:
    """Calls and tokens of a run as plain JSON."""
    usage = trace.usage
    return {
        "calls": count_calls(trace),
        "input_tokens": usage.input_tokens,
        "output_tokens": usage.output_tokens,
        "tokens_estimated": usage.is_estimated,
    }


def count_calls(trace: Trace) -> int:
    """LLM calls of a run, those of denoisers it asked included; one that the budget refused was not made."""
    nested = (e.reply.trace for e in trace.events if isinstance(e.reply, DenoiseResult))
    asked = (
        e.reply.calls if isinstance(e.reply, Reply) else int(e.executed)
        for e in trace.events
        if isinstance(e.effect, Complete)
    )
    return sum(asked) + sum(map(count_calls, nested))


def spans_by_passage(spans: Sequence[Span]) -> dict[str, list[list[int]]]:
    """``{passage id: [[start, end], ...]}``, in the order given."""
    found: dict[str, list[list[int]]] = {}
    for span in spans:
        found.setdefault(span.passage_id, []).append([span.start, span.end])
    return found


def _scored(part: Keep | Drop) -> dict[str, Any]:
    found = {
        "start": part.span.start,
        "end": part.span.end,
        "score": _number(part.score),
    }
    return {**found, "reason": part.reason} if isinstance(part, Drop) else found


def _number(score: float | None) -> float | None:
    return float(score) if score is not None and math.isfinite(score) else None
