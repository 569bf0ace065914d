"""`DenoiseToolResults`: shortens what tools return before the model reads it."""

from __future__ import annotations

import operator
import sys
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import replace
from typing import Annotated, Any, NotRequired, TypeAlias

from langchain.agents.middleware import AgentState
from langchain.agents.middleware.types import ToolCallRequest
from langchain.tools import ToolRuntime
from langchain_core.callbacks import BaseCallbackManager
from langchain_core.messages import ToolMessage
from langchain_core.runnables.config import ensure_config
from langchain_core.tools import BaseTool, tool
from langgraph.types import Command
from typing_extensions import override

from denoise_core import DenoiseResult, InputError, Passage
from denoise_core._frameworks import (
    check_characters,
    check_choice,
    check_names,
    read_names,
)
from denoise_core.runtime.fallbacks import log_fallback
from denoise_core.shadow import ShadowCall
from denoise_core.tool_results import (
    MAX_NOTE_CHARACTERS,
    MIN_CHARACTERS,
    OMITTED_STATE_KEY,
    RECALL_TOOL,
    Pin,
    build_query,
    log_long_blocks,
    read_pin,
    recall_text,
)
from langchain_denoise.compressor import DenoiseCompressor
from langchain_denoise.convert.chain_values import (
    MESSAGES_KEY,
    as_mapping,
    extract_messages,
)
from langchain_denoise.convert.documents import read_document_list
from langchain_denoise.convert.history import shown_message
from langchain_denoise.convert.messages import ConversationTurn
from langchain_denoise.middleware.base import AgentRequest, ViewMiddleware
from langchain_denoise.middleware.tool_messages import (
    CutPlace,
    MessageCut,
    ToolDocuments,
    ToolText,
    parse_tool_message,
)
from langchain_denoise.observe import Record
from langchain_denoise.settings import DenoiserLike
from langchain_denoise.shadow import report_call

ToolReturn: TypeAlias = ToolMessage | Command[Any]
ToolContent: TypeAlias = ToolText | ToolDocuments


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
    documents cut in the artifact: the state is smaller, and nothing can be undone. What
    a tool returns to the user (``return_direct=True``) stays whole.
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
            hard_cap: Characters that any tool's result may have, named or not, and at
                least 200. A longer one keeps its first and last records, those that were
                kept if it was denoised, in its format and with a note. If hardly one
                fits, it keeps its first and last characters, and the note says that it
                is no longer JSON, say. Blocks of JSON and search results become texts if
                they are cut. All other content blocks, such as pictures, files and
                documents, stay whole and do not count; that is logged if they are
                longer, as it is for what ``must_keep`` pins. What ``recall`` returns
                stays whole.
            must_keep: What is always shown: a regular expression, such as
                ``"status: failed"`` for a field of a record of JSON or CSV, or a
                function of the text of a record, paragraph or document. XML and other
                tables are read as they are written.
            where: ``"view"`` or ``"state"``, as above.
            recall: Let the agent read again what was left out: notes name an id, and the
                agent has a tool ``recall(id)``. The text is in the state under
                ``denoise_left_out`` and not in the prompt.
            settings: Those of `DenoiseCompressor`.
        """
        super().__init__()
        own_settings: Any = DenoiseToolResults.__init__.__kwdefaults__
        known_settings = own_settings.keys() | DenoiseCompressor.model_fields
        check_names("DenoiseToolResults", settings, known_settings)
        self.tool_names = None if tools is None else read_names("tools", tools)
        self.is_shadow = settings.pop("shadow", False)
        if self.is_shadow:
            # Messages are compared whole, so the compressor does the cutting.
            settings |= {"on_error": "keep", "on_empty": "drop"}
        self.compressor = DenoiseCompressor(denoiser=denoiser, **settings)
        self.recall = recall and not self.is_shadow
        check_choice("where", where, "view", "state")
        check_characters("min_characters", min_characters)
        if hard_cap is None:
            hard_cap = sys.maxsize
        check_characters("hard_cap", hard_cap, MAX_NOTE_CHARACTERS)
        self.compressor._max_characters = hard_cap
        read_pin(must_keep)
        self.min_characters = min_characters
        self.cut = MessageCut(where, recall, must_keep, hard_cap)
        if self.recall:
            self.tools = [_recall_tool]
            self.state_schema = RecallState
        self._has_checked_names = False

    @override
    def wrap_tool_call(
        self,
        request: ToolCallRequest,
        handler: Callable[[ToolCallRequest], ToolReturn],
    ) -> ToolReturn:
        tool_return = handler(request)
        contents, inputs = self._select_contents(tool_return, request)
        results = [self.compressor.denoise_texts(item) for item in inputs]
        return self._finish(tool_return, contents, results, request)

    @override
    async def awrap_tool_call(
        self,
        request: ToolCallRequest,
        handler: Callable[[ToolCallRequest], Awaitable[ToolReturn]],
    ) -> ToolReturn:
        tool_return = await handler(request)
        contents, inputs = self._select_contents(tool_return, request)
        results = [await self.compressor.adenoise_texts(item) for item in inputs]
        return self._finish(tool_return, contents, results, request)

    @override
    def change_request(self, request: AgentRequest) -> AgentRequest:
        """The request with the short form of each result.

        Raises:
            InputError: At the first request, for a name that no tool of the agent has,
                and for a tool of the agent that is called as the one for ``recall=True``.
        """
        self._check_names(request)
        return super().change_request(request)

    def _check_names(self, request: AgentRequest) -> None:
        if self._has_checked_names:
            return
        # What is no `BaseTool` runs at the model's provider, and its results are not seen.
        tools_by_name = {
            item.name: item for item in request.tools if isinstance(item, BaseTool)
        }
        check_names("tools of the agent", self.tool_names or (), tools_by_name)
        # Middleware may have replaced ours by a copy, which has its function.
        recall_tool = tools_by_name.get(RECALL_TOOL, _recall_tool)
        if self.recall and getattr(recall_tool, "func", None) is not _recall:
            raise InputError(
                f"recall=True: the agent has its own tool {RECALL_TOOL!r}, which hides "
                "the one that returns what was left out; rename it, or set recall=False"
            )
        self._has_checked_names = True

    def _select_contents(
        self, tool_return: ToolReturn, request: ToolCallRequest
    ) -> tuple[list[ToolContent], list[Record]]:
        """What is to be denoised of a tool's messages, and the compressor's inputs.

        All texts of one call count together.
        """
        name = request.tool_call["name"]
        contents: list[ToolContent] = []
        for message in self._read_messages(tool_return, request):
            if message.status != "error":
                content = parse_tool_message(message, self.cut)
                if content is not None:
                    contents.append(content)
                elif name in (self.tool_names or ()) or read_document_list(
                    message.artifact
                ):
                    log_long_blocks(message.content, self.min_characters)
        if sum(content.characters for content in contents) < self.min_characters:
            contents = []
        if self.tool_names is None:
            documents = [item for item in contents if isinstance(item, ToolDocuments)]
            if len(documents) < len(contents):
                # Nothing says that the text of a tool answers a search: it may be a
                # file, a command's output or a translation, of which every line counts.
                log_fallback(
                    self.name,
                    f"{name} gave long text and is not named in tools",
                    f"it passes as it is; tools=[{name!r}] cuts it by the user's question",
                )
            contents = list(documents)
        elif name not in self.tool_names:
            contents = []
        query = _search_query(request)
        return contents, [content.denoise_input(query) for content in contents]

    def _finish(
        self,
        tool_return: ToolReturn,
        contents: Sequence[ToolContent],
        results: Sequence[Any],
        request: ToolCallRequest,
    ) -> ToolReturn:
        """What the tool returned, with shorter messages; with recall, their omissions.

        Messages are found by object identity: a command may hold two of one content.
        """
        new_messages: dict[int, ToolMessage] = {}
        omitted_texts: dict[str, str] = {}
        messages = self._read_messages(tool_return, request)
        denoised_messages = {
            id(content.message): content.apply_result(result, self.cut)
            for content, result in zip(contents, results, strict=True)
        }
        for message in messages:
            denoised_message = denoised_messages.get(id(message))
            shortened, omitted = denoised_message or self.cut.cap_message(message)
            new_messages[id(message)] = shortened
            log_long_blocks(shown_message(shortened).content, self.cut.hard_cap)
            omitted_texts.update((item.id, item.text) for item in omitted)
        if self.is_shadow:
            report_messages(_search_query(request), messages, new_messages)
            return tool_return
        update: Record = {}
        if self.recall and omitted_texts:
            update[OMITTED_STATE_KEY] = omitted_texts
        return _with_messages(tool_return, new_messages, update)

    def _read_messages(
        self, tool_return: ToolReturn, request: ToolCallRequest
    ) -> list[ToolMessage]:
        """The tool messages in what a tool returned; a command may hold several.

        What is recalled is none of them, nor is what the user reads in the state: both
        stay whole.
        """
        messages: Any = [tool_return]
        if isinstance(tool_return, Command):
            update = tool_return.update
            messages = update.get(MESSAGES_KEY) if isinstance(update, Mapping) else None
        is_recalled = self.recall and request.tool_call["name"] == RECALL_TOOL
        is_for_user = self.cut.where == "state" and getattr(
            request.tool, "return_direct", False
        )
        if is_recalled or is_for_user or not isinstance(messages, list):
            return []
        return [message for message in messages if isinstance(message, ToolMessage)]


def _with_messages(
    tool_return: ToolReturn, new_messages: Mapping[int, ToolMessage], update: Record
) -> ToolReturn:
    """What the tool returned with other messages, and with this in the state."""
    if not new_messages:
        return tool_return
    if isinstance(tool_return, ToolMessage):
        if not update:
            return new_messages[id(tool_return)]
        tool_return = Command(update={MESSAGES_KEY: [tool_return]})
    old_update: Any = tool_return.update
    changed_messages = [
        new_messages.get(id(item), item) for item in old_update[MESSAGES_KEY]
    ]
    new_update = {**old_update, MESSAGES_KEY: changed_messages, **update}
    return replace(tool_return, update=new_update)


def _recall(id: str, runtime: ToolRuntime) -> str:
    """Returns the part of a tool's result that was left out, by the id in its note."""
    return recall_text(runtime.state.get(OMITTED_STATE_KEY) or {}, id)


_recall_tool = tool(RECALL_TOOL)(_recall)


def report_messages(
    query: str, messages: Sequence[ToolMessage], new_messages: Mapping[int, ToolMessage]
) -> None:
    """Give a `ShadowReport` what the model would read of each tool's message."""
    passages = []
    kept_passages = []
    for message in messages:
        shown = shown_message(new_messages[id(message)])
        passage = Passage(str(message.text), message.tool_call_id, provenance="tool")
        passages.append(passage)
        kept_passages.append(
            replace(passage, text=str(shown.text), spans=passage.source_spans)
        )
    call = ShadowCall.from_result(passages, DenoiseResult(query, tuple(kept_passages)))
    run = ensure_config().get("callbacks")
    if isinstance(run, BaseCallbackManager):
        report_call(run.handlers, run.parent_run_id, call)


def _search_query(request: ToolCallRequest) -> str:
    """The user's last message, and the search text of the call if it differs."""
    messages = extract_messages(as_mapping(request.state)) or []
    user_text = ConversationTurn.from_messages(messages).question_text
    return build_query(user_text, request.tool_call["args"])
