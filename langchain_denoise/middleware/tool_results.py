"""`DenoiseToolResults`: what tools found, without the noise, before the agent reads it."""

from __future__ import annotations

import difflib
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import replace
from typing import Annotated, Any, NotRequired

from langchain.agents.middleware import AgentState, ModelRequest
from langchain.agents.middleware.types import ToolCallRequest
from langchain.tools import ToolRuntime
from langchain_core.messages import HumanMessage, ToolMessage
from langchain_core.tools import BaseTool, tool
from langgraph.types import Command
from typing_extensions import override

from denoise_core import InputError
from denoise_core.runtime.fallbacks import log_fallback
from denoise_core.runtime.record import RECORD_KEY
from denoise_core.tool_results import (
    OMITTED_STATE_KEY,
    RECALL_TOOL,
    build_query,
    query_from_arguments,
    recall_text,
)
from langchain_denoise.compressor import DenoiseCompressor
from langchain_denoise.convert.chain_values import MESSAGES_KEY, extract_messages
from langchain_denoise.middleware.base import RequestMiddleware
from langchain_denoise.middleware.tool_messages import (
    ToolDocuments,
    ToolText,
    parse_tool_message,
)
from langchain_denoise.settings import Denoise, DenoiserLike, config_with_request

Result = ToolMessage | Command[Any]

MIN_CHARACTERS = 2000
"""Characters of a call's texts from which on they are denoised without being asked for by name."""


def _joined(
    before: Mapping[str, str] | None, after: Mapping[str, str] | None
) -> dict[str, str]:
    return {**(before or {}), **(after or {})}


class RecallState(AgentState[Any]):
    """The agent's state, with what was cut out of tools' results."""

    denoise_left_out: NotRequired[Annotated[dict[str, str], _joined]]


class DenoiseToolResults(RequestMiddleware):
    """Denoises the results of tools, in the message that goes into the agent's state.

    A tool that keeps its documents (``create_retriever_tool(..., response_format="content_and_artifact")``) has
    artifact and content cleared alike, headings and separators of the tool stay. Of any other tool the texts are
    cut by their structure (paragraphs, rows, records of JSON, entries) and written back in the same shape, inside
    a ``Command`` too.

    Denoised are all tools that keep documents, and those that give 2,000 characters or more and were called with
    words to look for; or those that ``tools`` (names or tools) says, whatever their length. The query is the
    user's last message with the words the tool was called with. Without ``keep`` three eighths of a text of 1,000
    characters or more stay. Errors pass as they are, and long text that passes untouched is said in the log.

    With ``recall`` what was cut out can be had back: its ids and first words stand at the end of the message, the
    text in the state under ``denoise_left_out`` and never in the prompt, and the agent has a tool ``recall(id)``.

    ``denoiser`` is any denoiser of the core, a `Denoise` or a `DenoiseCompressor`; with none it is the offline
    default. Other settings are those of `Denoise`, and an agent's context may have some as its ``denoise``; the
    record is in ``response_metadata["denoise"]``.
    """

    def __init__(
        self,
        denoiser: DenoiserLike | Denoise = None,
        *,
        tools: Sequence[str | BaseTool] | None = None,
        recall: bool = False,
        name: str = "DenoiseToolResults",
        **settings: Any,
    ) -> None:
        super().__init__(name)
        if isinstance(tools, str | BaseTool):
            raise InputError(
                f"tools={_name_of(tools)!r}: expected a list of tools or of their names"
            )
        if isinstance(denoiser, DenoiseCompressor):
            if settings:
                raise InputError(
                    f"{', '.join(settings)}: set on the DenoiseCompressor, which is built already"
                )
            self.compressor = denoiser
        elif isinstance(denoiser, Denoise):
            self.compressor = DenoiseCompressor(settings=denoiser, **settings)
        else:
            self.compressor = DenoiseCompressor(denoiser=denoiser, **settings)
        self.tool_names = None if tools is None else frozenset(map(_name_of, tools))
        self.recall = recall
        if recall:
            self.tools = [_recall]
            self.state_schema = RecallState
        self._checked = tools is None

    @override
    def wrap_tool_call(
        self, request: ToolCallRequest, handler: Callable[[ToolCallRequest], Result]
    ) -> Result:
        result = handler(request)
        read, config = (
            self._read(_messages_of(result), request),
            config_with_request(_settings_in(request)),
        )
        each = [
            [
                self.compressor.denoise_texts(i, config)
                for i in r.denoise_inputs(_query(request))
            ]
            for r in read
        ]
        return self._back(result, read, each)

    @override
    async def awrap_tool_call(
        self,
        request: ToolCallRequest,
        handler: Callable[[ToolCallRequest], Awaitable[Result]],
    ) -> Result:
        result = await handler(request)
        read, config = (
            self._read(_messages_of(result), request),
            config_with_request(_settings_in(request)),
        )
        each = [
            [
                await self.compressor.adenoise_texts(i, config)
                for i in r.denoise_inputs(_query(request))
            ]
            for r in read
        ]
        return self._back(result, read, each)

    @override
    def change_request(self, request: ModelRequest[Any]) -> ModelRequest[Any]:
        """The request as it came. Raises `InputError`, once, for a name that no tool of the agent has."""
        if self._checked:
            return request
        there = [
            t.name if isinstance(t, BaseTool) else str(t.get("name", ""))
            for t in request.tools
        ]
        unknown = [n for n in sorted(self.tool_names or ()) if n not in there]
        if unknown:
            near = difflib.get_close_matches(unknown[0], there, 1)
            hint = f"; did you mean {near[0]!r}?" if near else ""
            raise InputError(
                f"tools={unknown}: the agent has {', '.join(sorted(there)) or 'no tools'}{hint}"
            )
        self._checked = True
        return request

    def _read(
        self, messages: Sequence[ToolMessage], request: ToolCallRequest
    ) -> list[ToolText | ToolDocuments]:
        """What of the messages is to be denoised."""
        if (
            self.tool_names is not None
            and request.tool_call["name"] not in self.tool_names
        ):
            return []
        ours = (m for m in messages if m.status != "error" and m.name != RECALL_TOOL)
        read = [r for m in ours if (r := parse_tool_message(m)) is not None]
        texts = [r for r in read if isinstance(r, ToolText)]
        long = self.tool_names is not None or self._is_long(texts, request)
        return [r for r in read if long or isinstance(r, ToolDocuments)]

    def _is_long(self, read: Sequence[ToolText], request: ToolCallRequest) -> bool:
        """Whether texts are denoised without being asked for by name: all that one call gave counts together."""
        if sum(part.characters for r in read for part in r.parts) < MIN_CHARACTERS:
            return False
        if not query_from_arguments(request.tool_call["args"]):
            name = request.tool_call["name"]
            log_fallback(
                self._name,
                f"{name} gave long text and was called without words to look for",
                f"it passes as it is; tools=[{name!r}] denoises it by the user's question",
            )
            return False
        return True

    def _back(
        self,
        result: Result,
        read: Sequence[ToolText | ToolDocuments],
        each: Sequence[Sequence[Any]],
    ) -> Result:
        """The result with the messages that were read as they are now, and beside them what they lost."""
        new: dict[int, ToolMessage] = {}
        kept: dict[str, str] = {}
        for one, found in zip(read, each, strict=True):
            new[id(one.message)], gone = one.apply_results(found, self.recall)
            kept |= {g.id: g.text for g in gone if self.recall}
        if isinstance(result, ToolMessage):
            message = new.get(id(result), result)
            return (
                Command(update={MESSAGES_KEY: [message], OMITTED_STATE_KEY: kept})
                if kept
                else message
            )
        if not isinstance(result.update, Mapping) or not new:
            return result
        messages = [new.get(id(m), m) for m in result.update[MESSAGES_KEY]]
        return replace(
            result,
            update={
                **result.update,
                MESSAGES_KEY: messages,
                **({OMITTED_STATE_KEY: kept} if kept else {}),
            },
        )


@tool(RECALL_TOOL)
def _recall(id: str, runtime: ToolRuntime) -> str:
    """Gives back a part of a tool's result that was left out, by the id that stands at the end of the result."""
    return recall_text(runtime.state.get(OMITTED_STATE_KEY) or {}, id)


def _name_of(given: Any) -> str:
    if isinstance(given, BaseTool):
        return given.name
    if isinstance(given, str):
        return given
    raise InputError(
        f"tools: expected tools or their names, got a {type(given).__name__}"
    )


def _messages_of(result: Result) -> list[ToolMessage]:
    """The tools' messages in a result; a command may bring several."""
    if isinstance(result, ToolMessage):
        return [result]
    found = (
        result.update.get(MESSAGES_KEY) if isinstance(result.update, Mapping) else None
    )
    return (
        [m for m in found if isinstance(m, ToolMessage)]
        if isinstance(found, list)
        else []
    )


def _settings_in(request: ToolCallRequest) -> Any:
    """What the agent's context asks for: its ``denoise``, of a dict, a dataclass or an object."""
    context = getattr(request.runtime, "context", None)
    return (
        context.get(RECORD_KEY)
        if isinstance(context, Mapping)
        else getattr(context, RECORD_KEY, None)
    )


def _query(request: ToolCallRequest) -> str:
    """What is looked for: the user's last message, and the words of the call where they are others."""
    state = request.state
    state = (
        state
        if isinstance(state, (dict, list))
        else {MESSAGES_KEY: getattr(state, MESSAGES_KEY, [])}
    )
    user = next(
        (
            str(m.text)
            for m in reversed(extract_messages(state) or [])
            if isinstance(m, HumanMessage)
        ),
        "",
    )
    return build_query(user, query_from_arguments(request.tool_call["args"]))
