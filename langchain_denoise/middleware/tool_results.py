"""`DenoiseToolResults`: denoises what tools return before the agent reads it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import replace
from typing import Annotated, Any, NotRequired, TypeAlias

from langchain.agents.middleware import AgentState, ModelRequest
from langchain.agents.middleware.types import ToolCallRequest
from langchain.tools import ToolRuntime
from langchain_core.messages import ToolMessage
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
from langchain_denoise.convert.messages import last_user_text
from langchain_denoise.middleware.base import RequestMiddleware
from langchain_denoise.middleware.tool_messages import (
    ToolDocuments,
    ToolText,
    parse_tool_message,
)
from langchain_denoise.settings import (
    Denoise,
    DenoiserLike,
    closest_name,
    config_with_request,
)

ToolReturn: TypeAlias = ToolMessage | Command[Any]
ToolContent: TypeAlias = ToolText | ToolDocuments
ToolHandler: TypeAlias = Callable[[ToolCallRequest], ToolReturn]
AsyncToolHandler: TypeAlias = Callable[[ToolCallRequest], Awaitable[ToolReturn]]

MIN_CHARACTERS = 2000
"""Characters of one call's texts from which they are denoised by default."""


def _merge_omitted_texts(
    old: Mapping[str, str] | None, new: Mapping[str, str] | None
) -> dict[str, str]:
    return {**(old or {}), **(new or {})}


class RecallState(AgentState[Any]):
    """The agent's state, with the texts that were cut out of tools' results."""

    denoise_left_out: NotRequired[Annotated[dict[str, str], _merge_omitted_texts]]


class DenoiseToolResults(RequestMiddleware):
    """Denoises the results of tools, in the message that goes into the agent's state.

    A tool that keeps its documents (``create_retriever_tool(...,
    response_format="content_and_artifact")``) has artifact and content denoised alike;
    headings and separators of the tool stay. The texts of any other tool are chunked by
    their structure (paragraphs, rows, records of JSON, entries) and written back in the
    same shape, inside a ``Command`` too.

    Denoised are all tools that keep documents, and those that return 2,000 characters or
    more and were called with a search text; or those named in ``tools``, whatever their
    length. The query is the user's last message with the search text of the call. Without
    ``keep``, 3/8 of a text of 1,000 characters or more is kept. Errors pass unchanged, and
    the log names long text that passes unchanged.

    ``denoiser`` is any denoiser of the core, a `Denoise` or a `DenoiseCompressor`; None is
    the offline default. Other settings are those of `Denoise`, and an agent's context may
    override some as its ``denoise``. The record is in ``response_metadata["denoise"]``.
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
        """Build the compressor and check the settings.

        Args:
            denoiser: What denoises.
            tools: Tools, or their names, to denoise; None is the default above.
            recall: Let the agent read again what was cut out. Ids and first words are at
                the end of the message, the text is in the state under
                ``denoise_left_out`` and never in the prompt, and the agent has a tool
                ``recall(id)``.
            name: The middleware's name; two of a kind need two names.
            settings: The fields of `Denoise`.
        """
        super().__init__(name)
        if isinstance(tools, str | BaseTool):
            raise InputError(
                f"tools={_tool_name(tools)!r}: expected a list of tools or of their names"
            )
        if isinstance(denoiser, DenoiseCompressor):
            if settings:
                raise InputError(
                    f"{', '.join(settings)}: set on the DenoiseCompressor, which is "
                    "built already"
                )
            self.compressor = denoiser
        elif isinstance(denoiser, Denoise):
            self.compressor = DenoiseCompressor(settings=denoiser, **settings)
        else:
            self.compressor = DenoiseCompressor(denoiser=denoiser, **settings)
        self.tool_names = None if tools is None else frozenset(map(_tool_name, tools))
        self.recall = recall
        if recall:
            self.tools = [_recall]
            self.state_schema = RecallState
        self._has_checked_names = tools is None

    @override
    def wrap_tool_call(
        self, request: ToolCallRequest, handler: ToolHandler
    ) -> ToolReturn:
        tool_return = handler(request)
        contents = self._select_contents(_tool_messages(tool_return), request)
        config = config_with_request(_context_settings(request))
        query = _search_query(request)
        all_results = []
        for content in contents:
            inputs = content.denoise_inputs(query)
            results = [self.compressor.denoise_texts(item, config) for item in inputs]
            all_results.append(results)
        return self._apply_results(tool_return, contents, all_results)

    @override
    async def awrap_tool_call(
        self, request: ToolCallRequest, handler: AsyncToolHandler
    ) -> ToolReturn:
        tool_return = await handler(request)
        contents = self._select_contents(_tool_messages(tool_return), request)
        config = config_with_request(_context_settings(request))
        query = _search_query(request)
        all_results = []
        for content in contents:
            results = []
            for item in content.denoise_inputs(query):
                results.append(await self.compressor.adenoise_texts(item, config))
            all_results.append(results)
        return self._apply_results(tool_return, contents, all_results)

    @override
    def change_request(self, request: ModelRequest[Any]) -> ModelRequest[Any]:
        """The request unchanged.

        Raises:
            InputError: At the first request, for a name that no tool of the agent has.
        """
        if self._has_checked_names:
            return request
        agent_names: list[str] = []
        for agent_tool in request.tools:
            if isinstance(agent_tool, BaseTool):
                agent_names.append(agent_tool.name)
            else:
                agent_names.append(str(agent_tool.get("name", "")))
        unknown_names = sorted((self.tool_names or frozenset()).difference(agent_names))
        if unknown_names:
            hint = closest_name(unknown_names[0], agent_names)
            listing = ", ".join(sorted(agent_names)) or "no tools"
            raise InputError(f"tools={unknown_names}: the agent has {listing}{hint}")
        self._has_checked_names = True
        return request

    def _select_contents(
        self, messages: Sequence[ToolMessage], request: ToolCallRequest
    ) -> list[ToolContent]:
        """The texts and documents of the messages that are to be denoised."""
        is_named = self.tool_names is not None
        if is_named and request.tool_call["name"] not in (self.tool_names or ()):
            return []
        documents: list[ToolContent] = []
        texts: list[ToolText] = []
        for message in messages:
            if message.status == "error" or message.name == RECALL_TOOL:
                continue
            content = parse_tool_message(message)
            if isinstance(content, ToolText):
                texts.append(content)
            elif content is not None:
                documents.append(content)
        if is_named or self._should_denoise(texts, request):
            return [*documents, *texts]
        return documents

    def _should_denoise(
        self, texts: Sequence[ToolText], request: ToolCallRequest
    ) -> bool:
        """Whether texts of a tool that was not named are denoised.

        All texts of one call count together.
        """
        characters = 0
        for text in texts:
            characters += sum(part.characters for part in text.parts)
        if characters < MIN_CHARACTERS:
            return False
        if query_from_arguments(request.tool_call["args"]):
            return True
        # Without a search text the user's question alone would decide, which drops too
        # much of a file that the agent asked for on purpose.
        name = request.tool_call["name"]
        log_fallback(
            self._name,
            f"{name} gave long text and was called without words to look for",
            f"it passes as it is; tools=[{name!r}] denoises it by the user's question",
        )
        return False

    def _apply_results(
        self,
        tool_return: ToolReturn,
        contents: Sequence[ToolContent],
        all_results: Sequence[Sequence[Any]],
    ) -> ToolReturn:
        """What the tool returned, with denoised messages; with recall, their omissions."""
        # By object identity: a command may hold two messages with the same content.
        new_messages: dict[int, ToolMessage] = {}
        omitted_texts: dict[str, str] = {}
        for content, results in zip(contents, all_results, strict=True):
            message, omitted = content.apply_results(results, self.recall)
            new_messages[id(content.message)] = message
            if self.recall:
                omitted_texts |= {item.id: item.text for item in omitted}
        update: dict[str, Any] = {}
        if omitted_texts:
            update[OMITTED_STATE_KEY] = omitted_texts
        if isinstance(tool_return, ToolMessage):
            message = new_messages.get(id(tool_return), tool_return)
            if not update:
                return message
            return Command(update={MESSAGES_KEY: [message], **update})
        if not isinstance(tool_return.update, Mapping) or not new_messages:
            return tool_return
        messages = []
        for message in tool_return.update[MESSAGES_KEY]:
            messages.append(new_messages.get(id(message), message))
        new_update = {**tool_return.update, MESSAGES_KEY: messages, **update}
        return replace(tool_return, update=new_update)


@tool(RECALL_TOOL)
def _recall(id: str, runtime: ToolRuntime) -> str:
    """Gives back a part of a tool's result that was left out, by the id at the end of the result."""
    return recall_text(runtime.state.get(OMITTED_STATE_KEY) or {}, id)


def _tool_name(agent_tool: Any) -> str:
    if isinstance(agent_tool, BaseTool):
        return agent_tool.name
    if isinstance(agent_tool, str):
        return agent_tool
    type_name = type(agent_tool).__name__
    raise InputError(f"tools: expected tools or their names, got a {type_name}")


def _tool_messages(tool_return: ToolReturn) -> list[ToolMessage]:
    """The tool messages in what a tool returned; a command may hold several."""
    if isinstance(tool_return, ToolMessage):
        return [tool_return]
    update = tool_return.update
    messages = update.get(MESSAGES_KEY) if isinstance(update, Mapping) else None
    if not isinstance(messages, list):
        return []
    return [message for message in messages if isinstance(message, ToolMessage)]


def _context_settings(request: ToolCallRequest) -> Any:
    """The ``denoise`` of the agent's context: a dict, a dataclass or an object."""
    context = getattr(request.runtime, "context", None)
    if isinstance(context, Mapping):
        return context.get(RECORD_KEY)
    return getattr(context, RECORD_KEY, None)


def _search_query(request: ToolCallRequest) -> str:
    """The user's last message, and the search text of the call if it differs."""
    state = request.state
    if not isinstance(state, (dict, list)):
        state = {MESSAGES_KEY: getattr(state, MESSAGES_KEY, [])}
    user_text = last_user_text(extract_messages(state) or [])
    return build_query(user_text, query_from_arguments(request.tool_call["args"]))
