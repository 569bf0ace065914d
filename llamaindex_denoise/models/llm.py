"""`LlamaLLM`: a LlamaIndex LLM as the core's `LLM`.

No default model is resolved: a model that was neither passed nor put into `Settings` is
an error.
"""

from __future__ import annotations

import inspect
import json
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any, Literal, cast

from llama_index.core import Settings
from llama_index.core.base.llms.types import ChatMessage, ChatResponse
from llama_index.core.bridge.pydantic import BaseModel
from llama_index.core.callbacks.token_counting import get_tokens_from_response
from llama_index.core.llms import LLM, CustomLLM
from llama_index.core.llms.function_calling import FunctionCallingLLM
from llama_index.core.llms.structured_llm import StructuredLLM
from llama_index.core.tools import FunctionTool
from llama_index.core.tools.types import ToolMetadata
from llama_index.core.types import PydanticProgramMode

from denoise_core import InputError, Message, Reply, Usage
from denoise_core.errors import ContractViolation
from denoise_core.runtime.thread_pool import run_in_pool
from llamaindex_denoise.models.retriever import defining_class

_REPLY_TOOL = "reply"
_TOOL_MODES = (PydanticProgramMode.DEFAULT, PydanticProgramMode.FUNCTION)


class LlamaLLM:
    """Any LlamaIndex LLM as the core's `LLM`, with structured replies.

    Models built on ``CustomLLM`` (HuggingFaceLLM and most local ones) run their async
    form on the event loop; here they run on threads. Token counts are read from the
    response if the model reports them.

    Args:
        model: The LlamaIndex LLM. Of ``llm.as_structured_llm(...)``, which can write
            nothing but its class, the model in it.

    Attributes:
        structured: Whether replies with a JSON schema are requested through a tool
            that the model must call, strictly where the integration passes that on.
            It follows the model's metadata and ``pydantic_program_mode``. If the
            model writes text instead, that text is parsed.

    Raises:
        InputError: ``model`` is not a LlamaIndex LLM.
    """

    def __init__(self, model: LLM) -> None:
        if not isinstance(model, LLM):
            raise InputError(
                f"LlamaLLM: expected a llama_index LLM, got {type(model).__name__}; "
                "pass the model object itself, no default is resolved"
            )
        self.model = model.llm if isinstance(model, StructuredLLM) else model
        self.structured = _prefers_tool_calls(self.model)

    def complete(self, messages: Sequence[Message]) -> Reply:
        """Return the model's reply."""
        return _to_reply(self.model.chat(_chat_messages(messages)))

    async def acomplete(self, messages: Sequence[Message]) -> Reply:
        """Return the model's reply; a local model runs on a thread."""
        # The model's async form would block the event loop.
        if defining_class(self.model, "achat") is CustomLLM:
            return await run_in_pool(self.complete, messages)
        return _to_reply(await self.model.achat(_chat_messages(messages)))

    def complete_json(
        self, messages: Sequence[Message], schema: Mapping[str, Any]
    ) -> Reply:
        """Return a reply that is JSON by ``schema``, if the model supports that."""
        if not self.structured:
            return self.complete(messages)
        model = cast(FunctionCallingLLM, self.model)
        response = model.chat_with_tools(**_tool_request(model, messages, schema))
        return _to_json_reply(model, response)

    async def acomplete_json(
        self, messages: Sequence[Message], schema: Mapping[str, Any]
    ) -> Reply:
        """Return a reply that is JSON by ``schema``, if the model supports that."""
        if not self.structured:
            return await self.acomplete(messages)
        model = cast(FunctionCallingLLM, self.model)
        request = _tool_request(model, messages, schema)
        return _to_json_reply(model, await model.achat_with_tools(**request))


def _chat_messages(messages: Sequence[Message]) -> list[ChatMessage]:
    return [ChatMessage(role=m.role, content=m.content) for m in messages]


def _to_reply(response: ChatResponse) -> Reply:
    if not isinstance(response, ChatResponse):
        raise ContractViolation(
            "expected the model to answer with a ChatResponse, got "
            f"{type(response).__name__}"
        )
    return Reply(response.message.content or "", reported_usage(response))


def reported_usage(response: ChatResponse) -> Usage | None:
    """Return the tokens that a response reports, as LlamaIndex's token counter reads it.

    None if it reports none; the budget then estimates them.
    """
    extra = response.additional_kwargs
    counts = (extra.get("prompt_tokens"), extra.get("completion_tokens"))
    if counts == (None, None):
        with suppress(Exception):  # a raw response may be anything
            counts = get_tokens_from_response(response)
    input_tokens, output_tokens = counts
    if not any(counts):
        return None
    return Usage.from_report(input_tokens or 0, output_tokens or 0)


def _prefers_tool_calls(model: LLM) -> bool:
    """Whether LlamaIndex itself would request structured output by a tool call."""
    return (
        isinstance(model, FunctionCallingLLM)
        and model.metadata.is_function_calling_model
        and model.pydantic_program_mode in _TOOL_MODES
    )


def _tool_request(
    model: FunctionCallingLLM, messages: Sequence[Message], schema: Mapping[str, Any]
) -> dict[str, Any]:
    request: dict[str, Any] = {
        "chat_history": _chat_messages(messages),
        "tools": [_build_reply_tool(schema)],
        "tool_required": True,
    }
    # Integrations that take it pass it on to a server that enforces the schema.
    if "strict" in inspect.signature(model._prepare_chat_with_tools).parameters:
        request["strict"] = True
    return request


def _build_reply_tool(schema: Mapping[str, Any]) -> FunctionTool:
    """The tool for replies by ``schema``; its parameters are read, it never runs."""
    titled_schema = {"title": _REPLY_TOOL, **schema}

    class ReplyArguments(BaseModel):
        @classmethod
        def model_json_schema(cls, *args: Any, **kwargs: Any) -> dict[str, Any]:
            return dict(titled_schema)

    metadata = ToolMetadata(
        description="Give the reply.", name=_REPLY_TOOL, fn_schema=ReplyArguments
    )
    return FunctionTool(fn=_reply_tool_body, metadata=metadata)


def _reply_tool_body() -> None:
    raise NotImplementedError("the reply tool only carries a schema")


def _to_json_reply(model: FunctionCallingLLM, response: ChatResponse) -> Reply:
    """The tool call's arguments as JSON, or the text if the model wrote text."""
    text_reply = _to_reply(response)
    tool_calls = model.get_tool_calls_from_response(
        response, error_on_no_tool_call=False
    )
    for tool_call in tool_calls:
        if tool_call.tool_name == _REPLY_TOOL and tool_call.tool_kwargs:
            reply_json = json.dumps(tool_call.tool_kwargs, ensure_ascii=False)
            return Reply(reply_json, text_reply.usage)
    return text_reply


def resolve_model(setting: Literal["llm", "embed_model"], model: Any) -> Any:
    """Return ``model``, or what the user put into `Settings`.

    The private attribute is read, since the properties of `Settings` would create a
    hosted model.

    Raises:
        InputError: There is no model.
    """
    resolved_model = (
        model if model is not None else getattr(Settings, f"_{setting}", None)
    )
    if resolved_model is None:
        raise InputError(
            f"no model: pass {setting}=..., or set Settings.{setting}; "
            "no default is resolved"
        )
    return resolved_model


# Where LlamaIndex's engines, chats, agents and their parts hold a model, the one that
# writes the answer first.
_MODEL_PLACES = (
    "_response_synthesizer",
    "_llm",
    "llm",
    "_query_engine",
    "query_engine",
    "agents",
)


def find_model(component: Any) -> LLM | None:
    """The model that an engine, a chat, an agent or a workflow answers with."""
    if component is None or isinstance(component, LLM):
        return component
    if isinstance(component, dict):  # of agents by name, the first one first
        component = next(iter(component.values()), None)
    for name in _MODEL_PLACES:
        model = find_model(getattr(component, name, None))
        if model is not None:
            return model
    return None
