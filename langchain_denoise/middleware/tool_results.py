"""`DenoiseToolResults`: what a retrieval tool found, without the noise, before the agent reads it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from langchain.agents.middleware import AgentMiddleware
from langchain.agents.middleware.types import ToolCallRequest
from langchain_core.documents import Document
from langchain_core.messages import HumanMessage, ToolMessage
from langgraph.types import Command
from typing_extensions import override

from denoise_core import Denoiser, InputError, unique_ids
from denoise_core.running.guard import Policy
from denoise_core.running.record import KEY
from langchain_denoise.compressor import DenoiseCompressor
from langchain_denoise.convert.places import documents_of


class DenoiseToolResults(AgentMiddleware[Any, Any, Any]):
    """Denoises the results of tools, in the message that goes into the agent's state.

    A tool that keeps its documents (``create_retriever_tool(..., response_format="content_and_artifact")``)
    has artifact and content cleared alike: each document's text is replaced where it stands in the content, so
    that headings and separators of the tool stay. A tool that gives text alone is touched only when ``tools``
    names it; its text is then one document to the denoiser. The query is the tool's ``query`` argument, else
    the user's last message. Errors, images and commands of tools pass as they are.

    ``tools`` names the tools meant, None means all that keep their documents. The other settings are those of
    `DenoiseCompressor`; the record is in ``response_metadata["denoise"]`` of the message.
    """

    def __init__(
        self,
        denoiser: Denoiser,
        *,
        tools: Sequence[str] | None = None,
        on_error: Policy = "keep",
        on_empty: Policy = "keep",
        max_concurrency: int | None = None,
        name: str = "DenoiseToolResults",
    ) -> None:
        super().__init__()
        if isinstance(tools, str):
            raise InputError(f"tools={tools!r}: expected a list of tool names")
        self.compressor = DenoiseCompressor(
            denoiser=denoiser, on_error=on_error, on_empty=on_empty, max_concurrency=max_concurrency
        )
        self.tool_names = None if tools is None else frozenset(tools)
        self._name = name

    @property
    @override
    def name(self) -> str:
        return self._name

    @override
    def wrap_tool_call(
        self, request: ToolCallRequest, handler: Callable[[ToolCallRequest], ToolMessage | Command[Any]]
    ) -> ToolMessage | Command[Any]:
        message = handler(request)
        found = self._found(message)
        if found is None or not isinstance(message, ToolMessage):
            return message
        kept = self.compressor.invoke({"documents": found, "query": _query(request)})
        return _cleared(message, found, kept)

    @override
    async def awrap_tool_call(
        self,
        request: ToolCallRequest,
        handler: Callable[[ToolCallRequest], Awaitable[ToolMessage | Command[Any]]],
    ) -> ToolMessage | Command[Any]:
        message = await handler(request)
        found = self._found(message)
        if found is None or not isinstance(message, ToolMessage):
            return message
        kept = await self.compressor.ainvoke({"documents": found, "query": _query(request)})
        return _cleared(message, found, kept)

    def _found(self, message: ToolMessage | Command[Any]) -> list[Document] | None:
        """What is to be denoised; None when the message is to pass as it is."""
        if (
            not isinstance(message, ToolMessage)
            or message.status == "error"
            or not isinstance(message.content, str)
        ):
            return None
        if self.tool_names is not None and message.name not in self.tool_names:
            return None
        documents = documents_of(message)
        if documents is None and self.tool_names is not None and message.content.strip():
            return [Document(page_content=message.content, id=message.tool_call_id)]
        return documents


def _query(request: ToolCallRequest) -> str:
    query = request.tool_call["args"].get("query")
    if isinstance(query, str) and query.strip():
        return query
    state = request.state
    messages = state.get("messages", []) if isinstance(state, dict) else getattr(state, "messages", state)
    return next((str(m.text) for m in reversed(messages) if isinstance(m, HumanMessage)), "")


def _cleared(message: ToolMessage, found: Sequence[Document], kept: Sequence[Document]) -> ToolMessage:
    before = [d.page_content for d in found]
    left = _by_place(found, kept)
    content = rewrite(str(message.content), before, left)
    record = {
        "given": len(found),
        "kept": len(kept),
        "fallback": next((d.metadata[KEY]["fallback"] for d in kept), None),
        "characters_before": len(str(message.content)),
        "characters_after": len(content),
    }
    return message.model_copy(
        update={
            "content": content,
            "artifact": list(kept) if documents_of(message) is not None else message.artifact,
            "response_metadata": {**message.response_metadata, KEY: record},
        }
    )


def _by_place(found: Sequence[Document], kept: Sequence[Document]) -> list[str | None]:
    """The text left of each document that was found, None for one that was dropped."""
    place = {i: n for n, i in enumerate(unique_ids([d.id for d in found]))}  # the ids the compressor gave them
    left: list[str | None] = [None] * len(found)
    joint: list[str] = []
    for document in kept:
        at = place.get(document.metadata[KEY]["origin"])
        if at is None:
            joint.append(document.page_content)  # several rewritten as one: it takes the first place
        else:
            left[at] = document.page_content
    if joint:
        left[0] = "\n\n".join([*joint, *([left[0]] if left[0] else [])])
    return left


def rewrite(content: str, before: Sequence[str], after: Sequence[str | None]) -> str:
    """``content`` with each text of ``before`` replaced by its successor, None taking its heading away with it.

    Texts are looked for one after the other. When one is not there, as in a content that does not show the
    documents' text, the successors are joined by blank lines instead.

    >>> rewrite("1: aa\\n2: bb\\n3: cc\\n", ["aa", "bb", "cc"], ["a", None, "cc"])
    '1: a\\n3: cc\\n'
    """
    out: list[str] = []
    at = 0
    for old, new in zip(before, after, strict=True):
        found = content.find(old, at)
        if found < 0:
            return "\n\n".join(text for text in after if text is not None)
        if new is not None:
            out += [content[at:found], new]
        at = found + len(old)
    text = "".join(out) + content[at:]
    return text if after and after[0] is not None else text.lstrip("\n")
