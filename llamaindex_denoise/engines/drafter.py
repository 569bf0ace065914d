"""`EngineDrafter`: a LlamaIndex query engine drafts answers for the core's loop."""

from __future__ import annotations

import copy
from collections.abc import AsyncGenerator, Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from enum import Enum
from types import UnionType
from typing import Any, Literal, TypeAlias, Union, cast, get_args, get_origin

from llama_index.core.base.base_query_engine import BaseQueryEngine
from llama_index.core.base.response.schema import (
    RESPONSE_TYPE,
    AsyncStreamingResponse,
    PydanticResponse,
    StreamingResponse,
)
from llama_index.core.bridge.pydantic import BaseModel
from llama_index.core.query_engine import TransformQueryEngine
from llama_index.core.schema import NodeWithScore, QueryBundle, TextNode

from denoise_core import InputError
from denoise_core.augmenter.drafting.drafter import (
    DraftReply,
    DraftRequest,
    RetrievedEvidence,
)
from denoise_core.augmenter.prompts import REVISE, draft_block
from denoise_core.runtime.fallbacks import log_fallback
from denoise_core.runtime.thread_pool import run_in_pool
from denoise_core.text.delimit import wrap_in_envelope
from llamaindex_denoise.engines.base import NodeSequence, response_text
from llamaindex_denoise.models.retriever import defining_class
from llamaindex_denoise.nodes.convert import to_passages

_RETRIEVAL = "the engine's retrieval"

EvidenceSource: TypeAlias = Callable[[Any], Sequence[NodeWithScore | str]]
"""The evidence of a response whose ``source_nodes`` do not have it: nodes or texts."""

EMPTY_RESPONSE = "Empty Response"
"""What LlamaIndex's synthesizers return when there is nothing to answer from."""


class EngineDrafter:
    """Drafts for one question by ``engine`` and keeps that run's state.

    An engine with ``retrieve`` and ``synthesize`` searches once, with the question;
    only its synthesizer reads what was wrong with a draft. Any other engine is called
    once, since a second call would repeat everything it does (``repeatable``); with
    ``LoopLimits(rerun=True)`` it is called again, with the feedback in its query.

    Args:
        engine: A LlamaIndex query engine.
        query_bundle: The question.
        evidence: Replaces the ``source_nodes`` of each response.

    Attributes:
        failed_part: The part that failed last, and its error.
        earlier: What earlier answers of the conversation rested on.
        is_retrieval_only: Whether the engine only searches, as in mode ``no_text``.
    """

    def __init__(
        self,
        engine: BaseQueryEngine,
        query_bundle: QueryBundle,
        evidence: EvidenceSource | None = None,
    ) -> None:
        self.evidence = evidence
        self.engine = engine
        self.query_bundle = query_bundle
        self.nodes: list[NodeWithScore] | None = None
        self.has_retrieval = has_own_retrieval(engine)
        self.repeatable = self.has_retrieval
        self.failed_part: tuple[str, Exception] | None = None
        self.is_retrieval_only = False
        self.earlier: tuple[RetrievedEvidence, ...] = ()
        self._search_query: str | None = None

    @contextmanager
    def _named_part(self, part_name: str) -> Iterator[None]:
        """Remember the innermost part that raised."""
        try:
            yield
        except Exception as error:
            if self.failed_part is None or self.failed_part[1] is not error:
                self.failed_part = (part_name, error)
            raise

    def draft(self, request: DraftRequest) -> DraftReply:
        """Return a draft."""
        *_, draft_reply = self.stream(request)
        return _with_notice(cast(DraftReply, draft_reply))

    async def adraft(self, request: DraftRequest) -> DraftReply:
        """Return a draft."""
        stream_items = [item async for item in self.astream(request)]
        return _with_notice(cast(DraftReply, stream_items[-1]))

    def stream(self, request: DraftRequest) -> Iterator[str | DraftReply]:
        """Yield the text as the engine streams it, then the draft."""
        with self._named_part(self._writing_part):
            if self.has_retrieval:
                if self.nodes is None:
                    with self._named_part(_RETRIEVAL):
                        self.engine, self.query_bundle = self._run_transforms()
                        self.nodes = self.engine.retrieve(self.query_bundle)
                draft_query = self._query_for(request)
                response = self.engine.synthesize(draft_query, self.nodes)
            else:
                response = self.engine.query(self._query_for(request))
            text = ""
            if isinstance(response, StreamingResponse):
                for new_text in response.response_gen:
                    text += new_text
                    yield new_text
            else:
                text = response_text(response)
                yield text
        yield self._to_draft(request, response, text)

    async def astream(
        self, request: DraftRequest
    ) -> AsyncGenerator[str | DraftReply, None]:
        """Yield the text as the engine streams it, then the draft."""
        with self._named_part(self._writing_part):
            if self.has_retrieval:
                if self.nodes is None:
                    with self._named_part(_RETRIEVAL):
                        self.engine, self.query_bundle = await run_in_pool(
                            self._run_transforms
                        )
                        self.nodes = await aretrieve_nodes(
                            self.engine, self.query_bundle
                        )
                draft_query = self._query_for(request)
                response = await self.engine.asynthesize(draft_query, self.nodes)
            else:
                response = await self.engine.aquery(self._query_for(request))
            text = ""
            if isinstance(response, AsyncStreamingResponse):
                async for new_text in response.async_response_gen():
                    text += new_text
                    yield new_text
            else:
                text = response_text(response)
                yield text
        yield self._to_draft(request, response, text)

    def _run_transforms(self) -> tuple[BaseQueryEngine, QueryBundle]:
        """Run the engine's query transforms once.

        `TransformQueryEngine` would run them to retrieve, and again to synthesize.
        """
        engine = self.engine
        query_bundle = self.query_bundle
        while type(engine) is TransformQueryEngine:  # a subclass may have its own way
            query_bundle = engine._query_transform.run(
                query_bundle, metadata=engine._transform_metadata
            )
            engine = engine._query_engine
        return engine, query_bundle

    @property
    def _writing_part(self) -> str:
        if self.has_retrieval:
            return "the engine's synthesis"
        return "the engine"

    def _query_for(self, request: DraftRequest) -> QueryBundle:
        """The question with history and feedback; only the question is embedded."""
        history_texts = [f"{m.role}: {m.content}" for m in request.history]
        feedback_texts = []
        if request.rejected_draft:
            feedback_texts = [
                draft_block(request.rejected_draft),
                REVISE,
                wrap_in_envelope(request.feedback, "feedback"),
            ]
        if not history_texts and not feedback_texts:
            return self.query_bundle
        query_texts = [*history_texts, request.question, *feedback_texts]
        return replace(
            self.query_bundle,
            query_str="\n\n".join(query_texts),
            custom_embedding_strs=list(self.query_bundle.embedding_strs),
        )

    def _to_draft(
        self, request: DraftRequest, response: RESPONSE_TYPE, text: str
    ) -> DraftReply:
        if self.has_retrieval:  # it searches once, for the first draft
            if request.attempt == 0:
                self._search_query = request.question
        else:
            self._search_query = self._query_for(request).query_str
        if self.evidence is None:
            nodes = retrieved_sources(response.source_nodes) or list(self.nodes or ())
        else:
            with self._named_part("evidence="):
                response = with_sources(response, self.evidence)
            nodes = list(response.source_nodes)
        answer_object = getattr(response, "response", "-")
        self.is_retrieval_only = bool(nodes) and not answer_object
        call_count = 1
        if self.is_retrieval_only:
            call_count = 0
            text = ""
        is_placeholder = text.strip() == EMPTY_RESPONSE
        if is_placeholder and not nodes:
            # LlamaIndex's synthesizers return this without calling a model.
            call_count = 0
        object_fields = _evidence_fields(response)
        retrieved = self.earlier
        if nodes:
            passages = to_passages(nodes)
            evidence = RetrievedEvidence(passages, self._search_query)
            retrieved = (evidence, *self.earlier)
        return DraftReply(
            text if object_fields is None else "",
            calls=call_count,
            retrieved=retrieved,
            fields=object_fields,
            # With nodes it means that a model wrote nothing: no judge reads it.
            judge=not self.is_retrieval_only and not (is_placeholder and nodes),
            origin=response,
        )


def _with_notice(draft_reply: DraftReply) -> DraftReply:
    """Say that a stream ended here: the caller gets an object without one."""
    if isinstance(draft_reply.origin, (StreamingResponse, AsyncStreamingResponse)):
        log_fallback(
            "Checked",
            "the engine streams; give Checked streaming='checked' or 'draft'",
            "the engine's stream was read to its end",
        )
    return draft_reply


def _evidence_fields(response: RESPONSE_TYPE) -> dict[str, Any] | None:
    """The fields of an answer object as JSON, without its labels.

    Labels are chosen, not found in a source: fields of a ``Literal``, an ``Enum`` or a
    ``bool``, and those with ``json_schema_extra={"evidence": False}``.
    """
    if not isinstance(response, PydanticResponse):
        return None
    answer_object = response.response
    if not isinstance(answer_object, BaseModel):
        return None
    labels = set()
    for name, field in type(answer_object).model_fields.items():
        extra = field.json_schema_extra
        is_excluded = isinstance(extra, dict) and extra.get("evidence") is False
        if is_excluded or _is_label_type(field.annotation):
            labels.add(name)
    return answer_object.model_dump(mode="json", exclude=labels)


def _is_label_type(annotation: Any) -> bool:
    origin = get_origin(annotation)
    if origin in (list, set, tuple, frozenset, Union, UnionType):
        arguments = [a for a in get_args(annotation) if a not in (type(None), Ellipsis)]
        return bool(arguments) and all(map(_is_label_type, arguments))
    if origin is Literal:
        return True
    return isinstance(annotation, type) and issubclass(annotation, (Enum, bool))


def has_own_retrieval(engine: BaseQueryEngine) -> bool:
    """Whether the engine defines its own ``retrieve`` and ``synthesize``."""
    while type(engine) is TransformQueryEngine:  # a subclass may have its own way
        engine = engine._query_engine
    for method in ("retrieve", "synthesize", "asynthesize"):
        if defining_class(engine, method) in (None, BaseQueryEngine):
            return False
    return True


async def aretrieve_nodes(
    engine: BaseQueryEngine, query_bundle: QueryBundle
) -> list[NodeWithScore]:
    """Return ``engine.aretrieve``; an engine without it is run on a thread."""
    aretrieve = getattr(engine, "aretrieve", None)
    if aretrieve is None:
        return await run_in_pool(engine.retrieve, query_bundle)
    nodes: list[NodeWithScore] = await aretrieve(query_bundle)
    return nodes


def with_sources(response: Any, evidence: EvidenceSource) -> Any:
    """Return a copy of a response with the user's evidence as ``source_nodes``."""
    items: Any = evidence(response)
    if isinstance(items, str) or not isinstance(items, Iterable):
        raise InputError(
            f"evidence=: expected a list of nodes or texts, got {type(items).__name__}"
        )
    sources = []
    for number, item in enumerate(items, 1):
        if isinstance(item, str):
            node = TextNode(text=item, id_=f"evidence-{number}")
            item = NodeWithScore(node=node)
        sources.append(item)
    with_evidence = copy.copy(response)
    with_evidence.source_nodes = sources
    return with_evidence


def retrieved_sources(sources: NodeSequence) -> list[NodeWithScore]:
    """Return a response's sources without texts that a model wrote.

    LlamaIndex's sub-question and multi-step engines add the questions and answers of
    models as sources.
    """
    return [scored_node for scored_node in sources if not _is_model_text(scored_node)]


def _is_model_text(scored_node: NodeWithScore) -> bool:
    node = scored_node.node
    question, _, answer = node.get_content().strip().partition("\n")
    if node.ref_doc_id is not None:
        return False
    is_question = question.startswith(("Sub question:", "Question:"))
    return is_question and answer.lstrip().startswith(("Response:", "Answer:"))
