"""A LlamaIndex engine as the loop's drafter: `EngineDrafter`. What is searched for is the question.

What its retrievers found and its models used while it answered, LlamaIndex's instrumentation says, wherever in it
that happens. Runs at the same time do not mix: each collects in its own context, which threads and tasks inherit.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Iterator, Sequence
from contextlib import aclosing, contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field, replace
from enum import Enum
from threading import Lock
from types import UnionType
from typing import Any, Literal, Union, cast, get_args, get_origin

from llama_index.core.base.base_query_engine import BaseQueryEngine
from llama_index.core.base.base_retriever import BaseRetriever
from llama_index.core.base.llms.types import ChatResponse, CompletionResponse
from llama_index.core.base.response.schema import (
    RESPONSE_TYPE,
    AsyncStreamingResponse,
    PydanticResponse,
    StreamingResponse,
)
from llama_index.core.bridge.pydantic import BaseModel
from llama_index.core.chat_engine.types import BaseChatEngine
from llama_index.core.indices.query.query_transform.base import BaseQueryTransform
from llama_index.core.instrumentation.event_handlers import BaseEventHandler
from llama_index.core.instrumentation.events import BaseEvent
from llama_index.core.instrumentation.events.llm import LLMChatEndEvent, LLMCompletionEndEvent
from llama_index.core.instrumentation.events.retrieval import RetrievalEndEvent
from llama_index.core.llms import LLM, CustomLLM
from llama_index.core.query_engine import CustomQueryEngine
from llama_index.core.response_synthesizers import Accumulate, BaseSynthesizer
from llama_index.core.schema import NodeWithScore, QueryBundle
from llama_index_instrumentation import get_dispatcher

from denoise_core import Passage, Usage
from denoise_core.augmenter.drafting.drafter import Drafted, DraftRequest, Found
from denoise_core.augmenter.prompts import QUESTION_ANSWERING, REVISE, draft_block
from denoise_core.text.delimit import envelope
from llamaindex_denoise.engines.base import Nodes, text_of_response
from llamaindex_denoise.events import DEAF
from llamaindex_denoise.models.llm import usage_of
from llamaindex_denoise.models.threads import Threads, owner
from llamaindex_denoise.nodes.convert import to_passages
from llamaindex_denoise.nodes.headers import source_of

_BETWEEN = "\n---------------------\n"  # what LlamaIndex's ``accumulate`` puts between its answers
_RULE = "\n\n"
_RETRIEVAL = "the engine's retrieval"

NOTHING_FOUND = "Empty Response"
"""What LlamaIndex's synthesizers say when there is nothing to answer from."""


class EngineDrafter:
    """One question's way through ``engine``; holds that run's state. ``nodes`` take the place of a search.

    An engine that brings ``retrieve`` and ``synthesize`` searches once, with the question; its synthesizer alone
    sees what was wrong with a draft. Any other is asked whole and once, for whatever it does it would do again
    (``repeatable``); told to ask again (``LoopLimits(rerun=True)``), it has the feedback in its query.
    """

    def __init__(
        self, engine: BaseQueryEngine, threads: Threads, asked: QueryBundle, nodes: Nodes | None = None
    ) -> None:
        self.engine = engine
        self.asked = asked
        self.nodes = None if nodes is None else list(nodes)
        self.searches = can_retrieve(engine)  # whether it is asked in two steps
        self.repeatable = self.searches or bool(getattr(engine, "repeatable", False))
        self.failed: tuple[str, Exception] | None = None  # the part that failed last, and its error
        self.silent = False  # whether the engine only searches, as in the mode ``no_text``
        self._parts: list[str] = []  # the last draft, where it is several answers
        self._query_asked: str | None = None  # what was searched for, where that is known
        self._threads = threads

    @contextmanager
    def _part(self, name: str) -> Iterator[None]:
        """Remembers the innermost part of which an error came."""
        try:
            yield
        except Exception as error:
            if self.failed is None or self.failed[1] is not error:
                self.failed = (name, error)
            raise

    def draft(self, request: DraftRequest) -> Drafted:
        *_, drafted = self.stream(request)
        return cast(Drafted, drafted)

    async def adraft(self, request: DraftRequest) -> Drafted:
        drafted = [item async for item in self.astream(request)][-1]
        return cast(Drafted, drafted)

    def stream(self, request: DraftRequest) -> Iterator[str | Found | Drafted]:
        """The draft in pieces, where the engine's own response is a stream."""
        with collecting() as seen, self._part(self._writes):
            if not self.searches:
                response = self.engine.query(self._query(request))
            else:
                if self.nodes is None:
                    with self._part(_RETRIEVAL):
                        self.nodes = self.engine.retrieve(self.asked)
                yield Found(_passages(self.nodes), request.question)
                response = self.engine.synthesize(self._query(request), self.nodes)
            pieces = []
            if isinstance(response, StreamingResponse):
                for piece in response.response_gen:
                    pieces.append(piece)
                    yield piece
            else:
                pieces.append(text_of_response(response))
                yield pieces[0]
        yield self._drafted(request, response, "".join(pieces), seen)

    async def astream(self, request: DraftRequest) -> AsyncGenerator[str | Found | Drafted, None]:
        """`stream` for async; a thread reads an engine that would block the event loop."""
        if blocks_the_loop(self.engine):
            async with aclosing(self._threads.iterate(lambda: self.stream(request))) as local:
                async for item in local:
                    yield item
            return
        with collecting() as seen, self._part(self._writes):
            if not self.searches:
                response = await self.engine.aquery(self._query(request))
            else:
                if self.nodes is None:
                    with self._part(_RETRIEVAL):
                        self.nodes = await aretrieve(self.engine, self.asked, self._threads)
                yield Found(_passages(self.nodes), request.question)
                response = await self.engine.asynthesize(self._query(request), self.nodes)
            pieces = []
            if isinstance(response, AsyncStreamingResponse):
                async for piece in response.async_response_gen():
                    pieces.append(piece)
                    yield piece
            else:
                pieces.append(text_of_response(response))
                yield pieces[0]
        yield self._drafted(request, response, "".join(pieces), seen)

    @property
    def _writes(self) -> str:
        return "the engine's synthesis" if self.searches else "the engine"

    def _query(self, request: DraftRequest) -> QueryBundle:
        """What was asked; with what was wrong with the last draft behind it, of which nothing is embedded."""
        before = [f"{m.role}: {m.content}" for m in request.history]
        after = []
        if request.rejected:
            after = [draft_block(request.rejected), REVISE, envelope(request.feedback, "feedback")]
        if not before and not after:
            return self.asked
        text = "\n\n".join([*before, request.question, *after])
        return replace(self.asked, query_str=text, custom_embedding_strs=list(self.asked.embedding_strs))

    def shown(self, text: str) -> str:
        """The final text with the headings back that ``accumulate`` gives to its answers."""
        kept = [(n, p) for n, p in enumerate(self._parts, 1) if p in text]
        if not kept or len(_RULE.join(p for _, p in kept)) < len(text.strip()) - len(kept):
            return text  # cut within an answer, or another text
        return _BETWEEN.join(f"Response {n}: {p}" for n, p in kept)

    def _drafted(self, request: DraftRequest, response: RESPONSE_TYPE, text: str, seen: Seen) -> Drafted:
        if isinstance(getattr(self.engine, "_response_synthesizer", None), Accumulate):
            self._parts = [p.removeprefix(f"Response {n}: ") for n, p in enumerate(text.split(_BETWEEN), 1)]
            text = _RULE.join(self._parts)
        found = [*(self.nodes or ()), *seen.nodes]
        evidence = nodes_behind(response.source_nodes, found)
        if request.attempt == 0 or not self.repeatable:  # one that is asked again searches once
            queries = {request.question} if self.searches else {q for q, _ in seen.searches}
            self._query_asked = queries.pop() if len(queries) == 1 else None
        fields = _fields(response)
        self.silent = bool(evidence) and not seen.calls and not getattr(response, "response", "-")
        calls = 0 if self.silent else seen.calls or 1  # an integration that tells of no call was still asked
        if not evidence and text.strip() == NOTHING_FOUND:
            calls = seen.calls
            text = QUESTION_ANSWERING.unknown  # LlamaIndex's synthesizers say so without asking a model
        return Drafted(
            "" if fields is not None or self.silent else text,
            seen.usage,
            calls=calls,
            found=(Found(_passages(evidence), self._query_asked),) if evidence else (),
            fields=fields,
            judge=not self.silent,
            origin=response,
        )


def _passages(nodes: Sequence[NodeWithScore]) -> tuple[Passage, ...]:
    """Evidence, with what a database returned marked as data of a tool."""
    passages = to_passages(nodes, captions=True)
    rows = (n is not None and is_rows(n) for n in map(source_of, passages))
    return tuple(replace(p, provenance="tool") if r else p for p, r in zip(passages, rows))


def _fields(response: RESPONSE_TYPE) -> dict[str, Any] | None:
    """What an object states, as JSON: not its labels, which are chosen and not found. A label is a field of a
    ``Literal``, an ``Enum`` or a ``bool``, or one with ``json_schema_extra={"evidence": False}``."""
    found = response.response if isinstance(response, PydanticResponse) else None
    if not isinstance(found, BaseModel):
        return None
    labels = {n for n, f in type(found).model_fields.items() if _is_label(f.annotation, f.json_schema_extra)}
    return found.model_dump(mode="json", exclude=labels)


def _is_label(kind: Any, extra: Any) -> bool:
    if isinstance(extra, dict) and extra.get("evidence") is False:
        return True
    if get_origin(kind) in (list, set, tuple, frozenset, Union, UnionType):
        inner = [k for k in get_args(kind) if k not in (type(None), Ellipsis)]
        return bool(inner) and all(_is_label(k, None) for k in inner)
    return get_origin(kind) is Literal or (isinstance(kind, type) and issubclass(kind, (Enum, bool)))


def can_retrieve(engine: BaseQueryEngine) -> bool:
    """Whether the engine brings its own ``retrieve`` and ``synthesize``."""
    return all(owner(engine, m) not in (None, BaseQueryEngine) for m in ("retrieve", "synthesize", "asynthesize"))


def blocks_the_loop(engine: BaseQueryEngine) -> bool:
    """Whether a part of the engine would run on the event loop when asked asynchronously: a model whose async form
    is its sync form (most local ones), a query transform, a retriever or a custom engine without an async form."""
    return any(_blocks(part) for part in _parts(engine, {}, 6))


def _blocks(part: object) -> bool:
    if isinstance(part, LLM):
        return owner(part, "achat") is CustomLLM
    if isinstance(part, BaseRetriever):
        return owner(part, "_aretrieve") is BaseRetriever
    if isinstance(part, CustomQueryEngine):
        return owner(part, "acustom_query") is CustomQueryEngine
    return isinstance(part, BaseQueryTransform)


_PARTS = (BaseQueryEngine, BaseChatEngine, BaseRetriever, BaseSynthesizer, LLM, BaseQueryTransform)


def _parts(value: Any, seen: dict[int, Any], depth: int) -> Iterator[object]:
    if id(value) in seen or depth == 0:
        return
    seen[id(value)] = value
    if isinstance(value, (list, tuple)):
        inner: Sequence[Any] = value
    elif isinstance(value, dict):
        inner = list(value.values())
    elif isinstance(value, _PARTS):
        yield value
        inner = [*vars(value).values(), *(getattr(value, "__pydantic_private__", None) or {}).values()]
    elif type(value).__module__.startswith("llama_index."):  # a selector, a question generator, a tool
        inner = list(vars(value).values()) if hasattr(value, "__dict__") else []
    else:
        return
    for part in inner:
        yield from _parts(part, seen, depth - 1)


async def aretrieve(engine: BaseQueryEngine, query: QueryBundle, threads: Threads) -> list[NodeWithScore]:
    """``engine.aretrieve`` where there is one that leaves the loop free; a thread otherwise."""
    own = getattr(engine, "aretrieve", None)
    if own is None or blocks_the_loop(engine):
        return await threads.run(lambda: engine.retrieve(query))
    found: list[NodeWithScore] = await own(query)
    return found


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
        told = [u for _, u, _ in self.replies if u is not None]
        if not told or len(told) < self.calls:
            return None
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
        self.replies.append((same, usage_of(response), text))


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
    """Of a response's sources those that were found, and not written, in their order; without any, ``found``.

    A source counts when a retriever brought it, or a part of it, or another part of its document (a merged
    parent), or a database did. Where nothing was seen to be retrieved, all count but the question-and-answer texts
    that LlamaIndex's sub-question and multi-step engines make of models' answers.
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
