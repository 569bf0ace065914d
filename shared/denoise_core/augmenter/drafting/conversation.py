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
    return _to_state(_read_passages(states))


def conversation_evidence(states: Iterable[Any]) -> tuple[RetrievedEvidence, ...]:
    """What earlier answers rested on, as evidence for a draft; () if there is none."""
    passages = _read_passages([merge_cited(states)])
    return (RetrievedEvidence(passages),) if passages else ()


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
            if passage.text.strip():
                passages.setdefault(passage.text, passage)
    return tuple(passages.values())
