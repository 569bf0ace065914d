"""`DenoiseToolResults`: shortens what tools return before the model reads it."""

from __future__ import annotations

import operator
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import replace
from typing import Annotated, Any, NotRequired, TypeAlias, get_args

from langchain.agents.middleware import AgentState, ModelRequest
from langchain.agents.middleware.types import ToolCallRequest
from langchain.tools import ToolRuntime
from langchain_core.callbacks import BaseCallbackManager
from langchain_core.messages import ToolMessage
from langchain_core.runnables.config import ensure_config
from langchain_core.tools import BaseTool, tool
from langgraph.types import Command
from typing_extensions import override

from denoise_core import DenoiseResult, InputError, Passage
from denoise_core._frameworks import closest_name
from denoise_core.runtime.fallbacks import log_fallback
from denoise_core.shadow import ShadowCall
from denoise_core.tool_results import (
    MIN_CHARACTERS,
    OMITTED_STATE_KEY,
    RECALL_TOOL,
    OmittedText,
    Pin,
    build_query,
    query_from_arguments,
    read_pin,
    recall_text,
)
from langchain_denoise.compressor import DenoiseCompressor
from langchain_denoise.convert.chain_values import (
    MESSAGES_KEY,
    as_mapping,
    extract_messages,
)
from langchain_denoise.convert.history import shown_message
from langchain_denoise.convert.messages import ConversationTurn
from langchain_denoise.middleware.base import ViewMiddleware
from langchain_denoise.middleware.tool_messages import (
    CutPlace,
    MessageCut,
    ToolDocuments,
    ToolText,
    parse_tool_message,
)
from langchain_denoise.settings import DenoiserLike
from langchain_denoise.shadow import report_call

ToolReturn: TypeAlias = ToolMessage | Command[Any]
ToolContent: TypeAlias = ToolText | ToolDocuments
ToolHandler: TypeAlias = Callable[[ToolCallRequest], ToolReturn]
AsyncToolHandler: TypeAlias = Callable[[ToolCallRequest], Awaitable[ToolReturn]]


class RecallState(AgentState[Any]):
    """The agent's state, with the texts that were cut out of tools' results."""

    denoise_left_out: NotRequired[Annotated[dict[str, str], operator.or_]]


class DenoiseToolResults(ViewMiddleware):
    """Shortens what tools return, and says in each result what is missing.

    A tool that keeps its documents (``create_retriever_tool(...,
    response_format="content_and_artifact")``) has its documents cut; headings and
    separators of the tool stay. Any other tool is cut only if ``tools`` names it: its
    records, rows or paragraphs are shown whole or left out, in the format they had, and
    a note in the text counts them. What no parser reads stays whole.

    The agent's state keeps what the tool returned, and the model reads the short form
    (``where="view"``). ``where="state"`` stores the short form instead, with the
    documents cut in the artifact: the state is smaller, and nothing can be undone.
    Either way a result is cut once, so that the prompt's prefix stays the same and a
    provider's prompt cache holds.

    The query is the user's last message with the search text of the call. Without
    ``keep``, 3/8 of a text is kept. Errors pass unchanged, and the log names long text
    that passes unchanged.

    ``denoiser`` is any denoiser of the core; None is the offline default. Other settings
    are those of `DenoiseCompressor`; one call may override some by
    ``config={"configurable": {"denoise": {...}}}``. The record is in
    ``response_metadata["denoise"]``.
    """

    def __init__(
        self,
        denoiser: DenoiserLike = None,
        *,
        tools: Sequence[str] | None = None,
        min_characters: int = MIN_CHARACTERS,
        hard_cap: int | None = None,
        must_keep: Pin | None = None,
        where: CutPlace = "view",
        recall: bool = False,
        **settings: Any,
    ) -> None:
        """Build the compressor and check the settings.

        Args:
            denoiser: What denoises.
            tools: Names of the tools to denoise; None are those that return documents.
            min_characters: A shorter result passes unchanged.
            hard_cap: Characters that any tool's result may have, named or not. A longer
                one keeps its head and its tail, and says what is missing.
            must_keep: What is always shown: a regular expression, such as
                ``"status: failed"`` for a field of a record, or a function of the text
                of a record, paragraph or document.
            where: ``"view"`` or ``"state"``, as above.
            recall: Let the agent read again what was left out: notes name an id, and the
                agent has a tool ``recall(id)``. The text is in the state under
                ``denoise_left_out`` and not in the prompt.
            settings: Those of `DenoiseCompressor`.
        """
        super().__init__()
        names = None if tools is None else list(tools)
        if isinstance(tools, str) or not all(
            isinstance(item, str) for item in names or ()
        ):
            raise InputError(f"tools={tools!r}: expected a list of tools' names")
        self.tool_names = None if names is None else frozenset(names)
        self.is_shadow = bool(settings.pop("shadow", False))
        if self.is_shadow:
            # Messages are compared whole, so the compressor does the cutting.
            settings |= {"on_error": "keep", "on_empty": "drop"}
        self.compressor = DenoiseCompressor(denoiser=denoiser, **settings)
        self.recall = recall
        if where not in get_args(CutPlace):
            raise InputError(f"where={where!r}: expected 'view' or 'state'")
        for setting, value in (
            ("min_characters", min_characters),
            ("hard_cap", hard_cap),
        ):
            is_count = isinstance(value, int) and value >= 0
            if value is not None and not is_count:
                raise InputError(
                    f"{setting}={value!r}: expected a number of characters"
                )
        read_pin(must_keep)
        self.min_characters = min_characters
        self.cut = MessageCut(where, recall, must_keep, hard_cap)
        if recall and not self.is_shadow:
            self.tools = [_recall]
            self.state_schema = RecallState
        self._has_checked_names = tools is None

    @override
    def wrap_tool_call(
        self, request: ToolCallRequest, handler: ToolHandler
    ) -> ToolReturn:
        tool_return = handler(request)
        contents = self._select_contents(_tool_messages(tool_return), request)
        query = _search_query(request)
        results = []
        for content in contents:
            text_input = content.denoise_input(query)
            results.append(self.compressor.denoise_texts(text_input))
        return self._finish(tool_return, contents, results, query)

    @override
    async def awrap_tool_call(
        self, request: ToolCallRequest, handler: AsyncToolHandler
    ) -> ToolReturn:
        tool_return = await handler(request)
        contents = self._select_contents(_tool_messages(tool_return), request)
        query = _search_query(request)
        results = []
        for content in contents:
            text_input = content.denoise_input(query)
            results.append(await self.compressor.adenoise_texts(text_input))
        return self._finish(tool_return, contents, results, query)

    @override
    def change_request(self, request: ModelRequest[Any]) -> ModelRequest[Any]:
        """The request with the short form of each result.

        Raises:
            InputError: At the first request, for a name that no tool of the agent has.
        """
        self._check_names(request)
        return super().change_request(request)

    def _check_names(self, request: ModelRequest[Any]) -> None:
        if self._has_checked_names:
            return
        # What is no `BaseTool` runs at the model's provider, and its results are not seen.
        tools = [item for item in request.tools if isinstance(item, BaseTool)]
        agent_names = [agent_tool.name for agent_tool in tools]
        unknown_names = sorted((self.tool_names or frozenset()).difference(agent_names))
        if unknown_names:
            hint = closest_name(unknown_names[0], agent_names)
            listing = ", ".join(sorted(agent_names)) or "no tools"
            raise InputError(f"tools={unknown_names}: the agent has {listing}{hint}")
        self._has_checked_names = True

    def _select_contents(
        self, messages: Sequence[ToolMessage], request: ToolCallRequest
    ) -> list[ToolContent]:
        """The texts and documents of the messages that are to be denoised.

        All texts of one call count together.
        """
        contents: list[ToolContent] = []
        for message in messages:
            if message.status != "error" and message.name != RECALL_TOOL:
                content = parse_tool_message(message, self.cut)
                if content is not None:
                    contents.append(content)
        if sum(content.characters for content in contents) < self.min_characters:
            return []
        name = request.tool_call["name"]
        if self.tool_names is not None:
            return contents if name in self.tool_names else []
        documents: list[ToolContent] = []
        for content in contents:
            if isinstance(content, ToolDocuments):
                documents.append(content)
        if len(documents) < len(contents):
            # Nothing says that the text of a tool answers a search: it may be a file, a
            # command's output or a translation, of which every line counts.
            log_fallback(
                self.name,
                f"{name} gave long text and is not named in tools",
                f"it passes as it is; tools=[{name!r}] cuts it by the user's question",
            )
        return documents

    def _finish(
        self,
        tool_return: ToolReturn,
        contents: Sequence[ToolContent],
        results: Sequence[Any],
        query: str,
    ) -> ToolReturn:
        """What the tool returned, with shorter messages; with recall, their omissions.

        Messages are found by object identity: a command may hold two of one content.
        """
        new_messages: dict[int, ToolMessage] = {}
        omitted_texts: dict[str, str] = {}
        pairs = {id(content.message): n for n, content in enumerate(contents)}
        messages = _tool_messages(tool_return)
        for message in messages:
            omitted: tuple[OmittedText, ...] = ()
            if id(message) in pairs:
                n = pairs[id(message)]
                shortened, omitted = contents[n].apply_result(results[n], self.cut)
                new_messages[id(message)] = shortened
            elif message.name != RECALL_TOOL:
                new_messages[id(message)], omitted = self.cut.cap_message(message)
            omitted_texts.update((item.id, item.text) for item in omitted)
        if self.is_shadow:
            report_messages(query, messages, new_messages)
            return tool_return
        update: dict[str, Any] = {}
        if self.recall and omitted_texts:
            update[OMITTED_STATE_KEY] = omitted_texts
        if isinstance(tool_return, ToolMessage):
            message = new_messages.get(id(tool_return), tool_return)
            if not update:
                return message
            return Command(update={MESSAGES_KEY: [message], **update})
        if not isinstance(tool_return.update, Mapping) or not new_messages:
            return tool_return
        changed_messages = []
        for message in tool_return.update[MESSAGES_KEY]:
            changed_messages.append(new_messages.get(id(message), message))
        update = {**tool_return.update, MESSAGES_KEY: changed_messages, **update}
        return replace(tool_return, update=update)


@tool(RECALL_TOOL)
def _recall(id: str, runtime: ToolRuntime) -> str:
    """Returns the part of a tool's result that was left out, by the id in its note."""
    return recall_text(runtime.state.get(OMITTED_STATE_KEY) or {}, id)


def report_messages(
    query: str, messages: Sequence[ToolMessage], new_messages: Mapping[int, ToolMessage]
) -> None:
    """Give a `ShadowReport` what the model would read of each tool's message."""
    passages = []
    kept_passages = []
    for message in messages:
        shown = shown_message(new_messages.get(id(message), message))
        message_id = str(message.tool_call_id)
        passage = Passage(str(message.text), message_id, provenance="tool")
        passages.append(passage)
        kept = replace(passage, text=str(shown.text), spans=passage.source_spans)
        kept_passages.append(kept)
    result = DenoiseResult(query, tuple(kept_passages))
    call = ShadowCall.from_result(passages, result)
    run = ensure_config().get("callbacks")
    if isinstance(run, BaseCallbackManager):
        report_call(run.handlers, run.parent_run_id, call)


def _tool_messages(tool_return: ToolReturn) -> list[ToolMessage]:
    """The tool messages in what a tool returned; a command may hold several."""
    if isinstance(tool_return, ToolMessage):
        return [tool_return]
    update = tool_return.update
    messages = update.get(MESSAGES_KEY) if isinstance(update, Mapping) else None
    if not isinstance(messages, list):
        return []
    return [message for message in messages if isinstance(message, ToolMessage)]


def _search_query(request: ToolCallRequest) -> str:
    """The user's last message, and the search text of the call if it differs."""
    messages = extract_messages(as_mapping(request.state)) or []
    user_text = ConversationTurn.from_messages(messages).question_text
    return build_query(user_text, query_from_arguments(request.tool_call["args"]))
