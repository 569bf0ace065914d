"""What our query engines share: responses that can be streamed, prompts that can be reached through them."""

from __future__ import annotations

import re
from collections.abc import AsyncGenerator, Generator, Sequence
from typing import Any

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

from llamaindex_denoise._prompts import NestedPrompts


class DenoiseEngine(NestedPrompts, BaseQueryEngine):
    """Base of our engines. With ``streaming`` the finished text is handed out in pieces, and no sooner."""

    streaming: bool = False

    def _finished(self, text: str, nodes: Sequence[NodeWithScore], metadata: dict[str, Any]) -> RESPONSE_TYPE:
        if self.streaming:
            return StreamingResponse(_pieces(text), list(nodes), metadata)
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


def _pieces(text: str) -> Generator[str, None, None]:
    yield from re.findall(r"\S+\s*|\s+", text)


async def _apieces(text: str) -> AsyncGenerator[str, None]:
    for piece in _pieces(text):
        yield piece
