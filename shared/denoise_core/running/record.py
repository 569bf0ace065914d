"""A result as plain JSON: what the framework adapters put beside each kept text and into a trace."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from denoise_core.result import DenoiseResult, Trace
from denoise_core.running.effects import Complete
from denoise_core.types import Drop, Keep, Passage, Span

KEY = "denoise"
"""The one metadata key under which adapters store a record."""

VERSION = 1


Chunks = Mapping[str, tuple[list[Keep], list[Drop]]]


def chunks_of(result: DenoiseResult) -> Chunks:
    """The scored chunks by passage id: made once for many calls of `record_of` on one result."""
    found: dict[str, tuple[list[Keep], list[Drop]]] = {}
    for keep in result.kept:
        found.setdefault(keep.span.passage_id, ([], []))[0].append(keep)
    for drop in result.dropped:
        found.setdefault(drop.span.passage_id, ([], []))[1].append(drop)
    return found


def record_of(
    kept: Passage, given: Mapping[str, Passage], result: DenoiseResult, chunks: Chunks | None = None
) -> dict[str, Any]:
    """What happened to the passage that became ``kept``; strings, numbers, lists and dicts only.

    ``given`` is the input by id. ``spans`` maps each input passage the text stands for to half-open
    character ranges of it; ``coverage`` is the share of those passages' characters they cover. ``kept`` and
    ``dropped`` list the scored chunks of these passages, where the method scores.
    ``score_before`` is the score the passage came with; a score that is not finite becomes None. ``chunks``
    is `chunks_of` the result, made here when not given.
    """
    chunks = chunks_of(result) if chunks is None else chunks
    spans = spans_by_passage(kept.covered)
    length = sum(len(given[i].text) for i in spans if i in given)
    before = given[kept.id].score if kept.id in given else None
    return {
        "v": VERSION,
        "origin": kept.id,
        "spans": spans,
        "extractive": not kept.rewritten,
        "coverage": round(sum(len(s) for s in kept.covered) / length, 4) if length else 1.0,
        "score": _number(kept.score),
        "score_before": _number(before),
        "kept": [_scored(k) for i in spans if i in chunks for k in chunks[i][0]],
        "dropped": [_dropped(d) for i in spans if i in chunks for d in chunks[i][1]],
        "query": result.query,
        "relevant": result.relevant,
        "note": result.note,
        "fallback": result.fallback,
    }


def summary_of(passages: Sequence[Passage], result: DenoiseResult) -> dict[str, Any]:
    """The whole result as plain JSON, without any passage text: fit for a trace or a log."""
    usage = result.trace.usage
    return {
        "v": VERSION,
        "query": result.query,
        "given": [p.id for p in passages],
        "passages": [
            {"id": p.id, "spans": spans_by_passage(p.covered), "score": _number(p.score)} for p in result.passages
        ],
        "kept": [{"id": k.span.passage_id, **_scored(k)} for k in result.kept],
        "dropped": [{"id": d.span.passage_id, **_dropped(d)} for d in result.dropped],
        "relevant": result.relevant,
        "note": result.note,
        "fallback": result.fallback,
        "calls": calls_of(result.trace),
        "input_tokens": usage.input_tokens,
        "output_tokens": usage.output_tokens,
        "tokens_estimated": usage.estimated,
    }


def calls_of(trace: Trace) -> int:
    """LLM calls of a run, those of denoisers it asked included."""
    nested = (e.reply.trace for e in trace.events if isinstance(e.reply, DenoiseResult))
    return sum(isinstance(e.effect, Complete) for e in trace.events) + sum(map(calls_of, nested))


def spans_by_passage(spans: Sequence[Span]) -> dict[str, list[list[int]]]:
    """``{passage id: [[start, end], ...]}``, in the order given."""
    found: dict[str, list[list[int]]] = {}
    for span in spans:
        found.setdefault(span.passage_id, []).append([span.start, span.end])
    return found


def _dropped(drop: Drop) -> dict[str, Any]:
    return {**_scored(drop), "reason": drop.reason}


def _scored(part: Keep | Drop) -> dict[str, Any]:
    return {"start": part.span.start, "end": part.span.end, "score": _number(part.score)}


def _number(score: float | None) -> float | None:
    return float(score) if score is not None and math.isfinite(score) else None
