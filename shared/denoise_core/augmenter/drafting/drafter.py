"""The interface between the loop and what writes drafts: a chain, an agent, an engine.

Drafting is one effect: it has a tag (``draft``), a place in the trace, a share of the
budget and a time limit, and it is recorded and replayed.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol, runtime_checkable

from denoise_core.support.check import expect_passages
from denoise_core.support.judging import ProviderCitation
from denoise_core.types import Message, Passage, Reply


@dataclass(frozen=True, slots=True)
class RetrievedEvidence:
    """Passages that one search or one tool brought.

    Attributes:
        passages: Each says its provenance; only ``"retrieved"`` and ``"tool"`` count as
            evidence.
        query: The words searched, None when not known. A search for a rejected draft's
            words brings no evidence.
    """

    passages: tuple[Passage, ...]
    query: str | None = None


@dataclass(frozen=True, slots=True)
class DraftRequest:
    """What a drafter is asked for.

    Attributes:
        question: The question, for searches too.
        history: The conversation before it.
        evidence: What the loop searched, best first; empty where the drafter searches.
        rejected_draft: The last draft, if it failed. For the model that writes, never
            for a search.
        feedback: What is wrong with it.
        attempt: The number of drafts before this one.
        should_resample: Whether a model that would repeat its reply must sample (a
            temperature above zero, another seed).
    """

    question: str
    history: tuple[Message, ...] = ()
    evidence: tuple[Passage, ...] = ()
    rejected_draft: str = ""
    feedback: str = ""
    attempt: int = 0
    should_resample: bool = False


@dataclass(frozen=True, slots=True)
class DraftReply(Reply):
    """A draft; ``usage`` is the sum over all ``calls`` of models for it.

    Attributes:
        retrieved: The evidence collected while drafting.
        fields: Structured output, which is judged field by field. ``text`` is then its
            JSON, and made from it when left empty; tool calls, which are not judged,
            need none.
        judge: False returns the draft as it is: a tool call, an intermediate step.
        origin: What the adapter wants back with the attempt that is sent (a message, a
            response); not recorded.
        citations: What the model's provider cites along with the text.
        evidence_is_numbered: Whether the model may have read the evidence as numbered
            from 1, in this order. If not, as where tools number their own results, a
            number in brackets cites a passage only by its id.
    """

    retrieved: tuple[RetrievedEvidence, ...] = ()
    fields: Mapping[str, Any] | None = None
    judge: bool = True
    origin: Any = field(default=None, compare=False, repr=False)
    citations: tuple[ProviderCitation, ...] = ()
    evidence_is_numbered: bool = True

    def __post_init__(self) -> None:
        """Write ``fields`` that are judged as the text when there is none."""
        if self.judge and self.fields is not None and not self.text:
            text = json.dumps(self.fields, ensure_ascii=False, default=str)
            object.__setattr__(self, "text", text)


@runtime_checkable
class Drafter(Protocol):
    """Writes drafts. Both forms raise what the chain, agent or engine raises."""

    @property
    def repeatable(self) -> bool:
        """Whether asking twice has no effect outside.

        True for a chain that only reads, and for an agent's last model call with the
        same tool results. A drafter that is not is asked once, unless
        ``LoopLimits(rerun=True)``.
        """
        ...

    def draft(self, request: DraftRequest) -> Reply:
        """Write a draft, given the feedback on the one before.

        A plain `Reply` is a `DraftReply` without evidence.
        """
        ...

    async def adraft(self, request: DraftRequest) -> Reply:
        """Write a draft without blocking the event loop."""
        ...


@runtime_checkable
class StreamingDrafter(Drafter, Protocol):
    """A drafter that also yields its draft while it is written."""

    def stream(self, request: DraftRequest) -> Iterator[str | DraftReply]:
        """Yield the text as it is written, last the whole draft with its evidence."""
        ...

    def astream(self, request: DraftRequest) -> AsyncIterator[str | DraftReply]:
        """Stream without blocking the event loop."""
        ...


class FixedText:
    """A draft that is written already: judged as it is, never asked for again.

    Args:
        text: The draft.
        evidence: Passages that count by their provenance.
        fields: The draft as structured output.
    """

    repeatable = False

    def __init__(
        self,
        text: str = "",
        evidence: Sequence[Passage] = (),
        *,
        fields: Mapping[str, Any] | None = None,
    ) -> None:
        passages = expect_passages(evidence, "evidence")
        retrieved: tuple[RetrievedEvidence, ...] = ()
        if passages:
            given_evidence = RetrievedEvidence(passages)
            retrieved = (given_evidence,)
        self.drafted = DraftReply(text, calls=0, retrieved=retrieved, fields=fields)

    def draft(self, request: DraftRequest) -> DraftReply:
        """Return the text."""
        return self.drafted

    async def adraft(self, request: DraftRequest) -> DraftReply:
        """Return the text."""
        return self.drafted


class DraftServer:
    """A drafter with its request, as an LLM: so a draft is an effect like any other."""

    def __init__(self, drafter: Drafter, request: DraftRequest) -> None:
        self.drafter = drafter
        self.request = request

    def complete(self, messages: Sequence[Message]) -> Reply:
        """Ask the drafter."""
        reply = self.drafter.draft(self.request)
        return _to_draft_reply(reply)

    async def acomplete(self, messages: Sequence[Message]) -> Reply:
        """Ask the drafter without blocking the event loop."""
        reply = await self.drafter.adraft(self.request)
        return _to_draft_reply(reply)


def request_messages(request: DraftRequest) -> tuple[Message, ...]:
    """A request as messages, for the trace."""
    question_message = Message("user", request.question)
    messages = [*request.history, question_message]
    if request.rejected_draft:
        draft_message = Message("assistant", request.rejected_draft)
        feedback_message = Message("user", request.feedback)
        messages += [draft_message, feedback_message]
    return tuple(messages)


def _to_draft_reply(reply: object) -> DraftReply:
    if isinstance(reply, str):
        return DraftReply(reply)
    if type(reply) is Reply:
        return DraftReply(reply.text, reply.usage)
    if not isinstance(reply, DraftReply):
        reply_type = type(reply).__name__
        raise TypeError(f"Drafter.draft must return a DraftReply, got {reply_type}")
    return reply
