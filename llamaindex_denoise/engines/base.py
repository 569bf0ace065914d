"""What engines, chats and agents share: streamed responses and messages."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Generator, Mapping, Sequence
from typing import Any, TypeAlias

from llama_index.core.base.llms.types import ChatMessage
from llama_index.core.base.response.schema import (
    RESPONSE_TYPE,
    AsyncStreamingResponse,
    StreamingResponse,
)
from llama_index.core.schema import NodeWithScore

from denoise_core import Message
from denoise_core.types import Role

NodeSequence: TypeAlias = Sequence[NodeWithScore]


_ROLES: Mapping[str, Role] = {
    "system": "system",
    "developer": "system",
    "user": "user",
    "assistant": "assistant",
}


def history_to_messages(history: Sequence[ChatMessage]) -> tuple[Message, ...]:
    """Return a conversation as the core's messages, without tool messages."""
    messages: list[Message] = []
    for message in history:
        role = _ROLES.get(message.role.value)
        text = message.content or ""
        if role is not None and text.strip():
            messages.append(Message(role, text))
    return tuple(messages)


def response_text(response: RESPONSE_TYPE) -> str:
    """Return the text of a synchronous response; a stream is read to its end."""
    if isinstance(response, StreamingResponse):
        response = response.get_response()
    if isinstance(response, AsyncStreamingResponse):
        raise TypeError(
            "expected a synchronous response, got an AsyncStreamingResponse; call "
            "aquery instead"
        )
    if response.response is None:
        return ""
    return str(response)


class _DraftOutcome:
    """Sources, metadata and answer that a draft stream gets when it ends."""

    source_nodes: list[NodeWithScore]
    metadata: dict[str, Any] | None
    _shown_text: str | None = None
    _answer_text: str | None = None

    @property
    def response_txt(self) -> str | None:
        """The answer once it is known, without the draft that was shown before."""
        if self._answer_text is None:
            return self._shown_text
        return self._answer_text

    @response_txt.setter
    def response_txt(self, text: str | None) -> None:
        self._shown_text = text

    def set_answer(
        self, text: str, nodes: Sequence[NodeWithScore], metadata: dict[str, Any]
    ) -> None:
        """Fill in the outcome."""
        self._answer_text = text
        self.source_nodes = list(nodes)
        self.metadata = metadata


class DraftResponse(_DraftOutcome, StreamingResponse):
    """A streamed draft, then its verdict.

    ``source_nodes`` and ``metadata`` are empty until the stream ends.
    """


class AsyncDraftResponse(_DraftOutcome, AsyncStreamingResponse):
    """An async `DraftResponse`; the run starts when it is read."""

    def __str__(self) -> str:
        return super().__str__() if self.response_txt is None else self.response_txt


def stream_whole(text: str) -> Generator[str, None, None]:
    """A stream of one piece: the text is known."""
    yield text


async def astream_whole(text: str) -> AsyncGenerator[str, None]:
    """A stream of one piece, for async."""
    yield text
