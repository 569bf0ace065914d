"""Evidence that lives as long as the conversation.

"Say that again, shorter" searches nothing, so the restated answer is judged by what the
answers before it rested on. An adapter keeps `cited_state` of each answer where its
framework keeps the conversation, and adds `conversation_evidence` to the next draft.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, TypeAlias

from denoise_core.augmenter.answer import Answer
from denoise_core.augmenter.drafting.drafter import RetrievedEvidence
from denoise_core.augmenter.knowledge.evidence_budget import truncate_to_budget
from denoise_core.augmenter.prompts import cited_passages, title_of
from denoise_core.jsonable import from_jsonable
from denoise_core.types import Passage

CitedState: TypeAlias = list[dict[str, str]]
"""Passages as plain JSON: id, text, header and provenance."""

MAX_PASSAGES = 8
MAX_TOKENS = 2000  # estimated, of all passages kept


def cited_state(answer: Answer) -> CitedState:
    """The passages that an answer cites or that its verdict quotes; none if it abstains."""
    best = answer.best
    if best is None or best.candidate != answer.text or best.is_abstention:
        return []
    quotes = best.verdict.quotes
    quoted_ids = {quote.span.passage_id for quote in quotes}
    evidence_used = list(cited_passages(best))
    for passage in best.evidence:
        is_quoted = passage.id in quoted_ids
        if is_quoted and passage not in evidence_used:
            evidence_used.append(passage)
    return _to_state(evidence_used, answer.text)


def merge_cited(states: Iterable[Any]) -> CitedState:
    """One state of several, the newest first; the bounds hold for all of them together.

    What is no such state, as in a record of an earlier version, is left out.
    """
    passages = _read_passages(states)
    return _to_state(passages)


def conversation_evidence(states: Iterable[Any]) -> tuple[RetrievedEvidence, ...]:
    """What earlier answers rested on, as evidence for a draft; () if there is none."""
    merged_state = merge_cited(states)
    passages = _read_passages([merged_state])
    if not passages:
        return ()
    earlier_evidence = RetrievedEvidence(passages)
    return (earlier_evidence,)


def _to_state(passages: Sequence[Passage], topic: str = "") -> CitedState:
    """The first passages within the bounds."""
    first_passages = passages[:MAX_PASSAGES]
    kept_passages, _ = truncate_to_budget(first_passages, MAX_TOKENS, topic)
    state = []
    for passage in kept_passages:
        shown_header = passage.header or title_of(passage)
        fields = {
            "id": passage.id,
            "text": passage.text,
            "header": shown_header,
            "provenance": passage.provenance,
        }
        state.append(fields)
    return state


def _read_passages(states: Iterable[Any]) -> tuple[Passage, ...]:
    """The passages of the states in order, each text once."""
    passages: dict[str, Passage] = {}
    for state in states:
        if not isinstance(state, list):
            continue
        for fields in state:
            try:
                passage: Passage = from_jsonable(Passage, {"id": "earlier", **fields})
            except (KeyError, TypeError, ValueError):
                continue
            has_text = passage.text.strip()
            if has_text:
                passages.setdefault(passage.text, passage)
    distinct_passages = passages.values()
    return tuple(distinct_passages)
