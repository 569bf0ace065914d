"""A LlamaIndex LLM as the core's: `LlamaLLM`.

No default model is resolved: what neither was passed nor put into `Settings` is an error.
"""

from __future__ import annotations

import inspect
import json
from collections.abc import AsyncGenerator, Iterator, Mapping, Sequence
from contextlib import aclosing
from typing import Any, Literal, cast

from llama_index.core import Settings
from llama_index.core.base.llms.types import (
    ChatMessage,
    ChatResponse,
    CompletionResponse,
)
from llama_index.core.bridge.pydantic import BaseModel
from llama_index.core.llms import LLM, CustomLLM
from llama_index.core.llms.function_calling import FunctionCallingLLM
from llama_index.core.tools import FunctionTool
from llama_index.core.tools.types import ToolMetadata
from llama_index.core.types import PydanticProgramMode

from denoise_core import InputError, Message, Reply, Usage
from denoise_core.errors import ContractViolation
from llamaindex_denoise.models.threads import AdapterThreads, defining_class

_INPUT_TOKENS = (
    "prompt_tokens",
    "input_tokens",
    "prompt_token_count",
    "prompt_eval_count",
)
_OUTPUT_TOKENS = (
    "completion_tokens",
    "output_tokens",
    "candidates_token_count",
    "eval_count",
)
_NAME = "reply"
_MODES = (PydanticProgramMode.DEFAULT, PydanticProgramMode.FUNCTION)


class LlamaLLM:
    """Any LlamaIndex LLM as the core's `LLM`, with streams and, where the model can, replies by a schema.

    Models built on ``CustomLLM`` (HuggingFaceLLM and most local ones) run their async form on the event
    loop; here they run on at most ``max_threads`` threads. Give ``max_threads=1`` to a model that must not be
    called twice at once, by sync code either. Tokens are read from the response where the model reports them.

    ``structured``: whether a reply that has a JSON schema is asked for by a tool the model must call, strictly
    where the integration passes that on; None is what the model's metadata and ``pydantic_program_mode`` say. When
    the model writes text after all, that text is handed on to be parsed.

    Raises `InputError` when ``model`` is not a LlamaIndex LLM, or ``structured=True`` is asked of one that has no
    tools.
    """

    def __init__(
        self, model: LLM, *, max_threads: int = 10, structured: bool | None = None
    ) -> None:
        if not isinstance(model, LLM):
            raise InputError(
                f"LlamaLLM: expected a llama_index LLM, got {type(model).__name__}; pass the model object itself, "
                "no default is resolved"
            )
        if structured and not isinstance(model, FunctionCallingLLM):
            raise InputError(
                f"structured=True: {type(model).__name__} is no FunctionCallingLLM, it has no tools"
            )
        self.model = model
        self.structured = _can_structure(model) if structured is None else structured
        self._threads = AdapterThreads(max_threads)

    def complete(self, messages: Sequence[Message]) -> Reply:
        with self._threads.slot():
            return _reply(self.model.chat(_chat(messages)))

    async def acomplete(self, messages: Sequence[Message]) -> Reply:
        if defining_class(self.model, "achat") is not CustomLLM:
            return _reply(await self.model.achat(_chat(messages)))
        return await self._threads.run(lambda: self.complete(messages))

    def complete_json(
        self, messages: Sequence[Message], schema: Mapping[str, Any]
    ) -> Reply:
        """As `complete`; the reply's text is JSON by the schema where the model can be held to one."""
        if not self.structured:
            return self.complete(messages)
        model = cast(FunctionCallingLLM, self.model)
        with self._threads.slot():
            response = model.chat_with_tools(
                chat_history=_chat(messages), **_form(model, schema)
            )
        return _json_reply(model, response)

    async def acomplete_json(
        self, messages: Sequence[Message], schema: Mapping[str, Any]
    ) -> Reply:
        """`complete_json` for async."""
        if not self.structured:
            return await self.acomplete(messages)
        model = cast(FunctionCallingLLM, self.model)
        response = await model.achat_with_tools(
            chat_history=_chat(messages), **_form(model, schema)
        )
        return _json_reply(model, response)

    def stream(self, messages: Sequence[Message]) -> Iterator[str | Usage]:
        """Pieces of the reply as they come, and at the end the tokens if the model reports them."""
        pieces = _Pieces()
        with self._threads.slot():
            for response in self.model.stream_chat(_chat(messages)):
                if piece := pieces.next(response):
                    yield piece
        yield from pieces.usage

    async def astream(
        self, messages: Sequence[Message]
    ) -> AsyncGenerator[str | Usage, None]:
        """`stream` for async; one thread of the pool reads a model that would block the event loop."""
        if defining_class(self.model, "achat") is CustomLLM:
            async with aclosing(
                self._threads.iterate(lambda: self.stream(messages))
            ) as local:
                async for piece in local:
                    yield piece
            return
        pieces = _Pieces()
        async for response in await self.model.astream_chat(_chat(messages)):
            if piece := pieces.next(response):
                yield piece
        for used in pieces.usage:
            yield used


class _Pieces:
    """What is new in each response of a stream, and the tokens the last of them reports."""

    def __init__(self) -> None:
        self.text = ""
        self.usage: tuple[Usage, ...] = ()

    def next(self, response: ChatResponse) -> str:
        piece = response.delta
        if piece is None:  # an integration that gives the text so far, and no pieces
            so_far = response.message.content or ""
            piece = so_far[len(self.text) :] if so_far.startswith(self.text) else ""
        self.text += piece
        used = reported_usage(response)
        if used is not None:
            self.usage = (used,)
        return piece


def _chat(messages: Sequence[Message]) -> list[ChatMessage]:
    return [ChatMessage(role=m.role, content=m.content) for m in messages]


def _reply(response: ChatResponse) -> Reply:
    if not isinstance(response, ChatResponse):
        raise ContractViolation(
            f"expected the model to answer with a ChatResponse, got {type(response).__name__}"
        )
    return Reply(response.message.content or "", reported_usage(response))


def reported_usage(response: ChatResponse | CompletionResponse) -> Usage | None:
    """The tokens a response reports, in any of the shapes the integrations use; None if it reports none."""
    raw, said = response.raw, getattr(response, "message", response)
    kept = (response.additional_kwargs, said.additional_kwargs)
    for place in (_get(raw, "usage"), _get(raw, "usage_metadata"), raw, *kept):
        read, written = _first(place, _INPUT_TOKENS), _first(place, _OUTPUT_TOKENS)
        if read is not None or written is not None:
            return Usage.from_report(read or 0, written or 0)
    return None


def _first(place: Any, names: Sequence[str]) -> int | None:
    found = (_get(place, name) for name in names)
    return next(
        (v for v in found if isinstance(v, int) and not isinstance(v, bool)), None
    )


def _get(place: Any, name: str) -> Any:
    if isinstance(place, Mapping):
        return place.get(name)
    return getattr(place, name, None)


def _can_structure(model: LLM) -> bool:
    """Whether LlamaIndex itself would ask the model for a tool call."""
    calls = (
        isinstance(model, FunctionCallingLLM)
        and model.metadata.is_function_calling_model
    )
    return calls and model.pydantic_program_mode in _MODES


def _form(model: FunctionCallingLLM, schema: Mapping[str, Any]) -> dict[str, Any]:
    form = {"tools": [_reply_tool(schema)], "tool_required": True}
    takes = inspect.signature(model._prepare_chat_with_tools).parameters
    return (
        {**form, "strict": True} if "strict" in takes else form
    )  # passed on to a server that keeps to it


def _reply_tool(schema: Mapping[str, Any]) -> FunctionTool:
    """The tool for replies by ``schema``; integrations read its parameters, nobody calls it."""
    wanted = {"title": _NAME, **schema}

    class Arguments(BaseModel):
        @classmethod
        def model_json_schema(cls, *args: Any, **kwargs: Any) -> dict[str, Any]:
            return dict(wanted)

    metadata = ToolMetadata(
        description="Give the reply.", name=_NAME, fn_schema=Arguments
    )
    return FunctionTool(fn=_uncalled, metadata=metadata)


def _json_reply(model: FunctionCallingLLM, response: ChatResponse) -> Reply:
    """The reply's fields as JSON; its text when the model wrote text after all, or nothing that can be read."""
    plain = _reply(response)
    called = model.get_tool_calls_from_response(response, error_on_no_tool_call=False)
    fields = next(
        (c.tool_kwargs for c in called if c.tool_name == _NAME and c.tool_kwargs), None
    )
    return (
        plain
        if fields is None
        else Reply(json.dumps(fields, ensure_ascii=False), plain.usage)
    )


def _uncalled() -> None:
    raise NotImplementedError("the reply tool is a form to fill in")


def resolve_model(
    name: Literal["llm", "embed_model"], model: Any, *, caller: str
) -> Any:
    """``given``, or what the user put into `Settings`, whose own properties would make a hosted model. Raises
    `InputError` when there is none."""
    found = model if model is not None else getattr(Settings, f"_{name}", None)
    if found is None:
        raise InputError(
            f"{caller} needs a model: pass {name}=..., or set Settings.{name}; no default is resolved"
        )
    return found
