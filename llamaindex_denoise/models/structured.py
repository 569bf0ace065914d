"""Replies held to a JSON schema: a tool whose arguments are the reply, which the model is required to call.

It is the one way of LlamaIndex's that reports tokens as well: ``structured_predict`` gives the object alone.
"""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from typing import Any

from llama_index.core.base.llms.types import ChatResponse
from llama_index.core.bridge.pydantic import BaseModel
from llama_index.core.llms import LLM
from llama_index.core.llms.function_calling import FunctionCallingLLM
from llama_index.core.tools import FunctionTool
from llama_index.core.tools.types import ToolMetadata
from llama_index.core.types import PydanticProgramMode

_NAME = "reply"
_MODES = (PydanticProgramMode.DEFAULT, PydanticProgramMode.FUNCTION)


def can_structure(model: LLM) -> bool | None:
    """Whether a model can be asked for a tool call: LlamaIndex itself would, or (None) only asking tells."""
    if not isinstance(model, FunctionCallingLLM) or model.pydantic_program_mode not in _MODES:
        return False
    return True if model.metadata.is_function_calling_model else None


def strictly(model: FunctionCallingLLM) -> dict[str, Any]:
    """``strict=True`` for an integration that passes it on to a server that keeps to a schema."""
    takes = inspect.signature(type(model)._prepare_chat_with_tools).parameters
    return {"strict": True} if "strict" in takes else {}


def refuses_form(error: BaseException) -> bool:
    """Whether a model, its integration or its server says that it cannot be asked for a tool call."""
    return isinstance(error, (NotImplementedError, TypeError)) or (
        getattr(error, "status_code", None) in (400, 404, 405, 415, 422, 501)
    )


def reply_tool(schema: Mapping[str, Any]) -> FunctionTool:
    """The tool for replies by ``schema``; integrations read its parameters, nobody calls it."""
    wanted = {"title": _NAME, **schema}

    class Arguments(BaseModel):
        @classmethod
        def model_json_schema(cls, *args: Any, **kwargs: Any) -> dict[str, Any]:
            return dict(wanted)

    metadata = ToolMetadata(description="Give the reply.", name=_NAME, fn_schema=Arguments)
    return FunctionTool(fn=_uncalled, metadata=metadata)


def arguments_of(model: FunctionCallingLLM, response: ChatResponse) -> dict[str, Any] | None:
    """The reply's fields; None when the model wrote text after all, or nothing that can be read."""
    calls = model.get_tool_calls_from_response(response, error_on_no_tool_call=False)
    return next((c.tool_kwargs for c in calls if c.tool_name == _NAME and c.tool_kwargs), None)


def _uncalled() -> None:
    raise NotImplementedError("the reply tool is a form to fill in")
