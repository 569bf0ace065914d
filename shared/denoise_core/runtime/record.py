"""A result as plain JSON: what the framework adapters attach to texts and traces."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Literal

from denoise_core.result import DenoiseResult, Trace, json_score
from denoise_core.runtime.effects import Complete
from denoise_core.spans import merge_spans
from denoise_core.types import Passage, Reply, Span

RECORD_KEY = "denoise"
"""The one metadata key under which adapters store a record."""

RECORD_VERSION = 1

RecordDetail = Literal["spans", "none"]
"""How much of a run is stored with each text.

``"spans"`` is what a citation needs, at most `RECORD_BYTES`; ``"none"`` stores no record.
The events of a run list every scored chunk.
"""

RECORD_BYTES = 2048
"""The largest size of a ``"spans"`` record, as JSON in UTF-8."""

_MAX_TEXT_BYTES = 200  # of an id, a query or a reason, as JSON
_MAX_NOTE_BYTES = 600
_BYTES_PER_CHARACTER = 6  # at most: "\u0000"

Ranges = list[list[int]]


def passage_record(
    kept: Passage, inputs_by_id: Mapping[str, Passage], result: DenoiseResult
) -> dict[str, Any]:
    """Describe what happened to the passage that became ``kept``.

    Args:
        kept: A passage of the result.
        inputs_by_id: The input passages by id.
        result: The whole result.

    Returns:
        Strings, numbers, lists and dicts only, at most `RECORD_BYTES` as JSON. ``spans``
        maps each input passage of the text to half-open character ranges, adjacent ones
        joined; of too many the first are listed, and ``spans_left_out`` counts the
        others. ``coverage`` is the fraction of those passages' characters that they
        cover. ``score_before`` is the score the passage came with; a score that is not
        finite becomes None. ``fallback`` says what went wrong, or is None. Ids over 200
        bytes become ``sha256:...``, the query is cut to 200 bytes, the fallback to 600.
    """
    score_before = None
    if kept.id in inputs_by_id:
        score_before = inputs_by_id[kept.id].score
    step = step_record(kept, inputs_by_id, result)
    fallback = step["fallback"]
    spans = {}
    for passage_id, ranges in step["spans"].items():
        spans[short_id(passage_id)] = ranges
    record: dict[str, Any] = {
        "v": RECORD_VERSION,
        "origin": short_id(kept.id),
        **step,
        "score": json_score(kept.score),
        "score_before": json_score(score_before),
        "query": cut_text(result.query),
        "fallback": fallback and cut_text(fallback, _MAX_NOTE_BYTES),
    }
    record["spans"], omitted_count = fit_ranges(spans, {**record, "spans": {}})
    if omitted_count:
        record["spans_left_out"] = omitted_count
    return record


def step_record(
    kept: Passage, inputs_by_id: Mapping[str, Passage], result: DenoiseResult
) -> dict[str, Any]:
    """The part of `passage_record` that every adapter stores: ranges uncut, notes cut."""
    spans, coverage = source_coverage(kept, inputs_by_id)
    return {
        "spans": spans,
        "extractive": not kept.is_rewritten,
        "coverage": coverage,
        "fallback": fallback_for(spans, result),
        **relevance_record(result),
        **_question_note(result),
    }


def relevance_record(result: DenoiseResult) -> dict[str, Any]:
    """Whether anything seems relevant, and the note, cut; what is unknown is left out."""
    record: dict[str, Any] = {}
    if result.relevant is not None:
        record["relevant"] = result.relevant
    if result.note is not None:
        record["note"] = cut_text(result.note)
    return record


def source_coverage(
    kept: Passage, inputs_by_id: Mapping[str, Passage]
) -> tuple[dict[str, Ranges], float]:
    """Return the text's ranges by input passage, and their fraction of those texts."""
    spans = spans_by_passage(kept.source_spans)
    source_length = 0
    for passage_id in spans:
        if passage_id in inputs_by_id:
            source_length += len(inputs_by_id[passage_id].text)
    if not source_length:
        return spans, 1.0
    covered_length = sum(map(len, kept.source_spans))
    coverage = covered_length / source_length
    return spans, round(coverage, 4)


def fallback_for(passage_ids: Iterable[str], result: DenoiseResult) -> str | None:
    """Return what went wrong with these input passages.

    Their own failures, when the result lists failures by passage.
    """
    if not result.failures:
        return result.fallback
    failures = []
    for passage_id in passage_ids:
        if passage_id in result.failures:
            failures.append(result.failures[passage_id])
    distinct_failures = dict.fromkeys(failures)
    return "; ".join(distinct_failures) or None


def _question_note(result: DenoiseResult) -> dict[str, str]:
    if result.question_note is None:
        return {}
    return {"question_note": cut_text(result.question_note)}


def fit_ranges(
    spans: Mapping[str, Ranges], bare_record: Mapping[str, Any]
) -> tuple[dict[str, Ranges], int]:
    """Join adjacent ranges, and list as many as fit into a record of `RECORD_BYTES`.

    Args:
        spans: Ranges by id.
        bare_record: The record without them.

    Returns:
        The listed ranges, and how many there is no room for.
    """
    joined = {}
    for passage_id, ranges in spans.items():
        joined[passage_id] = _join_ranges(ranges)
    if len(joined) == 1 and all(len(ranges) <= 12 for ranges in joined.values()):
        return joined, 0  # too few ranges to reach the limit
    room = RECORD_BYTES - _json_size({**bare_record, "spans_left_out": 10**9})
    listed: dict[str, Ranges] = {}
    omitted_count = 0
    for passage_id, ranges in joined.items():
        for index, char_range in enumerate(ranges):
            size = _json_size(char_range) + 2
            if index == 0:
                size += _json_size(passage_id) + 6
            if size > room:
                omitted_count += len(ranges) - index
                break
            room -= size
            listed_ranges = listed.setdefault(passage_id, [])
            listed_ranges.append(char_range)
    return listed, omitted_count


def _join_ranges(ranges: Ranges) -> Ranges:
    merged = merge_spans((start, end) for start, end in ranges)
    return [[start, end] for start, end in merged]


def short_id(name: str) -> str:
    """Return an id as it is in a bounded record: a long one as its hash."""
    if len(name) * _BYTES_PER_CHARACTER <= _MAX_TEXT_BYTES:
        return name
    if _json_size(name) <= _MAX_TEXT_BYTES:
        return name
    name_bytes = name.encode("utf-8", "surrogatepass")
    digest = hashlib.sha256(name_bytes)
    return f"sha256:{digest.hexdigest()}"


def cut_text(text: str, max_bytes: int = _MAX_TEXT_BYTES) -> str:
    """Return a text as it is in a bounded record: at most so many bytes as JSON."""
    if len(text) * _BYTES_PER_CHARACTER <= max_bytes:
        return text
    if len(text) <= max_bytes and _json_size(text) <= max_bytes:
        return text
    length = min(len(text), max_bytes)
    while _json_size(text[:length]) > max_bytes - 3:
        length = length * 3 // 4
    return f"{text[:length]}..."


def _json_size(value: Any) -> int:
    text = json.dumps(value, ensure_ascii=False)
    text_bytes = text.encode("utf-8", "surrogatepass")
    return len(text_bytes)


def result_summary(
    passages: Sequence[Passage], result: DenoiseResult
) -> dict[str, Any]:
    """Return the whole result without any passage text, for a trace, an event or a log."""
    passage_rows = []
    for passage in result.passages:
        row = {
            "id": passage.id,
            "spans": spans_by_passage(passage.source_spans),
            "score": json_score(passage.score),
        }
        passage_rows.append(row)
    return {
        "v": RECORD_VERSION,
        **result.as_json(),
        "passages": passage_rows,
        "given": [p.id for p in passages],
        "failures": dict(result.failures),
        **run_costs(result.trace),
    }


def run_costs(trace: Trace) -> dict[str, Any]:
    """Return calls and tokens of a run as plain JSON."""
    usage = trace.usage
    return {
        "calls": count_calls(trace),
        "input_tokens": usage.input_tokens,
        "output_tokens": usage.output_tokens,
        "tokens_estimated": usage.is_estimated,
    }


def count_calls(trace: Trace) -> int:
    """Count the LLM calls of a run, those of inner denoisers included.

    A call that the budget refused was not made, and does not count.
    """
    call_count = 0
    for event in trace.events:
        if isinstance(event.reply, DenoiseResult):
            call_count += count_calls(event.reply.trace)
        elif isinstance(event.reply, Reply):
            call_count += event.reply.calls
        elif isinstance(event.effect, Complete):
            call_count += int(event.executed)
    return call_count


def spans_by_passage(spans: Sequence[Span]) -> dict[str, Ranges]:
    """Return ``{passage id: [[start, end], ...]}``, in the order of ``spans``."""
    ranges: dict[str, Ranges] = {}
    for span in spans:
        passage_ranges = ranges.setdefault(span.passage_id, [])
        passage_ranges.append([span.start, span.end])
    return ranges
