"""A LlamaIndex LLM or retriever as the core's: `LlamaLLM` and `RetrieverAdapter`.

Nothing here is resolved for the user: no `Settings`, no default model. A model or retriever whose async form
would run on the event loop is moved to a bounded pool of threads.
"""

from __future__ import annotations

import asyncio
import contextvars
import threading
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

from llama_index.core.base.base_retriever import BaseRetriever
from llama_index.core.base.llms.types import ChatMessage, ChatResponse
from llama_index.core.llms import LLM, CustomLLM
from llama_index.core.schema import NodeWithScore, QueryBundle

from denoise_core import InputError, Message, Passage, Reply, Usage
from llamaindex_denoise._convert import to_passages

T = TypeVar("T")

_INPUT_TOKENS = ("prompt_tokens", "input_tokens", "prompt_token_count", "prompt_eval_count")
_OUTPUT_TOKENS = ("completion_tokens", "output_tokens", "candidates_token_count", "eval_count")


class Threads:
    """A bounded pool of threads for calls that would block an event loop.

    The context (spans, budget) goes along. It holds no thread before the first call; copies and pickles of
    it start with a pool of their own. ``slots`` bounds callers that bring their own threads.
    """

    def __init__(self, limit: int) -> None:
        if limit < 1:
            raise InputError(f"max_threads={limit}: expected 1 or more")
        self.limit = limit
        self.slots = threading.BoundedSemaphore(limit)
        self._pool: ThreadPoolExecutor | None = None
        self._lock = threading.Lock()

    async def run(self, call: Callable[[], T]) -> T:
        with self._lock:
            pool = self._pool = self._pool or ThreadPoolExecutor(
                self.limit, thread_name_prefix="denoise-llamaindex"
            )
        return await asyncio.get_running_loop().run_in_executor(pool, contextvars.copy_context().run, call)

    def __reduce__(self) -> tuple[type[Threads], tuple[int]]:
        return type(self), (self.limit,)


class LlamaLLM:
    """Any LlamaIndex LLM as the core's `LLM`.

    Models built on ``CustomLLM`` (HuggingFaceLLM and most local ones) run their async form on the event
    loop; here they run on at most ``max_threads`` threads, and so are synchronous calls bounded. Give
    ``max_threads=1`` to a model that must not be called twice at once. Tokens are read from the response
    where the model reports them.

    Raises `InputError` when ``model`` is not a LlamaIndex LLM.
    """

    def __init__(self, model: LLM, *, max_threads: int = 10) -> None:
        if not isinstance(model, LLM):
            raise InputError(
                f"LlamaLLM: expected a llama_index LLM, got {type(model).__name__}; pass the model object itself, "
                "no default is resolved"
            )
        self.model = model
        self._threads = Threads(max_threads)

    def complete(self, messages: Sequence[Message]) -> Reply:
        with self._threads.slots:
            return _reply(self.model.chat(_chat(messages)))

    async def acomplete(self, messages: Sequence[Message]) -> Reply:
        if owner(self.model, "achat") is not CustomLLM:
            return _reply(await self.model.achat(_chat(messages)))
        return await self._threads.run(lambda: self.complete(messages))


class RetrieverAdapter:
    """A LlamaIndex retriever as the core's `Retriever`; its passages remember their nodes.

    A retriever that only has a synchronous form is run on at most ``max_threads`` threads under async.
    Nodes without text (images) are not passages and are left out.
    """

    def __init__(self, retriever: BaseRetriever, *, max_threads: int = 10) -> None:
        if not isinstance(retriever, BaseRetriever):
            raise InputError(
                f"RetrieverAdapter: expected a llama_index retriever, got {type(retriever).__name__}; "
                "an index gives one with index.as_retriever()"
            )
        self.retriever = retriever
        self._threads = Threads(max_threads)

    def retrieve(self, query: str) -> Sequence[Passage]:
        return to_passages(self.retriever.retrieve(query))

    async def aretrieve(self, query: str) -> Sequence[Passage]:
        return to_passages(await retrieve_nodes(self.retriever, QueryBundle(query), self._threads))


async def retrieve_nodes(retriever: BaseRetriever, query: QueryBundle, threads: Threads) -> list[NodeWithScore]:
    """The retriever's own async form; a thread when it has none (the base class would run it on the loop)."""
    if owner(retriever, "_aretrieve") is BaseRetriever:
        return await threads.run(lambda: retriever.retrieve(query))
    return await retriever.aretrieve(query)


def owner(instance: object, method: str) -> type | None:
    """The class that defines ``method`` for this object (methods are wrapped, so identity says nothing)."""
    return next((c for c in type(instance).__mro__ if method in vars(c)), None)


def _chat(messages: Sequence[Message]) -> list[ChatMessage]:
    return [ChatMessage(role=m.role, content=m.content) for m in messages]


def _reply(response: ChatResponse) -> Reply:
    return Reply(response.message.content or "", usage_of(response))


def usage_of(response: ChatResponse) -> Usage | None:
    """The tokens a response reports, in any of the shapes the integrations use; None if it reports none."""
    raw = response.raw
    kept = [
        _get(raw, "usage"),
        _get(raw, "usage_metadata"),
        raw,
        response.additional_kwargs,
        response.message.additional_kwargs,
    ]
    for place in kept:
        read, written = _first(place, _INPUT_TOKENS), _first(place, _OUTPUT_TOKENS)
        if read is not None or written is not None:
            return Usage(read or 0, written or 0)
    return None


def _first(place: Any, names: Sequence[str]) -> int | None:
    found = (_get(place, name) for name in names)
    return next((v for v in found if isinstance(v, int) and not isinstance(v, bool)), None)


def _get(place: Any, name: str) -> Any:
    if isinstance(place, Mapping):
        return place.get(name)
    return getattr(place, name, None)
