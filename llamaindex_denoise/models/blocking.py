"""Async code of LlamaIndex's that runs to its end without an event loop, its models in synchronous form.

LlamaIndex's evaluators are written as coroutines alone. A loop made for each would bind the models' clients to one
that is gone at the next call.
"""

from __future__ import annotations

import copy
from collections.abc import Coroutine, Sequence
from typing import Any, TypeVar

from llama_index.core.base.embeddings.base import BaseEmbedding
from llama_index.core.base.llms.types import (
    ChatMessage,
    ChatResponse,
    ChatResponseGen,
    CompletionResponse,
    CompletionResponseGen,
    LLMMetadata,
)
from llama_index.core.llms import LLM, CustomLLM

from denoise_core import InputError

T = TypeVar("T")


class BlockingLLM(CustomLLM):
    """``inner`` in its synchronous form, whichever form is asked for; its prompts and program mode stay."""

    inner: LLM

    @classmethod
    def class_name(cls) -> str:
        return "BlockingLLM"

    @property
    def metadata(self) -> LLMMetadata:
        return self.inner.metadata

    def complete(self, prompt: str, formatted: bool = False, **kwargs: Any) -> CompletionResponse:
        return self.inner.complete(prompt, formatted=formatted, **kwargs)

    def stream_complete(self, prompt: str, formatted: bool = False, **kwargs: Any) -> CompletionResponseGen:
        return self.inner.stream_complete(prompt, formatted=formatted, **kwargs)

    def chat(self, messages: Sequence[ChatMessage], **kwargs: Any) -> ChatResponse:
        return self.inner.chat(messages, **kwargs)

    def stream_chat(self, messages: Sequence[ChatMessage], **kwargs: Any) -> ChatResponseGen:
        return self.inner.stream_chat(messages, **kwargs)

    def predict(self, *args: Any, **kwargs: Any) -> str:
        return self.inner.predict(*args, **kwargs)

    async def apredict(self, *args: Any, **kwargs: Any) -> str:
        return self.inner.predict(*args, **kwargs)

    def structured_predict(self, *args: Any, **kwargs: Any) -> Any:
        return self.inner.structured_predict(*args, **kwargs)

    async def astructured_predict(self, *args: Any, **kwargs: Any) -> Any:
        return self.inner.structured_predict(*args, **kwargs)


class BlockingEmbedding(BaseEmbedding):
    """``inner`` in its synchronous form, whichever form is asked for."""

    inner: BaseEmbedding

    @classmethod
    def class_name(cls) -> str:
        return "BlockingEmbedding"

    def _get_query_embedding(self, query: str) -> list[float]:
        return self.inner.get_query_embedding(query)

    async def _aget_query_embedding(self, query: str) -> list[float]:
        return self.inner.get_query_embedding(query)

    def _get_text_embedding(self, text: str) -> list[float]:
        return self.inner.get_text_embedding(text)

    async def _aget_text_embedding(self, text: str) -> list[float]:
        return self.inner.get_text_embedding(text)


def with_blocking_models(part: T) -> T:
    """A copy of ``part`` whose own models answer in their synchronous form."""
    changed = copy.copy(part)
    for name, value in vars(part).items():
        if isinstance(value, LLM):
            setattr(changed, name, BlockingLLM(inner=value))
        elif isinstance(value, BaseEmbedding):
            setattr(changed, name, BlockingEmbedding(inner=value))
    return changed


def driven(work: Coroutine[Any, Any, T], *, of: str) -> T:
    """What ``work`` returns, run here and now. Raises `InputError` when it has to wait for an event loop."""
    waits = InputError(
        f"{of} waits for an event loop and cannot be asked synchronously: ask asynchronously (aquery, aanswer, "
        "await), or give it a synchronous evaluate() of its own"
    )
    try:
        while work.send(None) is None:  # sleep(0) lets others run; there are none
            pass
    except StopIteration as done:
        found: T = done.value
        return found
    except RuntimeError as error:
        if str(error) == "no running event loop":
            raise waits from error
        raise
    finally:
        work.close()
    raise waits
