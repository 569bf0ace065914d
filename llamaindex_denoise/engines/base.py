"""What our query engines share: responses that can be streamed, prompts that can be reached through them."""

from __future__ import annotations

import re
from collections.abc import AsyncGenerator, Generator, Mapping, Sequence
from typing import Any, Literal, TypeAlias

from llama_index.core.base.base_query_engine import BaseQueryEngine
from llama_index.core.base.llms.types import ChatMessage
from llama_index.core.base.response.schema import (
    RESPONSE_TYPE,
    AsyncStreamingResponse,
    PydanticResponse,
    Response,
    StreamingResponse,
)
from llama_index.core.bridge.pydantic import BaseModel
from llama_index.core.postprocessor.types import BaseNodePostprocessor
from llama_index.core.prompts.mixin import PromptMixin, PromptMixinType
from llama_index.core.schema import NodeWithScore

from denoise_core import InputError, Message
from denoise_core.types import Role
from llamaindex_denoise.engines.prompts import NestedPrompts

Streaming: TypeAlias = bool | Literal["draft_first", "held_back"]
Nodes: TypeAlias = Sequence[NodeWithScore]


class DenoiseEngine(NestedPrompts, BaseQueryEngine):
    """Base of our engines. With ``streaming=True`` the finished text is handed out in pieces, and no sooner."""

    streaming: Streaming = False

    def _finished(
        self, text: Any, nodes: Sequence[NodeWithScore], metadata: dict[str, Any], *, later: bool = False
    ) -> RESPONSE_TYPE:
        """The response, a stream for sync or async (``later``) code where one is wanted."""
        if isinstance(text, BaseModel):
            return PydanticResponse(text, list(nodes), metadata)
        if not self.streaming:
            return Response(text, list(nodes), metadata)
        if later:
            return AsyncStreamingResponse(_apieces(text), list(nodes), metadata)
        return StreamingResponse(pieces_of(text), list(nodes), metadata)


def response_metadata(nodes: Sequence[NodeWithScore], note: dict[str, Any]) -> dict[str, Any]:
    """LlamaIndex's own form, the metadata of each source by its id, and our record beside them."""
    return {**{n.node.node_id: n.node.metadata for n in nodes}, "denoise": note}


def postprocessor_modules(postprocessors: Sequence[BaseNodePostprocessor]) -> PromptMixinType:
    """The postprocessors whose prompts can be reached, by their place."""
    return {f"postprocessor_{i}": p for i, p in enumerate(postprocessors) if isinstance(p, PromptMixin)}


_ROLES: Mapping[str, Role] = {"system": "system", "developer": "system", "user": "user", "assistant": "assistant"}


def messages_of(history: Sequence[ChatMessage | Message]) -> tuple[Message, ...]:
    """A conversation of LlamaIndex's messages, or the core's; what tools said is left out. Raises `InputError`."""
    if isinstance(history, (str, ChatMessage, Message)):
        raise InputError(f"history: expected a list of ChatMessages, got a {type(history).__name__}")
    out: list[Message] = []
    for place, m in enumerate(history):
        if isinstance(m, Message):
            out.append(m)
        elif not isinstance(m, ChatMessage):
            raise InputError(f"history[{place}]: expected a ChatMessage, got {type(m).__name__}")
        elif (role := _ROLES.get(m.role.value)) is not None and (m.content or "").strip():
            out.append(Message(role, m.content or ""))
    return tuple(out)


def text_of_response(response: RESPONSE_TYPE) -> str:
    """The text of any synchronous response; a stream is read to its end."""
    if isinstance(response, StreamingResponse):
        response = response.get_response()
    if isinstance(response, AsyncStreamingResponse):
        raise TypeError("expected a synchronous response, got an AsyncStreamingResponse; call aquery instead")
    return "" if response.response is None else str(response)


class _Settled:
    """What a draft-first response adds: sources, metadata and the answer itself, once the stream has ended."""

    source_nodes: list[NodeWithScore]
    metadata: dict[str, Any] | None
    _so_far: str | None = None
    _answer: str | None = None

    @property
    def response_txt(self) -> str | None:
        """The answer alone when it is known, not what was shown on the way to it."""
        return self._so_far if self._answer is None else self._answer

    @response_txt.setter
    def response_txt(self, text: str | None) -> None:
        self._so_far = text

    def settle(self, text: str, nodes: Sequence[NodeWithScore], metadata: dict[str, Any]) -> None:
        self._answer = text
        self.source_nodes = list(nodes)
        self.metadata = metadata


class DraftResponse(_Settled, StreamingResponse):
    """A draft in pieces, then its verdict. ``source_nodes`` and ``metadata`` are empty until the stream ends."""


class AsyncDraftResponse(_Settled, AsyncStreamingResponse):
    """`DraftResponse` for async; the run begins when it is read."""

    def __str__(self) -> str:
        return super().__str__() if self.response_txt is None else self.response_txt


def pieces_of(text: str) -> Generator[str, None, None]:
    yield from re.findall(r"\S+\s*|\s+", text)


async def _apieces(text: str) -> AsyncGenerator[str, None]:
    for piece in pieces_of(text):
        yield piece
