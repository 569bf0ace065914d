"""Evidence that lives as long as the conversation.

"Say that again, shorter" searches nothing, so the restated answer is judged by what the
answers before it rested on. An adapter keeps `cited_state` of each answer where its
framework keeps the conversation, and adds `conversation_evidence` to the next draft.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, TypeAlias

from denoise_core.augmenter.answer import Answer
from denoise_core.augmenter.drafting.drafter import RetrievedEvidence
from denoise_core.augmenter.knowledge.evidence_budget import truncate_to_budget
from denoise_core.augmenter.prompts import cited_passages, title_of
from denoise_core.types import Passage, Provenance

CitedState: TypeAlias = list[dict[str, str]]
"""Passages as plain JSON: id, text, header and provenance."""

MAX_PASSAGES = 8
MAX_TOKENS = 2000  # estimated, of all passages kept


def cited_state(answer: Answer) -> CitedState:
    """The passages that an answer cites or that its verdict quotes; none if it abstains."""
    best = answer.best
    if best is None or best.candidate != answer.text or best.is_abstention:
        return []
    quoted_ids = {quote.span.passage_id for quote in best.verdict.quotes}
    cited = list(cited_passages(best))
    for passage in best.evidence:
        is_quoted = passage.id in quoted_ids
        if is_quoted and passage not in cited:
            cited.append(passage)
    return _to_state(cited, answer.text)


def merge_cited(states: Iterable[Any]) -> CitedState:
    """One state of several, the newest first; the bounds hold for all of them together.

    What is no such state, as in a record of an earlier version, is left out.
    """
    merged: CitedState = []
    seen_texts: set[str] = set()
    for state in states:
        if not isinstance(state, list):
            continue
        for fields in state:
            if not isinstance(fields, Mapping):
                continue
            text = fields.get("text")
            if not isinstance(text, str) or text in seen_texts:
                continue
            if text.strip():
                seen_texts.add(text)
                merged.append(dict(fields))
    passages = _to_passages(merged)
    return _to_state(passages)


def conversation_evidence(states: Iterable[Any]) -> tuple[RetrievedEvidence, ...]:
    """What earlier answers rested on, as evidence for a draft; () if there is none."""
    merged = merge_cited(states)
    if not merged:
        return ()
    evidence = RetrievedEvidence(_to_passages(merged))
    return (evidence,)


def _to_state(passages: Sequence[Passage], topic: str = "") -> CitedState:
    """The first passages within the bounds."""
    kept, _ = truncate_to_budget(passages[:MAX_PASSAGES], MAX_TOKENS, topic)
    state = []
    for passage in kept:
        fields = {
            "id": passage.id,
            "text": passage.text,
            "header": passage.header or title_of(passage),
            "provenance": passage.provenance,
        }
        state.append(fields)
    return state


def _to_passages(state: CitedState) -> tuple[Passage, ...]:
    passages = []
    for number, fields in enumerate(state, 1):
        passage_id = fields.get("id") or f"earlier-{number}"
        header = fields.get("header", "")
        provenance: Provenance = "retrieved"
        if fields.get("provenance") == "tool":
            provenance = "tool"
        passage = Passage(
            fields["text"],
            str(passage_id),
            header=str(header),
            provenance=provenance,
        )
        passages.append(passage)
    return tuple(passages)
