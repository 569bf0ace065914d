"""`Checked` of a chat engine: a conversation in which every answer is checked against what was found for it."""

from __future__ import annotations

import copy
from collections.abc import AsyncGenerator, Generator, Sequence
from dataclasses import dataclass, field
from typing import Any

from llama_index.core.base.base_query_engine import BaseQueryEngine
from llama_index.core.base.llms.types import ChatMessage, ChatResponse
from llama_index.core.base.response.schema import RESPONSE_TYPE, Response
from llama_index.core.chat_engine.types import (
    AGENT_CHAT_RESPONSE_TYPE,
    AgentChatResponse,
    BaseChatEngine,
    StreamingAgentChatResponse,
)
from llama_index.core.memory import BaseMemory, ChatMemoryBuffer
from llama_index.core.schema import QueryBundle
from llama_index.core.tools import ToolOutput

from denoise_core.augmenter import Augmenter
from llamaindex_denoise.engines.base import NestedPrompts, split_words
from llamaindex_denoise.engines.drafter import EngineDrafter
from llamaindex_denoise.verify import EngineLoopRun, ErrorPolicy, ResponseParts


@dataclass
class CheckedChatStream(StreamingAgentChatResponse):
    """A stream whose verdict stands in ``metadata["denoise"]``, as in the response of `chat`."""

    metadata: dict[str, Any] = field(default_factory=dict)
    is_writing_to_memory: bool = False


class CheckedChatEngine(BaseChatEngine):
    """A chat engine of any mode, whose answers are checked against what it found for them.

    The engine's memory keeps messages and answers, no rejected draft. An engine is asked once a turn, and its
    answer judged; ``LoopLimits(rerun=True)`` asks it again with what was wrong.
    """

    def __init__(
        self,
        chat_engine: BaseChatEngine,
        augmenter: Augmenter,
        *,
        on_error: ErrorPolicy = "answer",
    ) -> None:
        self.chat_engine = chat_engine
        self.augmenter = augmenter
        self.on_error: ErrorPolicy = on_error
        own: BaseMemory | None = getattr(chat_engine, "_memory", None)
        self.memory = (
            ChatMemoryBuffer.from_defaults(token_limit=3000) if own is None else own
        )

    def chat(
        self, message: str, chat_history: list[ChatMessage] | None = None
    ) -> AgentChatResponse:
        """The checked answer to ``message``; the conversation is ``chat_history``, or the engine's own memory."""
        if chat_history is not None:
            self.memory.set(chat_history)
        told = self._asked(message, self.memory.get(input=message)).run_to_response()
        for said in _turn(message, told):
            self.memory.put(said)
        return _response(message, told)

    async def achat(
        self, message: str, chat_history: list[ChatMessage] | None = None
    ) -> AgentChatResponse:
        if chat_history is not None:
            await self.memory.aset(chat_history)
        told = await self._asked(
            message, await self.memory.aget(input=message)
        ).arun_to_response()
        for said in _turn(message, told):
            await self.memory.aput(said)
        return _response(message, told)

    def stream_chat(
        self, message: str, chat_history: list[ChatMessage] | None = None
    ) -> CheckedChatStream:
        """As `chat`; the answer comes in pieces, once it has been checked."""
        said = self.chat(message, chat_history)
        return _stream(said, chat_stream=_pieces(said.response))

    async def astream_chat(
        self, message: str, chat_history: list[ChatMessage] | None = None
    ) -> CheckedChatStream:
        said = await self.achat(message, chat_history)
        return _stream(said, achat_stream=_apieces(said.response))

    def reset(self) -> None:
        """Forget the conversation."""
        self.chat_engine.reset()
        self.memory.reset()

    @property
    def chat_history(self) -> list[ChatMessage]:
        """The messages of the conversation so far, oldest first."""
        return self.memory.get_all()

    def _asked(self, message: str, history: Sequence[ChatMessage]) -> EngineLoopRun:
        drafter = EngineDrafter(
            _Turn(self.chat_engine, list(history)), QueryBundle(message)
        )
        return EngineLoopRun(self.augmenter, message, drafter, on_error=self.on_error)


class _Turn(NestedPrompts, BaseQueryEngine):
    """One message to a chat engine, in the shape of a query engine; whatever is tried, its memory stays."""

    def __init__(self, chat: BaseChatEngine, history: list[ChatMessage]) -> None:
        super().__init__(None)
        self.chat = copy.copy(chat)
        self.history = history

    def _query(self, query_bundle: QueryBundle) -> RESPONSE_TYPE:
        return self._said(
            self._fresh().chat(query_bundle.query_str, list(self.history))
        )

    async def _aquery(self, query_bundle: QueryBundle) -> RESPONSE_TYPE:
        return self._said(
            await self._fresh().achat(query_bundle.query_str, list(self.history))
        )

    def _fresh(self) -> BaseChatEngine:
        if hasattr(self.chat, "_memory"):
            vars(self.chat)["_memory"] = ChatMemoryBuffer.from_defaults(
                token_limit=10**9
            )
        return self.chat

    def _said(self, response: AGENT_CHAT_RESPONSE_TYPE) -> Response:
        return Response(
            str(response), response.source_nodes, getattr(response, "metadata", None)
        )


def _turn(message: str, told: ResponseParts) -> tuple[ChatMessage, ChatMessage]:
    return ChatMessage(role="user", content=message), ChatMessage(
        role="assistant", content=str(told.text)
    )


def _response(message: str, told: ResponseParts) -> AgentChatResponse:
    text = str(told.text)
    raw = Response(text, told.source_nodes, told.metadata)
    source = ToolOutput(
        content=text,
        tool_name="query_engine",
        raw_input={"query": message},
        raw_output=raw,
    )
    return AgentChatResponse(
        text, sources=[source], source_nodes=told.source_nodes, metadata=told.metadata
    )


def _stream(said: AgentChatResponse, **pieces: Any) -> CheckedChatStream:
    metadata = said.metadata or {}
    return CheckedChatStream(
        sources=said.sources,
        source_nodes=said.source_nodes,
        metadata=metadata,
        **pieces,
    )


def _pieces(text: str) -> Generator[ChatResponse, None, None]:
    so_far = ""
    for piece in split_words(text):
        so_far += piece
        yield ChatResponse(
            message=ChatMessage(role="assistant", content=so_far), delta=piece
        )


async def _apieces(text: str) -> AsyncGenerator[ChatResponse, None]:
    for response in _pieces(text):
        yield response
