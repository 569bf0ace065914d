"""`EngineDrafter`: a LlamaIndex query engine drafts answers for the core's loop."""

from __future__ import annotations

import copy
from collections.abc import AsyncGenerator, Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from enum import Enum
from typing import Any, Literal, TypeAlias, cast, get_args, get_origin

from llama_index.core.base.base_query_engine import BaseQueryEngine
from llama_index.core.base.response.schema import (
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
from denoise_core.runtime.thread_pool import run_in_pool
from denoise_core.text.delimit import wrap_in_envelope
from llamaindex_denoise.engines.base import response_text
from llamaindex_denoise.models.retriever import defining_class
from llamaindex_denoise.nodes.convert import to_passages

EvidenceSource: TypeAlias = Callable[[Any], Sequence[NodeWithScore | str]]
"""The evidence of a response whose ``source_nodes`` do not have it: nodes or texts."""

EMPTY_RESPONSE = "Empty Response"
"""What LlamaIndex's synthesizers return when there is nothing to answer from."""


@dataclass
class EngineDrafter:
    """Drafts for one question by ``engine`` and keeps that run's state.

    An engine with ``retrieve`` and ``synthesize`` searches once, with the question;
    only its synthesizer reads what was wrong with a draft. Any other engine is called
    once, since a second call would repeat everything it does (``repeatable``); with
    ``LoopLimits(rerun=True)`` it is called again, with the feedback in its query.

    Attributes:
        engine: A LlamaIndex query engine, or anything with its ``query`` and ``aquery``.
        query_bundle: The question.
        evidence: Replaces the ``source_nodes`` of each response.
        earlier: What earlier answers of the conversation rested on.
        nodes: What the one search found; None before it.
        last_error: What the engine raised last.
        is_retrieval_only: Whether the engine only searches, as in mode ``no_text``.
    """

    engine: Any
    query_bundle: QueryBundle
    evidence: EvidenceSource | None = None
    earlier: tuple[RetrievedEvidence, ...] = ()
    nodes: list[NodeWithScore] | None = None
    last_error: Exception | None = None
    is_retrieval_only: bool = False

    @property
    def repeatable(self) -> bool:
        """Whether another draft repeats nothing but the synthesis."""
        return has_own_retrieval(self.engine)

    @contextmanager
    def _noted_error(self) -> Iterator[None]:
        try:
            yield
        except Exception as error:
            self.last_error = error
            raise

    def draft(self, request: DraftRequest) -> DraftReply:
        """Return a draft."""
        *_, draft_reply = self.stream(request)
        return cast(DraftReply, draft_reply)

    async def adraft(self, request: DraftRequest) -> DraftReply:
        """Return a draft."""
        stream_items = [item async for item in self.astream(request)]
        return cast(DraftReply, stream_items[-1])

    def stream(self, request: DraftRequest) -> Iterator[str | DraftReply]:
        """Yield the text as the engine streams it, then the draft."""
        with self._noted_error():
            if self.repeatable and self.nodes is None:
                self._run_transforms()
                self.nodes = self.engine.retrieve(self.query_bundle)
            draft_query = self._query_for(request)
            if self.nodes is None:
                response = self.engine.query(draft_query)
            else:
                response = self.engine.synthesize(draft_query, self.nodes)
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
        with self._noted_error():
            if self.repeatable and self.nodes is None:
                await run_in_pool(self._run_transforms)
                self.nodes = await self.engine.aretrieve(self.query_bundle)
            draft_query = self._query_for(request)
            if self.nodes is None:
                response = await self.engine.aquery(draft_query)
            else:
                response = await self.engine.asynthesize(draft_query, self.nodes)
            text = ""
            if isinstance(response, AsyncStreamingResponse):
                async for new_text in response.async_response_gen():
                    text += new_text
                    yield new_text
            else:
                text = response_text(response)
                yield text
            yield self._to_draft(request, response, text)

    def _run_transforms(self) -> None:
        """Run the engine's query transforms once.

        `TransformQueryEngine` would run them to retrieve, and again to synthesize.
        """
        while type(self.engine) is TransformQueryEngine:  # a subclass has its own way
            self.query_bundle = self.engine._query_transform.run(
                self.query_bundle, metadata=self.engine._transform_metadata
            )
            self.engine = self.engine._query_engine

    def _query_for(self, request: DraftRequest) -> QueryBundle:
        """The question with the feedback; only the question is embedded."""
        if not request.rejected_draft:
            return self.query_bundle
        query_texts = [
            request.question,
            draft_block(request.rejected_draft),
            REVISE,
            wrap_in_envelope(request.feedback, "feedback"),
        ]
        return replace(
            self.query_bundle,
            query_str="\n\n".join(query_texts),
            custom_embedding_strs=list(self.query_bundle.embedding_strs),
        )

    def _to_draft(self, request: DraftRequest, response: Any, text: str) -> DraftReply:
        if self.evidence is None:
            found_nodes = response.source_nodes or self.nodes or ()
            nodes = retrieved_sources(found_nodes, self.query_bundle.query_str)
        else:
            response = with_sources(response, self.evidence)
            nodes = list(response.source_nodes)
        is_empty = hasattr(response, "response") and not text  # a stream has none
        self.is_retrieval_only = is_empty and bool(nodes)
        is_placeholder = text.strip() == EMPTY_RESPONSE
        # Without nodes LlamaIndex's synthesizers return it and call no model.
        call_count = int(not is_placeholder or bool(nodes))
        if self.is_retrieval_only:
            call_count = 0
            text = ""
        object_fields = _evidence_fields(response)
        search_query = request.question
        if not self.repeatable:  # the others search once, for the first draft
            search_query = self._query_for(request).query_str
        evidence = RetrievedEvidence(to_passages(nodes), search_query)
        return DraftReply(
            text if object_fields is None else "",
            calls=call_count,
            retrieved=(evidence, *self.earlier),
            fields=object_fields,
            # With nodes it means that a model wrote nothing: no judge reads it.
            judge=not self.is_retrieval_only and not (is_placeholder and nodes),
            origin=response,
        )


def _evidence_fields(response: Any) -> dict[str, Any] | None:
    """The fields of an answer object as JSON, without its labels.

    Labels are chosen, not found in a source: fields of a ``Literal``, an ``Enum`` or a
    ``bool``.
    """
    if not isinstance(response, PydanticResponse):
        return None
    answer_object = response.response
    if not isinstance(answer_object, BaseModel):
        return None
    labels = set()
    for name, field in type(answer_object).model_fields.items():
        if _is_label_type(field.annotation):
            labels.add(name)
    return answer_object.model_dump(mode="json", exclude=labels)


def _is_label_type(annotation: Any) -> bool:
    if get_origin(annotation) is Literal:
        return True
    item_types = get_args(annotation)
    if item_types:
        known_types = [t for t in item_types if t not in (type(None), Ellipsis)]
        return all(map(_is_label_type, known_types))
    return isinstance(annotation, type) and issubclass(annotation, (Enum, bool))


def has_own_retrieval(engine: Any) -> bool:
    """Whether the engine defines its own ``retrieve`` and ``synthesize``, async too."""
    while type(engine) is TransformQueryEngine:  # a subclass may have its own way
        engine = engine._query_engine
    for method in ("retrieve", "aretrieve", "synthesize", "asynthesize"):
        if defining_class(engine, method) in (None, BaseQueryEngine):
            return False
    return True


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


def retrieved_sources(
    sources: Sequence[NodeWithScore], question: str = ""
) -> list[NodeWithScore]:
    """Return a response's sources without texts that a model wrote.

    LlamaIndex's sub-question and multi-step engines add the questions and answers of
    models as sources, a RecursiveRetriever the question with an engine's answer. They
    may have got a score or metadata since, but have no source document.
    """
    # Pages of questions and answers are evidence: the newline is LlamaIndex's.
    first_words = ("Sub question: ", "\nQuestion: ", f"Query: {question}\nResponse: ")
    return [
        scored_node
        for scored_node in sources
        if scored_node.node.ref_doc_id not in (None, scored_node.node.node_id)
        or not scored_node.node.get_content().startswith(first_words)
    ]
