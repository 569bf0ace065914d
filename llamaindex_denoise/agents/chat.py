"""`Checked` of a chat engine: every answer is checked against what was retrieved."""

from __future__ import annotations

import copy
from collections.abc import AsyncGenerator, Generator, Sequence
from dataclasses import dataclass, field
from operator import attrgetter
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
from llama_index.core.prompts.mixin import PromptMixinType
from llama_index.core.schema import QueryBundle
from llama_index.core.tools import ToolOutput

from denoise_core.augmenter import Answer, Augmenter
from denoise_core.augmenter.drafting.conversation import (
    CitedState,
    cited_state,
    conversation_evidence,
    merge_cited,
)
from llamaindex_denoise.engines.drafter import (
    EngineDrafter,
    EvidenceSource,
    with_sources,
)
from llamaindex_denoise.verify import EngineLoopRun, ErrorPolicy, ResponseParts


@dataclass
class CheckedChatStream(StreamingAgentChatResponse):
    """A streamed answer with its verdict in ``metadata["denoise"]``."""

    metadata: dict[str, Any] = field(default_factory=dict)
    is_writing_to_memory: bool = False


class CheckedChatEngine(BaseChatEngine):
    """A chat engine of any mode with checked answers.

    The engine's memory gets messages and answers, but no rejected draft. The engine is
    called once per turn, and its answer is judged; with
    ``LoopLimits(rerun=True)`` it is called again with the feedback.
    """

    def __init__(
        self,
        chat_engine: BaseChatEngine,
        augmenter: Augmenter,
        *,
        evidence: EvidenceSource | None = None,
        on_error: ErrorPolicy = "answer",
    ) -> None:
        self.chat_engine = chat_engine
        self.evidence = evidence
        self.augmenter = augmenter
        self.on_error: ErrorPolicy = on_error
        chat_memory: BaseMemory | None = getattr(chat_engine, "_memory", None)
        if chat_memory is None:
            chat_memory = ChatMemoryBuffer.from_defaults(token_limit=3000)
        self.memory = chat_memory
        self.cited: CitedState = []  # what the conversation's answers rested on

    def chat(
        self, message: str, chat_history: list[ChatMessage] | None = None
    ) -> AgentChatResponse:
        """Return the checked answer to ``message``.

        Args:
            message: The user's message.
            chat_history: The conversation; None continues the memory's.
        """
        if chat_history is not None:
            self.memory.set(chat_history)
        history = self.memory.get(input=message)
        loop_run = self._loop_run(message, history)
        answer_parts = self._finish_turn(loop_run, loop_run.answer())
        for new_message in _turn_messages(message, answer_parts):
            self.memory.put(new_message)
        return _chat_response(message, answer_parts)

    async def achat(
        self, message: str, chat_history: list[ChatMessage] | None = None
    ) -> AgentChatResponse:
        """Return the checked answer to ``message``, as `chat` does."""
        if chat_history is not None:
            await self.memory.aset(chat_history)
        history = await self.memory.aget(input=message)
        loop_run = self._loop_run(message, history)
        answer_parts = self._finish_turn(loop_run, await loop_run.aanswer())
        for new_message in _turn_messages(message, answer_parts):
            await self.memory.aput(new_message)
        return _chat_response(message, answer_parts)

    def stream_chat(
        self, message: str, chat_history: list[ChatMessage] | None = None
    ) -> CheckedChatStream:
        """Return the answer as a stream, after it has been checked."""
        response = self.chat(message, chat_history)
        return _to_stream(response, chat_stream=_stream_text(response.response))

    async def astream_chat(
        self, message: str, chat_history: list[ChatMessage] | None = None
    ) -> CheckedChatStream:
        """Return the answer as a stream, after it has been checked."""
        response = await self.achat(message, chat_history)
        return _to_stream(response, achat_stream=_astream_text(response.response))

    def reset(self) -> None:
        """Clear the conversation."""
        self.chat_engine.reset()
        self.memory.reset()
        self.cited = []

    @property
    def chat_history(self) -> list[ChatMessage]:
        """The conversation's messages, oldest first."""
        return self.memory.get_all()

    def _finish_turn(self, loop_run: EngineLoopRun, answer: Answer) -> ResponseParts:
        self.cited = merge_cited([cited_state(answer), self.cited])
        return loop_run.response_parts(answer)

    def _loop_run(self, message: str, history: Sequence[ChatMessage]) -> EngineLoopRun:
        turn_engine = _TurnEngine(self.chat_engine, list(history), self.evidence)
        # The turn has the user's evidence already; none of it is a model's text.
        evidence = None if self.evidence is None else attrgetter("source_nodes")
        drafter = EngineDrafter(turn_engine, QueryBundle(message), evidence)
        drafter.earlier = conversation_evidence([self.cited])
        return EngineLoopRun(self.augmenter, message, drafter, on_error=self.on_error)


class _TurnEngine(BaseQueryEngine):
    """One turn of a chat as a query engine; the chat's memory is not touched."""

    def __init__(
        self,
        chat_engine: BaseChatEngine,
        history: list[ChatMessage],
        evidence: EvidenceSource | None,
    ) -> None:
        super().__init__(None)
        self.evidence = evidence
        self.chat_engine = copy.copy(chat_engine)
        self.history = history

    def _get_prompt_modules(self) -> PromptMixinType:
        return {}

    def _query(self, query_bundle: QueryBundle) -> RESPONSE_TYPE:
        chat_engine = self._with_empty_memory()
        response = chat_engine.chat(query_bundle.query_str, list(self.history))
        return self._to_response(response)

    async def _aquery(self, query_bundle: QueryBundle) -> RESPONSE_TYPE:
        chat_engine = self._with_empty_memory()
        response = await chat_engine.achat(query_bundle.query_str, list(self.history))
        return self._to_response(response)

    def _with_empty_memory(self) -> BaseChatEngine:
        if hasattr(self.chat_engine, "_memory"):
            # The limit is out of reach: the history is bounded by the outer memory.
            chat_memory = ChatMemoryBuffer.from_defaults(token_limit=10**9)
            vars(self.chat_engine)["_memory"] = chat_memory
        return self.chat_engine

    def _to_response(self, response: AGENT_CHAT_RESPONSE_TYPE) -> Response:
        metadata = getattr(response, "metadata", None)
        if self.evidence is not None:
            response = with_sources(response, self.evidence)
        return Response(str(response), response.source_nodes, metadata)


def _turn_messages(
    message: str, answer_parts: ResponseParts
) -> tuple[ChatMessage, ...]:
    return (
        ChatMessage(role="user", content=message),
        ChatMessage(role="assistant", content=str(answer_parts.text)),
    )


def _chat_response(message: str, answer_parts: ResponseParts) -> AgentChatResponse:
    text = str(answer_parts.text)
    source = ToolOutput(
        content=text,
        tool_name="query_engine",
        raw_input={"query": message},
        raw_output=Response(text, answer_parts.source_nodes, answer_parts.metadata),
    )
    return AgentChatResponse(
        text,
        sources=[source],
        source_nodes=answer_parts.source_nodes,
        metadata=answer_parts.metadata,
    )


def _to_stream(response: AgentChatResponse, **streams: Any) -> CheckedChatStream:
    return CheckedChatStream(
        sources=response.sources,
        source_nodes=response.source_nodes,
        metadata=response.metadata or {},
        **streams,
    )


def _stream_text(text: str) -> Generator[ChatResponse, None, None]:
    message = ChatMessage(role="assistant", content=text)
    yield ChatResponse(message=message, delta=text)


async def _astream_text(text: str) -> AsyncGenerator[ChatResponse, None]:
    for response in _stream_text(text):
        yield response
