"""A LlamaIndex LLM as the core's: `LlamaLLM`.

Nothing here is resolved for the user: no `Settings`, no default model. A model or retriever whose async form
would run on the event loop is moved to a bounded pool of threads.
"""

from __future__ import annotations

import inspect
import json
from collections.abc import AsyncGenerator, Iterator, Mapping, Sequence
from contextlib import aclosing
from typing import Any, cast

from llama_index.core.base.llms.types import ChatMessage, ChatResponse, CompletionResponse
from llama_index.core.bridge.pydantic import BaseModel
from llama_index.core.llms import LLM, CustomLLM
from llama_index.core.llms.function_calling import FunctionCallingLLM
from llama_index.core.tools import FunctionTool
from llama_index.core.tools.types import ToolMetadata
from llama_index.core.types import PydanticProgramMode

from denoise_core import InputError, Message, Reply, Usage
from denoise_core.errors import BrokenLaw
from llamaindex_denoise.models.threads import Threads, owner
from llamaindex_denoise.storage.pickling import Carries

_INPUT_TOKENS = ("prompt_tokens", "input_tokens", "prompt_token_count", "prompt_eval_count")
_OUTPUT_TOKENS = ("completion_tokens", "output_tokens", "candidates_token_count", "eval_count")
_NAME = "reply"
_MODES = (PydanticProgramMode.DEFAULT, PydanticProgramMode.FUNCTION)


class LlamaLLM(Carries):
    """Any LlamaIndex LLM as the core's `LLM`, with streams and, where the model can, replies by a schema.

    Models built on ``CustomLLM`` (HuggingFaceLLM and most local ones) run their async form on the event
    loop; here they run on at most ``max_threads`` threads. Give ``max_threads=1`` to a model that must not be
    called twice at once, by sync code either. Tokens are read from the response where the model reports them.

    ``structured``: whether a reply that has a JSON schema is asked for by a tool the model must call, strictly
    where the integration passes that on. None does so when the model's metadata says that it calls functions, and
    finds it by asking once, and remembers it, where it does not (unless its ``pydantic_program_mode`` says
    otherwise). When the model writes text after all, that text is handed on to be parsed.

    A pickle holds no key: the model loaded from one takes its key from the environment. Raises `InputError` when
    ``model`` is not a LlamaIndex LLM, or ``structured=True`` is asked of one that has no tools.
    """

    def __init__(self, model: LLM, *, max_threads: int = 10, structured: bool | None = None) -> None:
        if not isinstance(model, LLM):
            raise InputError(
                f"LlamaLLM: expected a llama_index LLM, got {type(model).__name__}; pass the model object itself, "
                "no default is resolved"
            )
        if structured and not isinstance(model, FunctionCallingLLM):
            raise InputError(f"structured=True: {type(model).__name__} is no FunctionCallingLLM, it has no tools")
        self.model = model
        self.structured = _can_structure(model) if structured is None else structured
        self._threads = Threads(max_threads)

    def complete(self, messages: Sequence[Message]) -> Reply:
        with self._threads.slot():
            return _reply(self.model.chat(_chat(messages)))

    async def acomplete(self, messages: Sequence[Message]) -> Reply:
        if owner(self.model, "achat") is not CustomLLM:
            return _reply(await self.model.achat(_chat(messages)))
        return await self._threads.run(lambda: self.complete(messages))

    def complete_json(self, messages: Sequence[Message], schema: Mapping[str, Any]) -> Reply:
        """As `complete`; the reply's text is JSON by the schema where the model can be held to one."""
        if self.structured is False:
            return self.complete(messages)
        model = cast(FunctionCallingLLM, self.model)
        try:
            with self._threads.slot():
                response = model.chat_with_tools(chat_history=_chat(messages), **self._form(schema))
        except Exception as error:
            self._refused(error)
            return self.complete(messages)
        return self._json_reply(model, response)

    async def acomplete_json(self, messages: Sequence[Message], schema: Mapping[str, Any]) -> Reply:
        if self.structured is False:
            return await self.acomplete(messages)
        model = cast(FunctionCallingLLM, self.model)
        try:
            response = await model.achat_with_tools(chat_history=_chat(messages), **self._form(schema))
        except Exception as error:
            self._refused(error)
            return await self.acomplete(messages)
        return self._json_reply(model, response)

    def _form(self, schema: Mapping[str, Any]) -> dict[str, Any]:
        form = {"tools": [_reply_tool(schema)], "tool_required": True}
        takes = inspect.signature(cast(FunctionCallingLLM, self.model)._prepare_chat_with_tools).parameters
        return {**form, "strict": True} if "strict" in takes else form  # passed on to a server that keeps to it

    def _refused(self, error: Exception) -> None:
        """Text from now on. Raises what is no refusal of the form, and any error of a model known to call
        tools."""
        if self.structured or not _refuses_form(error):
            raise error
        self.structured = False

    def _json_reply(self, model: FunctionCallingLLM, response: ChatResponse) -> Reply:
        plain, fields = _reply(response), _arguments_of(model, response)
        if self.structured is None:
            self.structured = fields is not None
        return plain if fields is None else Reply(json.dumps(fields, ensure_ascii=False), plain.usage)

    def stream(self, messages: Sequence[Message]) -> Iterator[str | Usage]:
        """Pieces of the reply as they come, and at the end the tokens if the model reports them.

        A model that has no stream gives its reply in one piece.
        """
        pieces = _Pieces()
        try:
            with self._threads.slot():
                for response in self.model.stream_chat(_chat(messages)):
                    if piece := pieces.next(response):
                        yield piece
        except NotImplementedError:
            if pieces.text:
                raise
            yield from _whole(self.complete(messages))
        else:
            yield from pieces.usage

    async def astream(self, messages: Sequence[Message]) -> AsyncGenerator[str | Usage, None]:
        """`stream` for async; one thread of the pool reads a model that would block the event loop."""
        if owner(self.model, "achat") is CustomLLM:
            async with aclosing(self._threads.iterate(lambda: self.stream(messages))) as local:
                async for piece in local:
                    yield piece
            return
        pieces = _Pieces()
        try:
            async for response in await self.model.astream_chat(_chat(messages)):
                if piece := pieces.next(response):
                    yield piece
        except NotImplementedError:
            if pieces.text:
                raise
            for part in _whole(await self.acomplete(messages)):
                yield part
        else:
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
        used = usage_of(response)
        if used is not None:
            self.usage = (used,)
        return piece


def _chat(messages: Sequence[Message]) -> list[ChatMessage]:
    return [ChatMessage(role=m.role, content=m.content) for m in messages]


def _reply(response: ChatResponse) -> Reply:
    if not isinstance(response, ChatResponse):
        raise BrokenLaw(f"expected the model to answer with a ChatResponse, got {type(response).__name__}")
    return Reply(response.message.content or "", usage_of(response))


def _whole(reply: Reply) -> tuple[str | Usage, ...]:
    return (reply.text,) if reply.usage is None else (reply.text, reply.usage)


def usage_of(response: ChatResponse | CompletionResponse) -> Usage | None:
    """The tokens a response reports, in any of the shapes the integrations use; None if it reports none."""
    raw, said = response.raw, getattr(response, "message", response)
    kept = (
        _get(raw, "usage"),
        _get(raw, "usage_metadata"),
        raw,
        response.additional_kwargs,
        said.additional_kwargs,
    )
    for place in kept:
        read, written = _first(place, _INPUT_TOKENS), _first(place, _OUTPUT_TOKENS)
        if read is not None or written is not None:
            return Usage.reported(read or 0, written or 0)
    return None


def _first(place: Any, names: Sequence[str]) -> int | None:
    found = (_get(place, name) for name in names)
    return next((v for v in found if isinstance(v, int) and not isinstance(v, bool)), None)


def _get(place: Any, name: str) -> Any:
    if isinstance(place, Mapping):
        return place.get(name)
    return getattr(place, name, None)


def _can_structure(model: LLM) -> bool | None:
    """Whether a model can be asked for a tool call: LlamaIndex itself would, or (None) only asking tells."""
    if not isinstance(model, FunctionCallingLLM) or model.pydantic_program_mode not in _MODES:
        return False
    return True if model.metadata.is_function_calling_model else None


def _refuses_form(error: BaseException) -> bool:
    """Whether a model, its integration or its server says that it cannot be asked for a tool call."""
    return isinstance(error, (NotImplementedError, TypeError)) or (
        getattr(error, "status_code", None) in (400, 404, 405, 415, 422, 501)
    )


def _reply_tool(schema: Mapping[str, Any]) -> FunctionTool:
    """The tool for replies by ``schema``; integrations read its parameters, nobody calls it."""
    wanted = {"title": _NAME, **schema}

    class Arguments(BaseModel):
        @classmethod
        def model_json_schema(cls, *args: Any, **kwargs: Any) -> dict[str, Any]:
            return dict(wanted)

    metadata = ToolMetadata(description="Give the reply.", name=_NAME, fn_schema=Arguments)
    return FunctionTool(fn=_uncalled, metadata=metadata)


def _arguments_of(model: FunctionCallingLLM, response: ChatResponse) -> dict[str, Any] | None:
    """The reply's fields; None when the model wrote text after all, or nothing that can be read."""
    calls = model.get_tool_calls_from_response(response, error_on_no_tool_call=False)
    return next((c.tool_kwargs for c in calls if c.tool_name == _NAME and c.tool_kwargs), None)


def _uncalled() -> None:
    raise NotImplementedError("the reply tool is a form to fill in")
