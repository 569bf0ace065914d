"""Query engines that check answers: over a retriever, or around another engine."""

from __future__ import annotations

import copy
import itertools
from collections.abc import AsyncGenerator, Generator, Iterator, Sequence
from contextlib import aclosing
from dataclasses import replace
from typing import Any, Literal, TypeAlias

from llama_index.core.base.base_query_engine import BaseQueryEngine
from llama_index.core.base.base_retriever import BaseRetriever
from llama_index.core.base.response.schema import (
    RESPONSE_TYPE,
    AsyncStreamingResponse,
    PydanticResponse,
    Response,
    StreamingResponse,
)
from llama_index.core.bridge.pydantic import BaseModel
from llama_index.core.callbacks import CallbackManager
from llama_index.core.callbacks.schema import CBEventType, EventPayload
from llama_index.core.llms import LLM
from llama_index.core.postprocessor.types import BaseNodePostprocessor
from llama_index.core.prompts import PromptTemplate
from llama_index.core.prompts.mixin import PromptDictType, PromptMixinType
from llama_index.core.schema import NodeWithScore, QueryBundle

from denoise_core import Budget, InputError, Passage, arun, run
from denoise_core.augmenter import (
    Augmenter,
    Consolidator,
    LoopLimits,
    WorkingMemory,
)
from denoise_core.augmenter.knowledge.consolidate import GatheredEvidence
from denoise_core.augmenter.streaming import (
    Finished,
    Revised,
    StreamEvent,
    TextReleased,
    stream_verified,
)
from denoise_core.runtime.effects import Flow
from llamaindex_denoise.engines.base import (
    AsyncDraftResponse,
    DraftResponse,
    NodeSequence,
    WithoutPrompts,
    astream_whole,
    stream_whole,
)
from llamaindex_denoise.engines.drafter import (
    EngineDrafter,
    EvidenceSource,
    aretrieve_nodes,
    has_own_retrieval,
)
from llamaindex_denoise.models.llm import LlamaLLM, resolve_model
from llamaindex_denoise.models.retriever import LlamaRetriever
from llamaindex_denoise.nodes.convert import can_be_evidence, to_passages
from llamaindex_denoise.verify import (
    EngineLoopRun,
    ErrorPolicy,
    ResponseParts,
    UnsupportedPolicy,
    build_augmenter,
    evidence_nodes,
)

StreamingMode: TypeAlias = bool | Literal["draft", "checked"]


class VerifiedEngine(WithoutPrompts, BaseQueryEngine):
    """Base of `AugmentedQueryEngine` and of the engine that `Checked` returns.

    An answer is one run of the loop. ``response.metadata["denoise"]`` says how far to
    trust it (``outcome``: supported, partly supported, unsupported, unknown, abstained
    or failed), why
    the loop stopped, and what each attempt was and cost. ``source_nodes`` are the nodes
    that the answer was written from; a citation ``[n]`` names the n-th of them.
    Structured output keeps its type and is checked field by field. An answer about
    which nothing is known is passed on unchanged.

    Args:
        augmenter: The loop.
        streaming: ``"checked"`` (or True) streams the judged text, ``"draft"`` the
            first draft as it is written. If the answer differs from what was shown, it
            follows after an empty line; ``get_response()`` returns the answer alone.
        notice: A line shown before that answer, in your users' language; "" for none.
        on_error: ``"raise"`` raises the error that prevented an answer; ``"answer"``
            returns a text that names the failed part.
        callback_manager: LlamaIndex's callbacks.
    """

    def __init__(
        self,
        augmenter: Augmenter,
        *,
        streaming: StreamingMode = False,
        notice: str = "",
        on_error: ErrorPolicy = "answer",
        callback_manager: CallbackManager | None = None,
    ) -> None:
        if not isinstance(augmenter, Augmenter):
            raise InputError(
                f"expected a denoise_core Augmenter, got {type(augmenter).__name__}; "
                "around an existing query engine write Checked(engine)"
            )
        if streaming not in (False, True, "draft", "checked"):
            raise InputError(
                f"streaming={streaming!r}: expected False, True, 'draft' or 'checked'"
            )
        if on_error not in ("answer", "raise"):
            raise InputError(f"on_error={on_error!r}: expected 'answer' or 'raise'")
        super().__init__(callback_manager)
        self.augmenter = augmenter
        self.on_error: ErrorPolicy = on_error
        self.streaming: StreamingMode = streaming
        self.notice = notice

    def synthesize(
        self,
        query_bundle: QueryBundle,
        nodes: list[NodeWithScore],
        additional_source_nodes: NodeSequence | None = None,
    ) -> RESPONSE_TYPE:
        """Return a checked answer from the given nodes, without a search."""
        return self._respond(
            self._loop_run(query_bundle, nodes, additional_source_nodes or ())
        )

    async def asynthesize(
        self,
        query_bundle: QueryBundle,
        nodes: list[NodeWithScore],
        additional_source_nodes: NodeSequence | None = None,
    ) -> RESPONSE_TYPE:
        """Return a checked answer from the given nodes, without a search."""
        return await self._arespond(
            self._loop_run(query_bundle, nodes, additional_source_nodes or ())
        )

    def _loop_run(
        self,
        query_bundle: QueryBundle,
        nodes: NodeSequence | None = None,
        additional: NodeSequence = (),
    ) -> EngineLoopRun:
        """One question with the parts that search and draft for it."""
        raise NotImplementedError

    def _query(self, query_bundle: QueryBundle) -> RESPONSE_TYPE:
        with self._query_event(query_bundle) as event:
            response = self._respond(self._loop_run(query_bundle))
            event.on_end({EventPayload.RESPONSE: response})
        return response

    async def _aquery(self, query_bundle: QueryBundle) -> RESPONSE_TYPE:
        with self._query_event(query_bundle) as event:
            response = await self._arespond(self._loop_run(query_bundle))
            event.on_end({EventPayload.RESPONSE: response})
        return response

    def _query_event(self, query_bundle: QueryBundle) -> Any:
        payload: dict[str, Any] = {EventPayload.QUERY_STR: query_bundle.query_str}
        return self.callback_manager.event(CBEventType.QUERY, payload)

    def _respond(self, loop_run: EngineLoopRun) -> RESPONSE_TYPE:
        if self.streaming == "draft":
            return _stream_draft(loop_run, self.notice)
        return self._build_response(loop_run.run_to_response())

    async def _arespond(self, loop_run: EngineLoopRun) -> RESPONSE_TYPE:
        if self.streaming == "draft":
            return _astream_draft(loop_run, self.notice)
        answer_parts = await loop_run.arun_to_response()
        return self._build_response(answer_parts, is_async=True)

    def _build_response(
        self, answer_parts: ResponseParts, *, is_async: bool = False
    ) -> RESPONSE_TYPE:
        text, nodes, metadata = answer_parts
        if isinstance(text, BaseModel):
            return PydanticResponse(text, nodes, metadata)
        if not self.streaming:
            return Response(text, nodes, metadata)
        if is_async:
            return AsyncStreamingResponse(astream_whole(text), nodes, metadata)
        return StreamingResponse(stream_whole(text), nodes, metadata)


def _stream_draft(loop_run: EngineLoopRun, notice: str) -> DraftResponse:
    """Return when the draft begins, so that earlier errors are raised here."""
    events = iter(_stream_events(loop_run))
    first_event = next(events)

    def shown_text() -> Generator[str, None, None]:
        for event in itertools.chain([first_event], events):
            yield from _show_event(event, response, loop_run, notice)

    response = DraftResponse(shown_text())
    return response


def _astream_draft(loop_run: EngineLoopRun, notice: str) -> AsyncDraftResponse:
    """Start the run, and raise its errors, when the response is read."""

    async def shown_text() -> AsyncGenerator[str, None]:
        # Closing the events ends the run of a reader that stops early.
        async with aclosing(aiter(_stream_events(loop_run))) as events:
            async for event in events:
                for text in _show_event(event, response, loop_run, notice):
                    yield text

    response = AsyncDraftResponse(shown_text())
    return response


def _stream_events(loop_run: EngineLoopRun) -> Any:
    return stream_verified(
        loop_run.augmenter,
        loop_run.question,
        loop_run.history,
        drafter=loop_run.drafter,
    )


def _show_event(
    event: StreamEvent,
    response: DraftResponse | AsyncDraftResponse,
    loop_run: EngineLoopRun,
    notice: str,
) -> Iterator[str]:
    """Yield what the reader sees of an event; the last one completes the response."""
    if isinstance(event, TextReleased):
        yield event.text
    elif isinstance(event, (Finished, Revised)):
        answer_parts = loop_run.response_parts(event.answer)
        answer_text = str(answer_parts.text)
        response.set_answer(
            answer_text, answer_parts.source_nodes, answer_parts.metadata
        )
        if isinstance(event, Revised):
            if event.shown_text:
                yield f"\n\n{notice}\n\n" if notice else "\n\n"
            yield answer_text


class CheckedQueryEngine(VerifiedEngine):
    """`Checked` of a query engine; keeps its retrieval, synthesizer and prompts.

    An engine without ``retrieve`` and ``synthesize`` is called once, and its answer
    is judged; ``LoopLimits(rerun=True)`` calls it again.
    """

    def __init__(
        self,
        query_engine: BaseQueryEngine,
        augmenter: Augmenter,
        *,
        evidence: EvidenceSource | None = None,
        **settings: Any,
    ) -> None:
        super().__init__(
            augmenter, callback_manager=query_engine.callback_manager, **settings
        )
        self.query_engine = query_engine
        self.evidence = evidence

    def retrieve(self, query_bundle: QueryBundle) -> list[NodeWithScore]:
        """Return what the wrapped engine retrieves."""
        return self.query_engine.retrieve(query_bundle)

    async def aretrieve(self, query_bundle: QueryBundle) -> list[NodeWithScore]:
        """Return what the wrapped engine retrieves."""
        return await aretrieve_nodes(self.query_engine, query_bundle)

    def _loop_run(
        self,
        query_bundle: QueryBundle,
        nodes: NodeSequence | None = None,
        additional: NodeSequence = (),
    ) -> EngineLoopRun:
        if nodes is not None and not has_own_retrieval(self.query_engine):
            raise NotImplementedError(
                f"{type(self.query_engine).__name__} does not support synthesize; "
                "use query"
            )
        return EngineLoopRun(
            self.augmenter,
            query_bundle.query_str,
            EngineDrafter(self.query_engine, query_bundle, nodes, self.evidence),
            extra_nodes=list(additional),
            on_error=self.on_error,
        )

    def _get_prompt_modules(self) -> PromptMixinType:
        return {"query_engine": self.query_engine}


class AugmentedQueryEngine(VerifiedEngine):
    """LLM-Augmenter as a query engine; it drafts with the loop's own prompt.

    ``AugmentedQueryEngine.from_args(retriever, llm=llm)``, or with an `Augmenter` that
    uses a `LlamaLLM` and a `LlamaRetriever`. Around an existing engine: `Checked`.
    """

    @classmethod
    def from_args(
        cls,
        retriever: BaseRetriever,
        llm: LLM | None = None,
        *,
        node_postprocessors: Sequence[BaseNodePostprocessor] = (),
        judge: Any = None,
        budget: Budget | None = None,
        limits: LoopLimits | None = None,
        unsupported: UnsupportedPolicy | None = None,
        streaming: StreamingMode = False,
        notice: str = "",
        on_error: ErrorPolicy = "answer",
    ) -> AugmentedQueryEngine:
        """Build the engine over a retriever; further settings are those of `Checked`.

        Args:
            retriever: A LlamaIndex retriever.
            llm: The model; None takes `Settings.llm`.
            node_postprocessors: Run on the retrieved nodes.
            judge: As in `Checked`, like ``budget``, ``limits`` and ``unsupported``.
            budget: Bounds one run.
            limits: Bounds the loop.
            unsupported: What happens to an answer that fails.
            streaming: See `VerifiedEngine`, as for ``on_error``.
            notice: See `VerifiedEngine`.
            on_error: What an error returns.

        Raises:
            InputError: There is no model.
        """
        model = resolve_model("llm", llm, caller="AugmentedQueryEngine.from_args")
        augmenter = build_augmenter(
            judge,
            budget,
            limits,
            unsupported,
            llm=LlamaLLM(model),
            retriever=LlamaRetriever(retriever, node_postprocessors),
        )
        return cls(augmenter, streaming=streaming, notice=notice, on_error=on_error)

    def retrieve(self, query_bundle: QueryBundle) -> list[NodeWithScore]:
        """Return what the loop's first search would show the model."""
        gathered_evidence, _ = run(
            self._gather(query_bundle), budget=self.augmenter.budget
        )
        return _gathered_nodes(query_bundle, gathered_evidence)

    async def aretrieve(self, query_bundle: QueryBundle) -> list[NodeWithScore]:
        """Return what the loop's first search would show the model."""
        flow = self._gather(query_bundle)
        gathered_evidence, _ = await arun(flow, budget=self.augmenter.budget)
        return _gathered_nodes(query_bundle, gathered_evidence)

    def _gather(self, query_bundle: QueryBundle) -> Flow[GatheredEvidence]:
        working_memory = WorkingMemory(query_bundle.query_str)
        return self._consolidator_for(query_bundle).gather(working_memory)

    def _loop_run(
        self,
        query_bundle: QueryBundle,
        nodes: NodeSequence | None = None,
        additional: NodeSequence = (),
    ) -> EngineLoopRun:
        augmenter = copy.copy(self.augmenter)
        extra_nodes: list[NodeWithScore] = []
        if nodes is None:
            augmenter.consolidator = self._consolidator_for(query_bundle)
        else:
            augmenter.consolidator = Consolidator(
                _NodeListRetriever(nodes),
                denoiser=self.augmenter.consolidator.denoiser,
            )
            extra_nodes = [n for n in nodes if not can_be_evidence(n.node)]
        return EngineLoopRun(
            augmenter,
            query_bundle.query_str,
            extra_nodes=[*extra_nodes, *additional],
            on_error=self.on_error,
        )

    def _consolidator_for(self, query_bundle: QueryBundle) -> Consolidator:
        """The loop's consolidator; LlamaIndex retrievers get the whole bundle."""
        consolidator = copy.copy(self.augmenter.consolidator)
        sources = []
        for source in consolidator.sources:
            if isinstance(source, LlamaRetriever):
                source = source.with_query_bundle(query_bundle)
            sources.append(source)
        consolidator.sources = tuple(sources)
        return consolidator

    def _get_prompts(self) -> PromptDictType:
        return {"instruction": PromptTemplate(self.augmenter.task.instruction)}

    def _update_prompts(self, prompts: PromptDictType) -> None:
        template = prompts.get("instruction")
        if template is None:
            return
        if not isinstance(template, PromptTemplate):
            raise InputError(
                f"instruction: expected a PromptTemplate, got {type(template).__name__}"
            )
        self.augmenter = copy.copy(self.augmenter)
        task = self.augmenter.task
        self.augmenter.task = replace(task, instruction=template.template)


def _gathered_nodes(
    query_bundle: QueryBundle, gathered_evidence: GatheredEvidence
) -> list[NodeWithScore]:
    return evidence_nodes(
        query_bundle.query_str, gathered_evidence.evidence, gathered_evidence.retrieved
    )


class _NodeListRetriever:
    """A retriever that returns fixed nodes."""

    def __init__(self, nodes: NodeSequence) -> None:
        self.passages = to_passages(nodes, include_captions=True)

    def retrieve(self, query: str) -> Sequence[Passage]:
        return self.passages

    async def aretrieve(self, query: str) -> Sequence[Passage]:
        return self.passages
