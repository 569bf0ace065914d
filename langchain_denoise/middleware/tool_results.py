"""`DenoiseToolResults`: what a retrieval tool found, without the noise, before the agent reads it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Self

from langchain.agents.middleware import AgentMiddleware
from langchain.agents.middleware.types import ToolCallRequest
from langchain_core.messages import HumanMessage, ToolMessage
from langgraph.types import Command
from typing_extensions import override

from denoise_core import InputError
from langchain_denoise.compressor import DenoiseCompressor
from langchain_denoise.convert.places import MESSAGES, documents_of, messages_in
from langchain_denoise.middleware.tool_text import ToolText

Result = ToolMessage | Command[Any]


class DenoiseToolResults(AgentMiddleware[Any, Any, Any]):
    """Denoises the results of tools, in the message that goes into the agent's state.

    A tool that keeps its documents (``create_retriever_tool(..., response_format="content_and_artifact")``)
    has artifact and content cleared alike: each document's text is replaced where it stands in the content, so
    that headings and separators of the tool stay. A tool that gives text alone, as a string or in content blocks
    (MCP), is touched only when ``tools`` names it: its paragraphs are the documents then, or the items of a JSON
    list, and images stay where they were. The query is the tool's ``query`` argument, else the user's last
    message. Errors and commands of tools pass as they are, and no tool call is left without its message.

    ``denoiser`` is any denoiser of the core or a `DenoiseCompressor`; with neither it is the offline default.
    ``tools`` names the tools meant, None means all that keep their documents. Other settings are those of
    `DenoiseCompressor`; the record is in ``response_metadata["denoise"]`` of the message.
    """

    def __init__(
        self,
        denoiser: Any = None,
        *,
        tools: Sequence[str] | None = None,
        name: str = "DenoiseToolResults",
        **settings: Any,
    ) -> None:
        super().__init__()
        if isinstance(tools, str):
            raise InputError(f"tools={tools!r}: expected a list of tool names")
        if isinstance(denoiser, DenoiseCompressor):
            if settings:
                raise InputError(f"{', '.join(settings)}: set on the DenoiseCompressor, which is built already")
            self.compressor = denoiser
        else:
            self.compressor = DenoiseCompressor(denoiser=denoiser, **settings)
        self.tool_names = None if tools is None else frozenset(tools)
        self._name = name

    @classmethod
    def from_llm(
        cls,
        model: Any,
        *,
        tools: Sequence[str] | None = None,
        name: str = "DenoiseToolResults",
        **settings: Any,
    ) -> Self:
        """As `DenoiseCompressor.from_llm`."""
        return cls(DenoiseCompressor.from_llm(model, **settings), tools=tools, name=name)

    @classmethod
    def from_embeddings(
        cls,
        embeddings: Any,
        *,
        tools: Sequence[str] | None = None,
        name: str = "DenoiseToolResults",
        **settings: Any,
    ) -> Self:
        """As `DenoiseCompressor.from_embeddings`."""
        return cls(DenoiseCompressor.from_embeddings(embeddings, **settings), tools=tools, name=name)

    @classmethod
    def from_cross_encoder(
        cls,
        model: Any,
        *,
        tools: Sequence[str] | None = None,
        name: str = "DenoiseToolResults",
        **settings: Any,
    ) -> Self:
        """As `DenoiseCompressor.from_cross_encoder`, in the order of the result."""
        made = DenoiseCompressor.from_cross_encoder(model, **{"order": "input", **settings})
        return cls(made, tools=tools, name=name)

    @classmethod
    def from_probe(
        cls,
        folder: Any,
        model: Any = None,
        *,
        tools: Sequence[str] | None = None,
        name: str = "DenoiseToolResults",
        **settings: Any,
    ) -> Self:
        """As `DenoiseCompressor.from_probe`."""
        return cls(DenoiseCompressor.from_probe(folder, model, **settings), tools=tools, name=name)

    @property
    @override
    def name(self) -> str:
        return self._name

    @override
    def wrap_tool_call(self, request: ToolCallRequest, handler: Callable[[ToolCallRequest], Result]) -> Result:
        message = handler(request)
        text = self._text_of(message)
        if text is None:
            return message
        return text.cleared(self.compressor.invoke({"documents": text.documents, "query": _query(request)}))

    @override
    async def awrap_tool_call(
        self, request: ToolCallRequest, handler: Callable[[ToolCallRequest], Awaitable[Result]]
    ) -> Result:
        message = await handler(request)
        text = self._text_of(message)
        if text is None:
            return message
        kept = await self.compressor.ainvoke({"documents": text.documents, "query": _query(request)})
        return text.cleared(kept)

    def _text_of(self, message: Result) -> ToolText | None:
        """What is to be denoised; None when the message is to pass as it is."""
        if not isinstance(message, ToolMessage) or message.status == "error":
            return None
        if self.tool_names is not None and message.name not in self.tool_names:
            return None
        if documents_of(message) is None and self.tool_names is None:
            return None
        text = ToolText.of(message)
        return text if text.documents else None


def _query(request: ToolCallRequest) -> str:
    query = request.tool_call["args"].get("query")
    if isinstance(query, str) and query.strip():
        return query
    state = request.state
    state = state if isinstance(state, (dict, list)) else {MESSAGES: getattr(state, MESSAGES, [])}
    return next((str(m.text) for m in reversed(messages_in(state) or []) if isinstance(m, HumanMessage)), "")
