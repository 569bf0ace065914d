"""Responses that are shown while the loop is still at work: draft first, or sentence by sentence as they pass."""

from __future__ import annotations

import itertools
from collections.abc import AsyncGenerator, Generator, Iterator, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field
from typing import Any, Protocol

from llama_index.core.base.response.schema import RESPONSE_TYPE, Response
from llama_index.core.schema import NodeWithScore

from denoise_core import Message
from denoise_core.augmenter import Answer, Augmenter
from denoise_core.augmenter.drafting.drafter import Drafter
from denoise_core.augmenter.streaming.events import Finished, Restarted, Revised, StreamEvent, Text
from denoise_core.augmenter.streaming.stream import draft_first, held_back
from llamaindex_denoise.engines.base import AsyncDraftResponse, DraftResponse, Streaming, pieces_of


@dataclass(frozen=True, slots=True)
class Asked:
    """One question to a loop; ``extra`` are source nodes that stand behind no text."""

    augmenter: Augmenter
    question: str
    history: Sequence[Message] = ()
    drafter: Drafter | None = None
    extra: list[NodeWithScore] = field(default_factory=list)

    def answer(self) -> Answer:
        return self.augmenter.answer(self.question, self.history, drafter=self.drafter)

    async def aanswer(self) -> Answer:
        return await self.augmenter.aanswer(self.question, self.history, drafter=self.drafter)


class Tells(Protocol):
    """The engine: how it streams, and what it makes of an answer."""

    streaming: Streaming
    revision_notice: str

    def told(self, answer: Answer, asked: Asked) -> tuple[Any, list[NodeWithScore], dict[str, Any]]: ...


def drafting(asked: Asked, engine: Tells) -> DraftResponse:
    """Returns when the draft begins; what fails before that is raised here."""
    follow = held_back if engine.streaming == "held_back" else draft_first
    events = iter(follow(asked.augmenter, asked.question, asked.history, drafter=asked.drafter))
    first = next(events)

    def shown() -> Generator[str, None, None]:
        for event in itertools.chain([first], events):
            yield from _show(event, response, asked, engine)

    response = DraftResponse(shown())
    return response


def adrafting(asked: Asked, engine: Tells) -> AsyncDraftResponse:
    """`drafting` for async: begins, and raises what fails, when the response is read."""
    follow = held_back if engine.streaming == "held_back" else draft_first

    async def shown() -> AsyncGenerator[str, None]:
        run = follow(asked.augmenter, asked.question, asked.history, drafter=asked.drafter)
        async with aclosing(aiter(run)) as events:  # a reader that leaves ends the run
            async for event in events:
                for piece in _show(event, response, asked, engine):
                    yield piece

    def whole() -> RESPONSE_TYPE:
        text, nodes, metadata = engine.told(asked.answer(), asked)
        return Response(str(text), nodes, metadata)

    response = AsyncDraftResponse(shown(), whole)
    return response


def _show(
    event: StreamEvent, response: DraftResponse | AsyncDraftResponse, asked: Asked, engine: Tells
) -> Iterator[str]:
    """What the reader sees of an event; the last one settles the response."""
    if isinstance(event, Text):
        yield event.text
    elif isinstance(event, Restarted):
        yield engine.revision_notice
    elif isinstance(event, (Finished, Revised)):
        text, nodes, metadata = engine.told(event.answer, asked)
        response.settle(str(text), nodes, metadata)
        if isinstance(event, Revised):
            yield engine.revision_notice
            yield from pieces_of(str(text))
