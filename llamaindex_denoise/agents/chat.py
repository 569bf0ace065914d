"""`Checked` of a chat engine: every answer is checked against what was retrieved."""

from __future__ import annotations

import copy
from collections import deque
from dataclasses import dataclass, field
from typing import Any, get_args

from llama_index.core.base.llms.types import ChatMessage, ChatResponse, MessageRole
from llama_index.core.chat_engine.types import (
    AGENT_CHAT_RESPONSE_TYPE,
    AgentChatResponse,
    BaseChatEngine,
    StreamingAgentChatResponse,
)
from llama_index.core.memory import BaseMemory, ChatMemoryBuffer
from llama_index.core.schema import QueryBundle

from denoise_core._frameworks import check_choice
from denoise_core.augmenter import Answer, Augmenter, Outcome
from denoise_core.augmenter.drafting.conversation import (
    CitedState,
    cited_state,
    conversation_evidence,
    merge_cited,
)
from llamaindex_denoise.engines.base import astream_whole, response_text, stream_whole
from llamaindex_denoise.engines.drafter import EngineDrafter, EvidenceSource
from llamaindex_denoise.verify import ErrorPolicy, final_response


@dataclass
class CheckedChatStream(StreamingAgentChatResponse):
    """A streamed answer with its verdict in ``metadata["denoise"]``."""

    metadata: dict[str, Any] = field(default_factory=dict)
    is_writing_to_memory: bool = False


class CheckedChatEngine(BaseChatEngine):
    """A chat engine of any mode with checked answers.

    The engine's memory gets messages and answers, but no rejected draft, and nothing of
    a turn that failed. The engine is called once per turn, and its answer is judged; with
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
        check_choice("on_error", on_error, *get_args(ErrorPolicy))
        self.chat_engine = chat_engine
        self.evidence = evidence
        self.augmenter = augmenter
        self.on_error: ErrorPolicy = on_error
        own_memory = ChatMemoryBuffer.from_defaults(token_limit=3000)
        self.memory: BaseMemory = getattr(chat_engine, "_memory", own_memory)
        self.cited: CitedState = []  # what the conversation's answers rested on
        # The last answers, and what each rested on: a chat_history= may have some.
        self._answers: deque[tuple[str, CitedState]] = deque(maxlen=1000)

    def chat(
        self, message: str, chat_history: list[ChatMessage] | None = None
    ) -> AgentChatResponse:
        """Return the checked answer to ``message``.

        Args:
            message: The user's message.
            chat_history: The conversation, with what its own answers rested on; None
                continues the memory's.
        """
        if chat_history is not None:
            self.memory.set(chat_history)
            self._recall_cited(chat_history)
        drafter = self._draft_turn(message, self.memory.get(input=message))
        answer = self.augmenter.answer(message, drafter=drafter)
        response = self._finish_turn(answer, drafter)
        for new_message in _turn_messages(message, response):
            self.memory.put(new_message)
        return response

    async def achat(
        self, message: str, chat_history: list[ChatMessage] | None = None
    ) -> AgentChatResponse:
        """Return the checked answer to ``message``, as `chat` does."""
        if chat_history is not None:
            await self.memory.aset(chat_history)
            self._recall_cited(chat_history)
        drafter = self._draft_turn(message, await self.memory.aget(input=message))
        answer = await self.augmenter.aanswer(message, drafter=drafter)
        response = self._finish_turn(answer, drafter)
        for new_message in _turn_messages(message, response):
            await self.memory.aput(new_message)
        return response

    def stream_chat(
        self, message: str, chat_history: list[ChatMessage] | None = None
    ) -> CheckedChatStream:
        """Return the answer as a stream, after it has been checked."""
        return _to_stream(self.chat(message, chat_history))

    async def astream_chat(
        self, message: str, chat_history: list[ChatMessage] | None = None
    ) -> CheckedChatStream:
        """Return the answer as a stream, after it has been checked."""
        return _to_stream(await self.achat(message, chat_history))

    def reset(self) -> None:
        """Clear the conversation."""
        self.chat_engine.reset()
        self.memory.reset()
        self.cited = []
        self._answers.clear()

    @property
    def chat_history(self) -> list[ChatMessage]:
        """The conversation's messages, oldest first."""
        return self.memory.get_all()

    def _recall_cited(self, history: list[ChatMessage]) -> None:
        """Take up what the answers of a conversation rested on, and nothing else."""
        answer_texts = {
            str(message.content).strip()
            for message in history
            if message.role == MessageRole.ASSISTANT
        }
        states = [
            state for text, state in reversed(self._answers) if text in answer_texts
        ]
        self.cited = merge_cited(states)

    def _draft_turn(self, message: str, history: list[ChatMessage]) -> EngineDrafter:
        return EngineDrafter(
            _ChatTurn(self.chat_engine, history),
            QueryBundle(message),
            self.evidence,
            conversation_evidence([self.cited]),
        )

    def _finish_turn(self, answer: Answer, drafter: EngineDrafter) -> AgentChatResponse:
        state = cited_state(answer)
        self.cited = merge_cited([state, self.cited])
        self._answers.append((answer.text.strip(), state))
        response = final_response(answer, drafter, self.on_error)
        origin = answer.best and answer.best.origin
        return AgentChatResponse(
            response_text(response),
            sources=getattr(origin, "sources", []),
            source_nodes=response.source_nodes,
            metadata=response.metadata,
        )


class _ChatTurn:
    """One turn of a chat as a query engine; the chat's memory is not touched."""

    def __init__(self, chat_engine: BaseChatEngine, history: list[ChatMessage]) -> None:
        self.chat_engine = copy.copy(chat_engine)
        self.history = history

    def query(self, query_bundle: QueryBundle) -> AGENT_CHAT_RESPONSE_TYPE:
        self._empty_memory()
        return self.chat_engine.chat(query_bundle.query_str, list(self.history))

    async def aquery(self, query_bundle: QueryBundle) -> AGENT_CHAT_RESPONSE_TYPE:
        self._empty_memory()
        return await self.chat_engine.achat(query_bundle.query_str, list(self.history))

    def _empty_memory(self) -> None:
        if hasattr(self.chat_engine, "_memory"):
            # The limit is out of reach: the history is bounded by the outer memory.
            chat_memory = ChatMemoryBuffer.from_defaults(token_limit=10**9)
            vars(self.chat_engine)["_memory"] = chat_memory


def _turn_messages(message: str, response: AgentChatResponse) -> list[ChatMessage]:
    """What the memory gets of a turn.

    After a failure the text is ours, and later prompts must not read it as the model's.
    Most of LlamaIndex's own engines store nothing of such a turn either.
    """
    record = (response.metadata or {})["denoise"]
    if record["outcome"] == Outcome.FAILED:
        return []
    return [
        ChatMessage(role="user", content=message),
        ChatMessage(role="assistant", content=response.response),
    ]


def _to_stream(response: AgentChatResponse) -> CheckedChatStream:
    message = ChatMessage(role="assistant", content=response.response)
    reply = ChatResponse(message=message, delta=response.response)
    return CheckedChatStream(
        sources=response.sources,
        source_nodes=response.source_nodes,
        metadata=response.metadata or {},
        chat_stream=stream_whole(reply),
        achat_stream=astream_whole(reply),
    )
