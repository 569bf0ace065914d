"""A LlamaIndex engine as the loop's drafter: `EngineDrafter`. What is searched for is the question."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from enum import Enum
from types import UnionType
from typing import Any, Literal, Union, cast, get_args, get_origin

from llama_index.core.base.base_query_engine import BaseQueryEngine
from llama_index.core.base.response.schema import (
    RESPONSE_TYPE,
    AsyncStreamingResponse,
    PydanticResponse,
    StreamingResponse,
)
from llama_index.core.bridge.pydantic import BaseModel
from llama_index.core.response_synthesizers import Accumulate
from llama_index.core.schema import NodeWithScore, QueryBundle

from denoise_core import Passage
from denoise_core.augmenter.drafting.drafter import (
    DraftReply,
    DraftRequest,
    RetrievedEvidence,
)
from denoise_core.augmenter.prompts import QUESTION_ANSWERING, REVISE, draft_block
from denoise_core.runtime.thread_pool import run_in_pool
from denoise_core.text.delimit import wrap_in_envelope
from llamaindex_denoise.engines.base import NodeSequence, response_text
from llamaindex_denoise.models.threads import defining_class
from llamaindex_denoise.nodes.convert import to_passages
from llamaindex_denoise.nodes.headers import source_node

_BETWEEN = "\n---------------------\n"  # what LlamaIndex's ``accumulate`` puts between its answers
_RULE = "\n\n"
_RETRIEVAL = "the engine's retrieval"

EMPTY_RESPONSE = "Empty Response"
"""What LlamaIndex's synthesizers say when there is nothing to answer from."""


class EngineDrafter:
    """One question's way through ``engine``; holds that run's state. ``nodes`` take the place of a search.

    An engine that brings ``retrieve`` and ``synthesize`` searches once, with the question; its synthesizer alone
    sees what was wrong with a draft. Any other is asked whole and once, for whatever it does it would do again
    (``repeatable``); told to ask again (``LoopLimits(rerun=True)``), it has the feedback in its query.
    """

    def __init__(
        self,
        engine: BaseQueryEngine,
        asked: QueryBundle,
        nodes: NodeSequence | None = None,
    ) -> None:
        self.engine = engine
        self.query_bundle = asked
        self.nodes = None if nodes is None else list(nodes)
        self.has_retrieval = has_own_retrieval(
            engine
        )  # whether it is asked in two steps
        self.repeatable = self.has_retrieval
        self.failed_part: tuple[str, Exception] | None = (
            None  # the part that failed last, and its error
        )
        self.is_retrieval_only = (
            False  # whether the engine only searches, as in the mode ``no_text``
        )
        self._parts: list[str] = []  # the last draft, where it is several answers
        self._query_asked: str | None = (
            None  # what was searched for, where that is known
        )

    @contextmanager
    def _part(self, name: str) -> Iterator[None]:
        """Remembers the innermost part of which an error came."""
        try:
            yield
        except Exception as error:
            if self.failed_part is None or self.failed_part[1] is not error:
                self.failed_part = (name, error)
            raise

    def draft(self, request: DraftRequest) -> DraftReply:
        *_, drafted = self.stream(request)
        return cast(DraftReply, drafted)

    async def adraft(self, request: DraftRequest) -> DraftReply:
        drafted = [item async for item in self.astream(request)][-1]
        return cast(DraftReply, drafted)

    def stream(
        self, request: DraftRequest
    ) -> Iterator[str | RetrievedEvidence | DraftReply]:
        """The draft in pieces, where the engine's own response is a stream."""
        with self._part(self._writes):
            if not self.has_retrieval:
                response = self.engine.query(self._query(request))
            else:
                if self.nodes is None:
                    with self._part(_RETRIEVAL):
                        self.nodes = self.engine.retrieve(self.query_bundle)
                yield RetrievedEvidence(_passages(self.nodes), request.question)
                response = self.engine.synthesize(self._query(request), self.nodes)
            pieces = []
            if isinstance(response, StreamingResponse):
                for piece in response.response_gen:
                    pieces.append(piece)
                    yield piece
            else:
                pieces.append(response_text(response))
                yield pieces[0]
        yield self._drafted(request, response, "".join(pieces))

    async def astream(
        self, request: DraftRequest
    ) -> AsyncGenerator[str | RetrievedEvidence | DraftReply, None]:
        """`stream` by the engine's own async form."""
        with self._part(self._writes):
            if not self.has_retrieval:
                response = await self.engine.aquery(self._query(request))
            else:
                if self.nodes is None:
                    with self._part(_RETRIEVAL):
                        self.nodes = await aretrieve_nodes(
                            self.engine, self.query_bundle
                        )
                yield RetrievedEvidence(_passages(self.nodes), request.question)
                response = await self.engine.asynthesize(
                    self._query(request), self.nodes
                )
            pieces = []
            if isinstance(response, AsyncStreamingResponse):
                async for piece in response.async_response_gen():
                    pieces.append(piece)
                    yield piece
            else:
                pieces.append(response_text(response))
                yield pieces[0]
        yield self._drafted(request, response, "".join(pieces))

    @property
    def _writes(self) -> str:
        return "the engine's synthesis" if self.has_retrieval else "the engine"

    def _query(self, request: DraftRequest) -> QueryBundle:
        """What was asked; with what was wrong with the last draft behind it, of which nothing is embedded."""
        before = [f"{m.role}: {m.content}" for m in request.history]
        after = []
        if request.rejected_draft:
            after = [
                draft_block(request.rejected_draft),
                REVISE,
                wrap_in_envelope(request.feedback, "feedback"),
            ]
        if not before and not after:
            return self.query_bundle
        text = "\n\n".join([*before, request.question, *after])
        return replace(
            self.query_bundle,
            query_str=text,
            custom_embedding_strs=list(self.query_bundle.embedding_strs),
        )

    def restore_headings(self, text: str) -> str:
        """The final text with the headings back that ``accumulate`` gives to its answers."""
        kept = [(n, p) for n, p in enumerate(self._parts, 1) if p in text]
        if not kept or len(_RULE.join(p for _, p in kept)) < len(text.strip()) - len(
            kept
        ):
            return text  # cut within an answer, or another text
        return _BETWEEN.join(f"Response {n}: {p}" for n, p in kept)

    def _drafted(
        self, request: DraftRequest, response: RESPONSE_TYPE, text: str
    ) -> DraftReply:
        if isinstance(getattr(self.engine, "_response_synthesizer", None), Accumulate):
            self._parts = [
                p.removeprefix(f"Response {n}: ")
                for n, p in enumerate(text.split(_BETWEEN), 1)
            ]
            text = _RULE.join(self._parts)
        evidence = retrieved_sources(response.source_nodes) or list(self.nodes or ())
        if (
            request.attempt == 0 or not self.repeatable
        ):  # one that is asked again searches once
            self._query_asked = (
                request.question
                if self.has_retrieval
                else self._query(request).query_str
            )
        fields = _fields(response)
        self.is_retrieval_only = bool(evidence) and not getattr(
            response, "response", "-"
        )
        calls = 0 if self.is_retrieval_only else 1
        if not evidence and text.strip() == EMPTY_RESPONSE:
            calls = 0  # LlamaIndex's synthesizers say so without asking a model
            text = QUESTION_ANSWERING.unknown_reply
        return DraftReply(
            "" if fields is not None or self.is_retrieval_only else text,
            calls=calls,
            retrieved=(RetrievedEvidence(_passages(evidence), self._query_asked),)
            if evidence
            else (),
            fields=fields,
            judge=not self.is_retrieval_only,
            origin=response,
        )


def _passages(nodes: Sequence[NodeWithScore]) -> tuple[Passage, ...]:
    """Evidence, with what a database returned marked as data of a tool."""
    passages = to_passages(nodes, include_captions=True)
    rows = (n is not None and is_database_row(n) for n in map(source_node, passages))
    return tuple(
        replace(p, provenance="tool") if r else p for p, r in zip(passages, rows)
    )


def _fields(response: RESPONSE_TYPE) -> dict[str, Any] | None:
    """What an object states, as JSON: not its labels, which are chosen and not found. A label is a field of a
    ``Literal``, an ``Enum`` or a ``bool``, or one with ``json_schema_extra={"evidence": False}``."""
    found = response.response if isinstance(response, PydanticResponse) else None
    if not isinstance(found, BaseModel):
        return None
    labels = {
        n
        for n, f in type(found).model_fields.items()
        if _is_label(f.annotation, f.json_schema_extra)
    }
    return found.model_dump(mode="json", exclude=labels)


def _is_label(kind: Any, extra: Any) -> bool:
    if isinstance(extra, dict) and extra.get("evidence") is False:
        return True
    if get_origin(kind) in (list, set, tuple, frozenset, Union, UnionType):
        inner = [k for k in get_args(kind) if k not in (type(None), Ellipsis)]
        return bool(inner) and all(_is_label(k, None) for k in inner)
    return get_origin(kind) is Literal or (
        isinstance(kind, type) and issubclass(kind, (Enum, bool))
    )


def has_own_retrieval(engine: BaseQueryEngine) -> bool:
    """Whether the engine brings its own ``retrieve`` and ``synthesize``."""
    return all(
        defining_class(engine, m) not in (None, BaseQueryEngine)
        for m in ("retrieve", "synthesize", "asynthesize")
    )


async def aretrieve_nodes(
    engine: BaseQueryEngine, query: QueryBundle
) -> list[NodeWithScore]:
    """``engine.aretrieve`` where there is one; a thread otherwise."""
    own_method = getattr(engine, "aretrieve", None)
    if own_method is None:
        return await run_in_pool(engine.retrieve, query)
    found_nodes: list[NodeWithScore] = await own_method(query)
    return found_nodes


def retrieved_sources(sources: Sequence[NodeWithScore]) -> list[NodeWithScore]:
    """A response's sources but for the question-and-answer texts that LlamaIndex's sub-question and multi-step
    engines make of models' answers."""
    return [n for n in sources if not _is_written(n)]


def is_database_row(node: NodeWithScore) -> bool:
    """What a database returned, as LlamaIndex's SQL retrievers give it."""
    return "sql_query" in node.node.metadata


def _is_written(node: NodeWithScore) -> bool:
    lines = node.node.get_content().strip().split("\n", 1)
    if len(lines) < 2 or node.node.ref_doc_id is not None:
        return False
    return lines[0].startswith(("Sub question:", "Question:")) and lines[
        1
    ].lstrip().startswith(("Response:", "Answer:"))
