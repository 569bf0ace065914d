"""Responses of engines and chats: their text, and streams that end with a verdict."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Generator
from typing import Any, TypeVar

from llama_index.core.base.response.schema import (
    AsyncStreamingResponse,
    StreamingResponse,
)
from llama_index.core.bridge.pydantic import BaseModel

T = TypeVar("T")


def response_text(response: Any) -> str:
    """Return the text of a synchronous response; a stream is read to its end."""
    if isinstance(response, StreamingResponse):
        response = response.get_response()
    answer = response.response
    if isinstance(answer, BaseModel):  # which may be false; str() would be "None" then
        return answer.model_dump_json()
    text: str = answer or ""
    return text


class _DraftOutcome:
    """The answer to a draft stream, known when the stream ends."""

    shown_text: str | None = None
    answer_text: str | None = None

    @property
    def response_txt(self) -> str | None:
        """The answer once it is known, without the draft that was shown before."""
        if self.answer_text is None:
            return self.shown_text
        return self.answer_text

    @response_txt.setter
    def response_txt(self, text: str | None) -> None:
        self.shown_text = text


class DraftResponse(_DraftOutcome, StreamingResponse):
    """A streamed draft, then its verdict.

    ``source_nodes`` and ``metadata`` are empty until the stream ends.
    """


class AsyncDraftResponse(_DraftOutcome, AsyncStreamingResponse):
    """An async `DraftResponse`; the run starts when it is read."""

    def __str__(self) -> str:
        return super().__str__() if self.response_txt is None else self.response_txt


def stream_whole(piece: T) -> Generator[T, None, None]:
    """A stream of one piece: the text is known."""
    yield piece


async def astream_whole(piece: T) -> AsyncGenerator[T, None]:
    """A stream of one piece, for async."""
    yield piece
