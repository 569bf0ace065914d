"""What happened inside somebody else's engine while it answered: what its retrievers found, what its models used.

LlamaIndex's instrumentation says it, wherever in the engine it happens. Runs at the same time do not mix: each
collects in its own context, which threads and tasks inherit.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from threading import Lock
from typing import Any

from llama_index.core.base.llms.types import ChatMessage, ChatResponse, CompletionResponse
from llama_index.core.instrumentation.event_handlers import BaseEventHandler
from llama_index.core.instrumentation.events import BaseEvent
from llama_index.core.instrumentation.events.llm import LLMChatEndEvent, LLMCompletionEndEvent
from llama_index.core.instrumentation.events.retrieval import RetrievalEndEvent
from llama_index.core.schema import NodeWithScore, QueryBundle
from llama_index_instrumentation import get_dispatcher

from denoise_core import Usage
from llamaindex_denoise.events import DEAF
from llamaindex_denoise.models.llm import usage_of


@dataclass(slots=True)
class Seen:
    """``searches`` are the queries and what each found, in order; ``calls`` the models' replies."""

    searches: list[tuple[str, list[NodeWithScore]]] = field(default_factory=list)
    replies: list[tuple[int, Usage | None, str]] = field(default_factory=list)
    held: list[Any] = field(default_factory=list)  # so that no other object takes an id while this lasts

    @property
    def nodes(self) -> list[NodeWithScore]:
        """All nodes found, each once."""
        unique = {(n.node.node_id, n.node.hash): n for _, found in self.searches for n in found}
        return list(unique.values())

    @property
    def calls(self) -> int:
        return len(self.replies)

    @property
    def usage(self) -> Usage | None:
        """The sum of what the models reported; None when one of them reported nothing."""
        used = [u for _, u, _ in self.replies]
        if not used or any(u is None for u in used):
            return None
        told = [u for u in used if u is not None]
        return Usage(sum(u.input_tokens for u in told), sum(u.output_tokens for u in told))

    def add(self, event: BaseEvent) -> None:
        if isinstance(event, RetrievalEndEvent):
            asked = event.str_or_query_bundle
            self.searches.append((asked.query_str if isinstance(asked, QueryBundle) else asked, list(event.nodes)))
        elif isinstance(event, (LLMChatEndEvent, LLMCompletionEndEvent)) and event.response is not None:
            self._reply(event.response)

    def _reply(self, response: ChatResponse | CompletionResponse) -> None:
        """One reply; a chat that is made of a completion is told twice and counts once."""
        text = (response.message.content or "") if isinstance(response, ChatResponse) else response.text
        last = self.replies[-1] if self.replies else None
        same = id(response.raw) if response.raw is not None else 0
        if isinstance(response, ChatResponse) and last is not None and last[0] == same and last[2] == text:
            return
        self.held.append(response.raw)
        self.replies.append((same, _usage(response), text))


def _usage(response: ChatResponse | CompletionResponse) -> Usage | None:
    if isinstance(response, ChatResponse):
        return usage_of(response)
    empty = ChatMessage(role="assistant", content="")
    kept = response.additional_kwargs
    return usage_of(ChatResponse(message=empty, raw=response.raw, additional_kwargs=kept))


_seen: ContextVar[tuple[Seen, ...]] = ContextVar("denoise_llamaindex_seen", default=())
_installing = Lock()


class _Collector(BaseEventHandler):
    """The one handler of ours; says nothing to anybody outside a `collecting` block."""

    @classmethod
    def class_name(cls) -> str:
        return "DenoiseCollector"

    def handle(self, event: BaseEvent, **kwargs: Any) -> None:
        for seen in _seen.get():
            seen.add(event)


DEAF.add(_Collector)  # what it collects are searches and replies


@contextmanager
def collecting() -> Iterator[Seen]:
    """What is seen within the block; an outer block sees it too."""
    root = get_dispatcher()
    with _installing:
        if not any(isinstance(h, _Collector) for h in root.event_handlers):
            root.add_event_handler(_Collector())
    seen = Seen()
    token = _seen.set((*_seen.get(), seen))
    try:
        yield seen
    finally:
        _seen.reset(token)


def nodes_behind(sources: Sequence[NodeWithScore], found: Sequence[NodeWithScore]) -> list[NodeWithScore]:
    """Of a response's sources those that were found, and not written: in their order, for citations name them.

    A source counts when a retriever brought it, or a part of it, or another part of its document (a merged
    parent), or a database did. Without any source that counts, what the retrievers found. Where nothing was seen
    to be retrieved, the sources are taken at their word, without the question-and-answer texts that LlamaIndex's
    sub-question and multi-step engines make of models' answers.
    """
    real = [n for n in sources if not _written(n)]
    if not found:
        return real
    ids = {n.node.node_id for n in found}
    documents = {n.node.ref_doc_id for n in found if n.node.ref_doc_id}
    texts = [n.node.get_content() for n in found]
    known = [
        n
        for n in real
        if n.node.node_id in ids
        or (n.node.ref_doc_id and n.node.ref_doc_id in documents)
        or is_rows(n)
        or _part_of(n.node.get_content(), texts)
    ]
    return known or list(found)


def is_rows(node: NodeWithScore) -> bool:
    """What a database returned, as LlamaIndex's SQL retrievers give it."""
    return "sql_query" in node.node.metadata


def _part_of(text: str, texts: Sequence[str]) -> bool:
    head, _, body = text.partition(":\n")
    cut = body if head.startswith("Source ") else text
    return bool(cut.strip()) and any(cut.strip() in t for t in texts)


def _written(node: NodeWithScore) -> bool:
    lines = node.node.get_content().strip().split("\n", 1)
    if len(lines) < 2 or node.node.ref_doc_id is not None:
        return False
    return lines[0].startswith(("Sub question:", "Question:")) and lines[1].lstrip().startswith(
        ("Response:", "Answer:")
    )
