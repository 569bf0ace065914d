"""`AugmentedChatEngine`: a conversation in which every answer is checked against what was found for it."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncGenerator, Generator
from dataclasses import dataclass, field
from typing import Any

from llama_index.core.base.llms.types import ChatMessage, ChatResponse
from llama_index.core.base.response.schema import Response
from llama_index.core.chat_engine.types import AgentChatResponse, BaseChatEngine, StreamingAgentChatResponse
from llama_index.core.memory import BaseMemory, ChatMemoryBuffer
from llama_index.core.schema import QueryBundle
from llama_index.core.tools import ToolOutput

from denoise_core import InputError
from llamaindex_denoise.engines.augmented import AugmentedQueryEngine
from llamaindex_denoise.engines.base import pieces_of


@dataclass
class CheckedStream(StreamingAgentChatResponse):
    """A stream whose verdict stands in ``metadata["denoise"]``, as in the response of `chat`."""

    metadata: dict[str, Any] = field(default_factory=dict)


class AugmentedChatEngine(BaseChatEngine):
    """A context chat engine over an `AugmentedQueryEngine`: searches with the message, writes in the conversation.

    The verdict stands in ``response.metadata["denoise"]``; the memory keeps messages and answers, no rejected
    draft. A stream hands the answer out once it is final. Raises `InputError` for another kind of engine.
    """

    def __init__(self, engine: AugmentedQueryEngine, *, memory: BaseMemory | None = None) -> None:
        if not isinstance(engine, AugmentedQueryEngine):
            raise InputError(
                f"expected an AugmentedQueryEngine, got {type(engine).__name__}; "
                "write AugmentedChatEngine(AugmentedQueryEngine.around(engine))"
            )
        self.engine = engine
        self.memory = memory or ChatMemoryBuffer.from_defaults(token_limit=3000)

    def chat(self, message: str, chat_history: list[ChatMessage] | None = None) -> AgentChatResponse:
        """The checked answer to ``message``; the conversation is ``chat_history``, or the engine's own memory."""
        history = self._begun(chat_history)
        asked = self.engine.asked(QueryBundle(message), history=history)
        return self._said(message, *self.engine.told(asked.answer(), asked))

    async def achat(self, message: str, chat_history: list[ChatMessage] | None = None) -> AgentChatResponse:
        """As `chat`, awaited."""
        history = self._begun(chat_history)
        asked = self.engine.asked(QueryBundle(message), history=history)
        return self._said(message, *self.engine.told(await asked.aanswer(), asked))

    def stream_chat(self, message: str, chat_history: list[ChatMessage] | None = None) -> CheckedStream:
        """As `chat`; the answer comes in pieces, once it has been checked."""
        said = self.chat(message, chat_history)
        response = CheckedStream(
            chat_stream=_pieces(said.response),
            sources=said.sources,
            source_nodes=said.source_nodes,
            metadata=said.metadata or {},
        )
        # LlamaIndex's response is read through a writer to a memory; ours has the answer already.
        aside = ChatMemoryBuffer.from_defaults(token_limit=10**9)
        threading.Thread(target=response.write_response_to_history, args=(aside,), daemon=True).start()
        return response

    async def astream_chat(self, message: str, chat_history: list[ChatMessage] | None = None) -> CheckedStream:
        """As `stream_chat`, awaited."""
        said = await self.achat(message, chat_history)
        response = CheckedStream(
            achat_stream=_apieces(said.response),
            sources=said.sources,
            source_nodes=said.source_nodes,
            metadata=said.metadata or {},
        )
        aside = ChatMemoryBuffer.from_defaults(token_limit=10**9)
        writing = response.awrite_response_to_history(aside)
        response.awrite_response_to_history_task = asyncio.create_task(writing)
        return response

    def reset(self) -> None:
        """Forget the conversation."""
        self.memory.reset()

    @property
    def chat_history(self) -> list[ChatMessage]:
        """The messages of the conversation so far, oldest first."""
        return self.memory.get_all()

    def _begun(self, chat_history: list[ChatMessage] | None) -> list[ChatMessage]:
        if chat_history is not None:
            self.memory.set(chat_history)
        return self.memory.get()

    def _said(self, message: str, answer: Any, nodes: list[Any], metadata: dict[str, Any]) -> AgentChatResponse:
        text = str(answer)
        self.memory.put(ChatMessage(role="user", content=message))
        self.memory.put(ChatMessage(role="assistant", content=text))
        raw = Response(text, nodes, metadata)
        source = ToolOutput(content=text, tool_name="query_engine", raw_input={"query": message}, raw_output=raw)
        return AgentChatResponse(response=text, sources=[source], source_nodes=nodes, metadata=metadata)


def _pieces(text: str) -> Generator[ChatResponse, None, None]:
    so_far = ""
    for piece in pieces_of(text):
        so_far += piece
        yield ChatResponse(message=ChatMessage(role="assistant", content=so_far), delta=piece)


async def _apieces(text: str) -> AsyncGenerator[ChatResponse, None]:
    for response in _pieces(text):
        yield response
