"""A chat model that is a function of its messages, for tests and benchmarks. Needs no network."""

import threading
import time
from collections.abc import Callable, Sequence
from typing import Any

from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, AIMessageChunk, BaseMessage
from langchain_core.messages.ai import UsageMetadata
from langchain_core.outputs import ChatGeneration, ChatGenerationChunk, ChatResult
from pydantic import PrivateAttr


class FunctionChatModel(BaseChatModel):
    """A chat model that is a function of the messages.

    It streams word by word and reports usage; a word counts as a token. ``bind_tools``
    returns the model itself, so that it serves in agents.
    """

    reply: Callable[[Sequence[BaseMessage]], str | AIMessage]
    """Returns a string or an `AIMessage`, or raises."""

    seconds: float = 0.0
    """How long each call takes."""

    _calls: list[list[BaseMessage]] = PrivateAttr(default_factory=list)
    _lock: Any = PrivateAttr(default_factory=threading.Lock)
    _running_calls: int = PrivateAttr(default=0)
    _max_concurrent_calls: int = PrivateAttr(default=0)

    @property
    def calls(self):
        return self._calls

    @property
    def max_concurrent_calls(self):
        return self._max_concurrent_calls

    @property
    def _llm_type(self):
        return "function"

    def bind_tools(self, tools, **kwargs):
        return self

    def _generate(self, messages, stop=None, run_manager=None, **kwargs):
        generation = ChatGeneration(message=self._reply_message(messages))
        return ChatResult(generations=[generation])

    def _stream(self, messages, stop=None, run_manager=None, **kwargs):
        message = self._reply_message(messages)
        *words, last_word = str(message.text).split(" ")
        last_chunk = AIMessageChunk(
            content=last_word,
            usage_metadata=message.usage_metadata,
            tool_calls=message.tool_calls,
        )
        word_chunks = [AIMessageChunk(content=f"{word} ") for word in words]
        for message_chunk in [*word_chunks, last_chunk]:
            chunk = ChatGenerationChunk(message=message_chunk)
            if run_manager:
                run_manager.on_llm_new_token(str(chunk.text), chunk=chunk)
            yield chunk

    def _reply_message(self, messages):
        with self._lock:
            self._running_calls += 1
            self._max_concurrent_calls = max(
                self._max_concurrent_calls, self._running_calls
            )
            self._calls.append(list(messages))
        try:
            if self.seconds:
                time.sleep(self.seconds)
            reply = self.reply(messages)
        finally:
            # Also after an exception, or later counts would be too high.
            with self._lock:
                self._running_calls -= 1
        if isinstance(reply, AIMessage):
            return reply
        input_tokens = sum(len(str(message.text).split()) for message in messages)
        output_tokens = len(reply.split())
        usage = UsageMetadata(
            input_tokens=input_tokens,
            output_tokens=output_tokens,
            total_tokens=input_tokens + output_tokens,
        )
        return AIMessage(reply, usage_metadata=usage)
