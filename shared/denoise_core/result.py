"""What a run returns, and the trace of how it got there."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from denoise_core._optional import render_html
from denoise_core.types import Drop, Event, Keep, Passage, Span, Usage

_TRACE_ATTRIBUTE = "__denoise_trace__"  # of an exception


@dataclass(frozen=True, slots=True)
class Trace:
    """Every effect of one run, in the order of the requests."""

    events: tuple[Event, ...] = ()

    @property
    def seconds(self) -> float:
        """Summed seconds of the effects; with concurrency more than the wall clock."""
        return sum(event.seconds for event in self.events)

    @property
    def usage(self) -> Usage:
        """Tokens over all events that report any."""
        usages = [event.usage for event in self.events if event.usage is not None]
        input_tokens = sum(usage.input_tokens for usage in usages)
        output_tokens = sum(usage.output_tokens for usage in usages)
        cached_tokens = sum(usage.cached_tokens for usage in usages)
        is_estimated = any(usage.is_estimated for usage in usages)
        return Usage(input_tokens, output_tokens, is_estimated, cached_tokens)

    def __add__(self, other: Trace) -> Trace:
        all_events = self.events + other.events
        return Trace(all_events)


@dataclass(frozen=True, slots=True)
class DenoiseResult:
    """What was kept, what was dropped and why.

    Args:
        query: Differs from the original one only when the method rewrites it (S2A).
        passages: What was kept.
        dropped: Input ranges that were left out.
        trace: The effects of the run.
        fallback: None when the method did its work; otherwise what went wrong and what
            was done instead.
        kept: The chunks of ``passages`` with their scores, when the method scores (END).
        relevant: False when the passages do not answer the query, as far as the method
            can tell (END: nothing is on topic; S2A: the model needs nothing of them),
            None when it cannot tell.
        note: A remark of the method, such as that all passages look alike.
        failures: What failed, by the id of each input passage to which the failure
            policy was applied.
        question_note: Why the user's question was used unchanged where removing its
            opinion failed or was refused (S2A).
    """

    query: str
    passages: tuple[Passage, ...]
    dropped: tuple[Drop, ...] = ()
    trace: Trace = Trace()
    fallback: str | None = None
    kept: tuple[Keep, ...] = ()
    relevant: bool | None = None
    note: str | None = None
    failures: Mapping[str, str] = field(default_factory=dict)
    question_note: str | None = None

    def __repr__(self) -> str:
        """Return one line, whatever was denoised."""
        dropped_length = sum(len(drop.span) for drop in self.dropped)
        kept_length = sum(len(passage.text) for passage in self.passages)
        notes = ""
        for name in ("relevant", "fallback"):
            value = getattr(self, name)
            if value is not None:
                notes += f", {name}={value!r}"
        query_start = self.query[:60]
        passage_count = len(self.passages)
        return (
            f"DenoiseResult({query_start!r}: {passage_count} passages kept, "
            f"{kept_length:,} characters; {dropped_length:,} dropped{notes})"
        )

    def _repr_html_(self) -> str | None:
        return render_html("result", self)

    def as_json(self) -> dict[str, Any]:
        """Return plain values: the kept texts, and all ranges with scores."""
        passage_rows = [_passage_row(passage) for passage in self.passages]
        kept_rows = [_chunk_row(keep) for keep in self.kept]
        dropped_rows = []
        for drop in self.dropped:
            chunk_row = _chunk_row(drop)
            dropped_rows.append({**chunk_row, "reason": drop.reason})
        return {
            "query": self.query,
            "passages": passage_rows,
            "kept": kept_rows,
            "dropped": dropped_rows,
            "relevant": self.relevant,
            "note": self.note,
            "fallback": self.fallback,
            "question_note": self.question_note,
        }


def _passage_row(passage: Passage) -> dict[str, Any]:
    span_rows = [_range_row(span) for span in passage.source_spans]
    return {
        "id": passage.id,
        "text": passage.text,
        "rewritten": passage.is_rewritten,
        "spans": span_rows,
        "metadata": dict(passage.metadata),
    }


def _chunk_row(chunk: Keep | Drop) -> dict[str, Any]:
    range_row = _range_row(chunk.span)
    row_score = json_score(chunk.score)
    return {**range_row, "score": row_score}


def json_score(score: float | None) -> float | None:
    """Return a score as JSON has it: None where it is not finite."""
    if score is None or not math.isfinite(score):
        return None
    return float(score)


def _range_row(span: Span) -> dict[str, Any]:
    return {"id": span.passage_id, "start": span.start, "end": span.end}


def trace_of(error: BaseException) -> Trace:
    """Return the trace of an exception that left `run` or `arun`; else an empty one."""
    trace = getattr(error, _TRACE_ATTRIBUTE, None)
    return trace if isinstance(trace, Trace) else Trace()


def attach_trace(error: BaseException, events: Iterable[Event]) -> None:
    """Attach the events to ``error``; they include those of inner runs."""
    try:
        trace = Trace(tuple(events))
        setattr(error, _TRACE_ATTRIBUTE, trace)
    except AttributeError:  # an exception class with __slots__: nothing to hang it on
        return
