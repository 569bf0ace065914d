"""For your tests and ours: a chat model that is a function, and a recorder of runs. Needs no network."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from langchain_core.callbacks import AsyncCallbackManagerForLLMRun, BaseCallbackHandler, CallbackManagerForLLMRun
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, AIMessageChunk, BaseMessage
from langchain_core.messages.ai import UsageMetadata
from langchain_core.outputs import ChatGeneration, ChatGenerationChunk, ChatResult
from langchain_core.runnables import Runnable
from pydantic import PrivateAttr
from typing_extensions import override


class FunctionChatModel(BaseChatModel):
    """A chat model that is a function of the messages; it streams word by word and reports usage.

    ``reply`` returns a string or an `AIMessage`, or raises. ``seconds`` is how long each call takes.
    ``seen`` keeps every call's messages, ``peak`` the largest number of calls that were under way at once.
    A word counts as a token. ``bind_tools`` gives the model itself, so that it serves in agents.
    """

    reply: Callable[[Sequence[BaseMessage]], str | AIMessage]
    seconds: float = 0.0
    _seen: list[list[BaseMessage]] = PrivateAttr(default_factory=list)
    _lock: Any = PrivateAttr(default_factory=threading.Lock)
    _now: int = PrivateAttr(default=0)
    _peak: int = PrivateAttr(default=0)

    @property
    def seen(self) -> list[list[BaseMessage]]:
        """The messages of each call, in the order of the calls."""
        return self._seen

    @property
    def peak(self) -> int:
        """The most calls that were under way at once."""
        return self._peak

    @property
    @override
    def _llm_type(self) -> str:
        return "function"

    @override
    def bind_tools(self, tools: Sequence[Any], **kwargs: Any) -> Runnable[Any, AIMessage]:
        return self

    @override
    def _generate(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: CallbackManagerForLLMRun | None = None,
        **kwargs: Any,
    ) -> ChatResult:
        with self._under_way():
            if self.seconds:
                time.sleep(self.seconds)
            return ChatResult(generations=[ChatGeneration(message=self._answer(messages))])

    @override
    async def _agenerate(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: AsyncCallbackManagerForLLMRun | None = None,
        **kwargs: Any,
    ) -> ChatResult:
        with self._under_way():
            if self.seconds:
                await asyncio.sleep(self.seconds)
            return ChatResult(generations=[ChatGeneration(message=self._answer(messages))])

    @override
    def _stream(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: CallbackManagerForLLMRun | None = None,
        **kwargs: Any,
    ) -> Iterator[ChatGenerationChunk]:
        with self._under_way():
            if self.seconds:
                time.sleep(self.seconds)
            for chunk in _pieces(self._answer(messages)):
                if run_manager:
                    run_manager.on_llm_new_token(str(chunk.text), chunk=chunk)
                yield chunk

    @override
    async def _astream(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: AsyncCallbackManagerForLLMRun | None = None,
        **kwargs: Any,
    ) -> AsyncIterator[ChatGenerationChunk]:
        with self._under_way():
            if self.seconds:
                await asyncio.sleep(self.seconds)
            for chunk in _pieces(self._answer(messages)):
                if run_manager:
                    await run_manager.on_llm_new_token(str(chunk.text), chunk=chunk)
                yield chunk

    @contextmanager
    def _under_way(self) -> Iterator[None]:
        with self._lock:
            self._now += 1
            self._peak = max(self._peak, self._now)
        try:
            yield
        finally:
            with self._lock:
                self._now -= 1

    def _answer(self, messages: Sequence[BaseMessage]) -> AIMessage:
        self._seen.append(list(messages))
        answer = self.reply(messages)
        if isinstance(answer, AIMessage):
            return answer
        asked = sum(len(str(m.text).split()) for m in messages)
        said = len(answer.split())
        usage = UsageMetadata(input_tokens=asked, output_tokens=said, total_tokens=asked + said)
        return AIMessage(answer, usage_metadata=usage)


def _pieces(message: AIMessage) -> Iterator[ChatGenerationChunk]:
    words = str(message.text).split(" ")
    for i, word in enumerate(words):
        last = i == len(words) - 1
        yield ChatGenerationChunk(
            message=AIMessageChunk(
                content=word if last else word + " ",
                usage_metadata=message.usage_metadata if last else None,
                tool_calls=message.tool_calls if last else [],
            )
        )


@dataclass
class RecordedRun:
    """One run as a callback handler sees it. ``kind`` is chain, llm, retriever or tool."""

    name: str
    kind: str
    parent: UUID | None
    tags: list[str]
    metadata: dict[str, Any]
    ended: bool = False
    error: str | None = None


def _starts(kind: str) -> Any:
    """A handler's method for the start of a run of this kind."""

    def start(
        self: RunRecorder,
        serialized: Any,
        asked: Any,
        *,
        run_id: UUID,
        parent_run_id: UUID | None = None,
        **about: Any,
    ) -> None:
        """Notes that a run has begun."""
        name = about.get("name") or (serialized or {}).get("name") or kind
        tags, metadata = about.get("tags") or [], about.get("metadata") or {}
        self.runs[run_id] = RecordedRun(name, kind, parent_run_id, list(tags), dict(metadata))

    return start


class RunRecorder(BaseCallbackHandler):
    """Keeps every run and custom event it is told of, so that a test can ask who is under whom."""

    def __init__(self) -> None:
        self.runs: dict[UUID, RecordedRun] = {}
        self.events: list[tuple[str, Any, UUID]] = []

    def paths(self, kind: str) -> list[str]:
        """For each run of a kind, in order of start: the names from the outermost run to it, as ``a/b/c``."""
        return [self._path(i) for i, run in self.runs.items() if run.kind == kind]

    def of_kind(self, kind: str) -> list[RecordedRun]:
        """The runs of a kind, such as "retriever" or "chain", in the order they began."""
        return [run for run in self.runs.values() if run.kind == kind]

    def _path(self, run_id: UUID) -> str:
        run = self.runs[run_id]
        if run.parent is None or run.parent not in self.runs:
            return run.name
        return f"{self._path(run.parent)}/{run.name}"

    def _ended(self, *said: Any, run_id: UUID, **kwargs: Any) -> None:
        """Notes that a run has ended."""
        self.runs[run_id].ended = True

    def _failed(self, error: BaseException, *, run_id: UUID, **kwargs: Any) -> None:
        """Notes that a run has failed, and with what."""
        self.runs[run_id].ended = True
        self.runs[run_id].error = f"{type(error).__name__}: {error}"

    on_chain_start = _starts("chain")
    on_chat_model_start = _starts("llm")
    on_retriever_start = _starts("retriever")
    on_tool_start = _starts("tool")
    on_chain_end = on_llm_end = on_retriever_end = on_tool_end = _ended
    on_chain_error = on_llm_error = on_retriever_error = on_tool_error = _failed

    @override
    def on_custom_event(self, name: str, data: Any, *, run_id: UUID, **kwargs: Any) -> None:
        self.events.append((name, data, run_id))
