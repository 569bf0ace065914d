"""The interface between the loop and whoever writes the drafts: a chain, an agent, an engine.

Drafting is one effect: it has a tag (``draft``), a place in the trace, a share of the budget, a time limit, and it
is recorded and replayed. What it brings is a `DraftReply`: the text, the evidence that was collected on the way, each
passage with its provenance, and what it really cost.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol, runtime_checkable

from denoise_core.errors import InputError
from denoise_core.types import Message, Passage, Reply


@dataclass(frozen=True, slots=True)
class RetrievedEvidence:
    """Passages that one search or one tool brought, and the words it was asked with (None: not known).

    Each passage says its provenance; only ``"retrieved"`` and ``"tool"`` count as evidence. ``query`` is what the
    loop holds against the rejected drafts: a search for a rejected draft's own words brings no evidence.
    """

    passages: tuple[Passage, ...]
    query: str | None = None


@dataclass(frozen=True, slots=True)
class DraftRequest:
    """What a drafter is asked for.

    ``evidence`` is what the loop itself searched, best first (none where the drafter finds its own). ``rejected_draft``
    and ``feedback`` are the last draft that did not hold and what is wrong with it; both are empty on the first
    draft and after one that could not be judged. They are for the model that writes and never for a search:
    searches use ``question``. ``attempt`` counts the drafts before this one. ``should_resample`` asks a model that would say
    the same again to sample (a temperature above zero, another seed).
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
    """A draft. ``usage`` is the sum over all ``calls`` of models behind it, as the models reported it.

    ``retrieved`` is the evidence collected while drafting. ``fields`` is set for structured output, which is judged
    field by field; ``text`` is then its JSON, and made from it when left empty. ``judge=False`` hands the draft
    back as it is: a tool call, a step in the middle. ``origin`` is whatever the adapter wants back with the
    attempt that is sent (a message, a response); it is not recorded.
    """

    retrieved: tuple[RetrievedEvidence, ...] = ()
    fields: Mapping[str, Any] | None = None
    judge: bool = True
    origin: Any = field(default=None, compare=False, repr=False)

    def __post_init__(self) -> None:
        if self.fields is not None and not self.text:
            made = json.dumps(self.fields, ensure_ascii=False, default=str)
            object.__setattr__(self, "text", made)


@runtime_checkable
class Drafter(Protocol):
    """Writes drafts.

    ``repeatable``: asking twice has no effect outside (a chain that only reads, the last model call of an agent
    with the same tool results). One that is not is asked once: its draft is judged and repaired, and a new one is
    written only with ``LoopLimits(rerun=True)``. A plain `Reply` is a `DraftReply` that found nothing. Both forms
    raise what the outside raises.
    """

    @property
    def repeatable(self) -> bool:
        """Whether asking twice has no effect outside; what is not is asked once."""
        ...

    def draft(self, request: DraftRequest) -> Reply:
        """A draft for what is asked, with the feedback on the one before, if there was one."""
        ...

    async def adraft(self, request: DraftRequest) -> Reply:
        """The same without blocking the event loop."""
        ...


@runtime_checkable
class StreamingDrafter(Drafter, Protocol):
    """A drafter that also gives its draft as it is written: pieces of text, each `RetrievedEvidence` before the text that
    rests on it, and as the last item the whole `DraftReply`."""

    def stream(
        self, request: DraftRequest
    ) -> Iterator[str | RetrievedEvidence | DraftReply]:
        """Pieces of the draft's text as they come, what was found, and at last the draft itself."""
        ...

    def astream(
        self, request: DraftRequest
    ) -> AsyncIterator[str | RetrievedEvidence | DraftReply]:
        """The same without blocking the event loop."""
        ...


class FixedText:
    """A draft that stands already: judged, repaired where it can be, never asked for again.

    ``evidence`` counts by each passage's own provenance.
    """

    repeatable = False

    def __init__(
        self,
        text: str = "",
        evidence: Sequence[Passage] = (),
        *,
        fields: Mapping[str, Any] | None = None,
    ) -> None:
        if isinstance(evidence, (str, Passage)):
            raise InputError(
                f"evidence: expected a list of Passages, got a {type(evidence).__name__}"
            )
        found = (RetrievedEvidence(tuple(evidence)),) if evidence else ()
        self.drafted = DraftReply(text, calls=0, retrieved=found, fields=fields)

    def draft(self, request: DraftRequest) -> DraftReply:
        return self.drafted

    async def adraft(self, request: DraftRequest) -> DraftReply:
        return self.drafted


class DraftServer:
    """A drafter with its request in the place of an LLM: so a draft is an effect like any other."""

    def __init__(self, drafter: Drafter, request: DraftRequest) -> None:
        self.drafter = drafter
        self.request = request

    def complete(self, messages: Sequence[Message]) -> Reply:
        return _checked(self.drafter.draft(self.request))

    async def acomplete(self, messages: Sequence[Message]) -> Reply:
        return _checked(await self.drafter.adraft(self.request))


def request_messages(request: DraftRequest) -> tuple[Message, ...]:
    """How a request stands in the trace: the conversation, the question, the rejected draft and what was wrong."""
    messages = [*request.history, Message("user", request.question)]
    if request.rejected_draft:
        messages += [
            Message("assistant", request.rejected_draft),
            Message("user", request.feedback),
        ]
    return tuple(messages)


def _checked(drafted: object) -> DraftReply:
    if isinstance(drafted, str):
        return DraftReply(drafted)
    if type(drafted) is Reply:
        return DraftReply(drafted.text, drafted.usage)
    if not isinstance(drafted, DraftReply):
        raise TypeError(
            f"Drafter.draft must return a DraftReply, got {type(drafted).__name__}"
        )
    return drafted
