"""What our query engines share: responses that can be streamed, prompts that can be reached through them."""

from __future__ import annotations

import re
from collections.abc import AsyncGenerator, Generator, Sequence
from typing import Any, Literal, TypeAlias

from llama_index.core.base.base_query_engine import BaseQueryEngine
from llama_index.core.base.response.schema import (
    RESPONSE_TYPE,
    AsyncStreamingResponse,
    Response,
    StreamingResponse,
)
from llama_index.core.postprocessor.types import BaseNodePostprocessor
from llama_index.core.prompts.mixin import PromptMixin, PromptMixinType
from llama_index.core.schema import NodeWithScore

from llamaindex_denoise.engines.prompts import NestedPrompts

Streaming: TypeAlias = bool | Literal["draft_first"]


class DenoiseEngine(NestedPrompts, BaseQueryEngine):
    """Base of our engines. With ``streaming=True`` the finished text is handed out in pieces, and no sooner."""

    streaming: Streaming = False

    def _finished(self, text: str, nodes: Sequence[NodeWithScore], metadata: dict[str, Any]) -> RESPONSE_TYPE:
        if self.streaming:
            return StreamingResponse(pieces_of(text), list(nodes), metadata)
        return Response(text, list(nodes), metadata)

    def _afinished(self, text: str, nodes: Sequence[NodeWithScore], metadata: dict[str, Any]) -> RESPONSE_TYPE:
        if self.streaming:
            return AsyncStreamingResponse(_apieces(text), list(nodes), metadata)
        return Response(text, list(nodes), metadata)


def response_metadata(nodes: Sequence[NodeWithScore], note: dict[str, Any]) -> dict[str, Any]:
    """LlamaIndex's own form, the metadata of each source by its id, and our record beside them."""
    return {**{n.node.node_id: n.node.metadata for n in nodes}, "denoise": note}


def postprocessor_modules(postprocessors: Sequence[BaseNodePostprocessor]) -> PromptMixinType:
    """The postprocessors whose prompts can be reached, by their place."""
    return {f"postprocessor_{i}": p for i, p in enumerate(postprocessors) if isinstance(p, PromptMixin)}


def text_of_response(response: RESPONSE_TYPE) -> str:
    """The text of any synchronous response; a stream is read to its end."""
    if isinstance(response, StreamingResponse):
        response = response.get_response()
    if isinstance(response, AsyncStreamingResponse):
        raise TypeError("expected a synchronous response, got an AsyncStreamingResponse; call aquery instead")
    return "" if response.response is None else str(response)


async def atext_of_response(response: RESPONSE_TYPE) -> str:
    """The text of any response; a stream is read to its end."""
    if isinstance(response, AsyncStreamingResponse):
        response = await response.get_response()
    return text_of_response(response)


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
    """`DraftResponse` for async."""


def pieces_of(text: str) -> Generator[str, None, None]:
    yield from re.findall(r"\S+\s*|\s+", text)


async def _apieces(text: str) -> AsyncGenerator[str, None]:
    for piece in pieces_of(text):
        yield piece
