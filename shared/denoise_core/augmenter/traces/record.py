"""An `Answer` of the loop as plain JSON: for traces, events, graph states and the metadata of a response."""

from __future__ import annotations

from typing import Any

from denoise_core.augmenter.answer import Answer
from denoise_core.augmenter.memory import Attempt
from denoise_core.runtime.record import RECORD_VERSION, run_costs


def answer_record(answer: Answer) -> dict[str, Any]:
    """Why the run stopped and every attempt on the way; strings, numbers, lists and dicts only."""
    return {
        "v": RECORD_VERSION,
        "outcome": str(answer.outcome),
        "stopped_because": str(answer.stop_reason),
        "score": answer.score,
        "judge": answer.judge,
        "attempts": [attempt_record(a) for a in answer.memory.attempts],
        "citations": [p.id for p in answer.citations],
        "evidence": [p.id for p in answer.memory.evidence],
        "aside": [
            {"id": p.id, "provenance": p.provenance}
            for p in answer.memory.excluded_evidence
        ],
        "queries": list(answer.memory.queries),
        "failures": [
            {"what": what, "error": error} for what, error in answer.memory.failures
        ],
        **run_costs(answer.trace),
    }


def attempt_record(attempt: Attempt) -> dict[str, Any]:
    """Return one attempt of the loop, as in an answer's record."""
    return {
        "text": attempt.candidate,
        "draft": attempt.draft,
        "outcome": attempt.verdict.outcome,
        "score": float(attempt.verdict.score),
        "reasons": list(attempt.verdict.reasons),
        "feedback": attempt.feedback,
    }


def claims_record(answer: Answer) -> list[dict[str, Any]]:
    """For each claim of the answer that was sent its half-open range in the text, the verdict, and the quotes it
    rests on, with their passage's id and range; none where another text was judged, or fields.
    """
    best = answer.best
    if best is None or best.candidate != answer.text or best.fields is not None:
        return []
    return [
        {
            "start": claim.start,
            "end": claim.end,
            "supported": claim.supported,
            "kind": claim.kind,
            "why": claim.reason,
            "quotes": [
                {
                    "id": q.span.passage_id,
                    "start": q.span.start,
                    "end": q.span.end,
                    "text": q.text,
                }
                for q in claim.quotes
            ],
        }
        for claim in best.verdict.claims
    ]
