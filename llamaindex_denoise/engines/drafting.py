"""Responses that are shown while the loop is still at work: draft first, or sentence by sentence as they pass."""

from __future__ import annotations

import itertools
from collections.abc import AsyncGenerator, Generator, Iterator
from contextlib import aclosing
from typing import Protocol

from llama_index.core.base.response.schema import RESPONSE_TYPE, Response

from denoise_core.augmenter.streaming import draft_first, held_back
from denoise_core.augmenter.streaming.watch import Finished, Restarted, Revised, StreamEvent, Text
from llamaindex_denoise.engines.base import AsyncDraftResponse, DraftResponse, Streaming, pieces_of
from llamaindex_denoise.verify import Asked


class Streams(Protocol):
    """The engine: how it streams."""

    streaming: Streaming
    revision_notice: str


def drafting(asked: Asked, engine: Streams) -> DraftResponse:
    """Returns when the draft begins; what fails before that is raised here."""
    follow = held_back if engine.streaming == "held_back" else draft_first
    events = iter(follow(asked.loop, asked.question, asked.history, drafter=asked.drafter))
    first = next(events)

    def shown() -> Generator[str, None, None]:
        for event in itertools.chain([first], events):
            yield from _show(event, response, asked, engine)

    response = DraftResponse(shown())
    return response


def adrafting(asked: Asked, engine: Streams) -> AsyncDraftResponse:
    """`drafting` for async: begins, and raises what fails, when the response is read."""
    follow = held_back if engine.streaming == "held_back" else draft_first

    async def shown() -> AsyncGenerator[str, None]:
        run = follow(asked.aside(), asked.question, asked.history, drafter=asked.drafter)
        async with aclosing(aiter(run)) as events:  # a reader that leaves ends the run
            async for event in events:
                for piece in _show(event, response, asked, engine):
                    yield piece

    def whole() -> RESPONSE_TYPE:
        text, nodes, metadata = asked.verified()
        return Response(str(text), nodes, metadata)

    response = AsyncDraftResponse(shown(), whole)
    return response


def _show(
    event: StreamEvent, response: DraftResponse | AsyncDraftResponse, asked: Asked, engine: Streams
) -> Iterator[str]:
    """What the reader sees of an event; the last one settles the response."""
    if isinstance(event, Text):
        yield event.text
    elif isinstance(event, Restarted):
        yield engine.revision_notice
    elif isinstance(event, (Finished, Revised)):
        text, nodes, metadata = asked.told(event.answer)
        response.settle(str(text), nodes, metadata)
        if isinstance(event, Revised):
            yield engine.revision_notice
            yield from pieces_of(str(text))
