"""For your tests and ours: a chat model that is a function. Needs no network."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from langchain_core.callbacks import CallbackManagerForLLMRun
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
    def calls(self) -> list[list[BaseMessage]]:
        """The messages of each call, in the order of the calls."""
        return self._seen

    @property
    def max_concurrent_calls(self) -> int:
        """The most calls that were under way at once."""
        return self._peak

    @property
    @override
    def _llm_type(self) -> str:
        return "function"

    @override
    def bind_tools(
        self, tools: Sequence[Any], **kwargs: Any
    ) -> Runnable[Any, AIMessage]:
        return self

    @override
    def _generate(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: CallbackManagerForLLMRun | None = None,
        **kwargs: Any,
    ) -> ChatResult:
        return ChatResult(generations=[ChatGeneration(message=self._answer(messages))])

    @override
    def _stream(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: CallbackManagerForLLMRun | None = None,
        **kwargs: Any,
    ) -> Iterator[ChatGenerationChunk]:
        message = self._answer(messages)
        *words, last = str(message.text).split(" ")
        rest: dict[str, Any] = {
            "usage_metadata": message.usage_metadata,
            "tool_calls": message.tool_calls,
        }
        said: list[dict[str, Any]] = [
            *({"content": f"{word} "} for word in words),
            {"content": last, **rest},
        ]
        for chunk in (
            ChatGenerationChunk(message=AIMessageChunk(**one)) for one in said
        ):
            if run_manager:
                run_manager.on_llm_new_token(str(chunk.text), chunk=chunk)
            yield chunk

    def _answer(self, messages: Sequence[BaseMessage]) -> AIMessage:
        with self._lock:
            self._now += 1
            self._peak = max(self._peak, self._now)
            self._seen.append(list(messages))
        try:
            if self.seconds:
                time.sleep(self.seconds)
            answer = self.reply(messages)
        finally:
            with self._lock:
                self._now -= 1
        if isinstance(answer, AIMessage):
            return answer
        asked = sum(len(str(m.text).split()) for m in messages)
        said = len(answer.split())
        usage = UsageMetadata(
            input_tokens=asked, output_tokens=said, total_tokens=asked + said
        )
        return AIMessage(answer, usage_metadata=usage)
