"""`AugmentedQueryEngine`: a query engine whose answers were checked against their sources."""

from __future__ import annotations

import itertools
from collections.abc import AsyncGenerator, Generator, Iterator, Sequence
from contextlib import aclosing
from dataclasses import replace
from typing import Any, TypeAlias, cast

from llama_index.core.base.base_query_engine import BaseQueryEngine
from llama_index.core.base.response.schema import RESPONSE_TYPE
from llama_index.core.callbacks import CallbackManager
from llama_index.core.callbacks.schema import CBEventType, EventPayload
from llama_index.core.prompts import PromptTemplate
from llama_index.core.prompts.mixin import PromptDictType, PromptMixinType
from llama_index.core.schema import NodeWithScore, QueryBundle
from llama_index_instrumentation import get_dispatcher

from denoise_core import Budget, DenoiseResult, InputError, Passage, arun, run
from denoise_core.augmenter import (
    Answer,
    Augmenter,
    Feedback,
    LoopLimits,
    Policy,
    Rules,
    Utility,
    WorkingMemory,
)
from denoise_core.augmenter.streaming import (
    Finished,
    Revised,
    StreamEvent,
    Text,
    adraft_first,
    draft_first,
)
from denoise_core.augmenter.traces.record import answer_record
from llamaindex_denoise.engines.base import (
    AsyncDraftResponse,
    DenoiseEngine,
    DraftResponse,
    Streaming,
    pieces_of,
    postprocessor_modules,
    response_metadata,
)
from llamaindex_denoise.engines.session import EngineSession, aretrieve, can_retrieve
from llamaindex_denoise.events import AnswerEvent
from llamaindex_denoise.models.threads import Threads
from llamaindex_denoise.nodes.convert import says_something, to_nodes, to_passages

dispatcher = get_dispatcher(__name__)

_Session: TypeAlias = "EngineSession | _Given | None"
"""Who searches and drafts for one run; None when the augmenter does."""


class AugmentedQueryEngine(DenoiseEngine):
    """LLM-Augmenter as a query engine: over a retriever and a model, or around an engine you have.

    ``AugmentedQueryEngine(Augmenter(LlamaLLM(llm), RetrieverAdapter(retriever)))`` drafts with the loop's own
    prompt. ``AugmentedQueryEngine.around(engine)`` keeps the engine's retrieval, postprocessors, synthesizer
    and prompts, and adds the check, the feedback and the retry.

    ``response.metadata["denoise"]`` says how far to trust the answer (``outcome``: verified, unverified,
    abstained or refused), why the loop stopped, and what every attempt was and cost. ``source_nodes`` are the
    nodes the answer was written from; a citation ``[n]`` names the n-th of them.

    ``streaming=True`` hands the text out once it is final: no draft that failed is ever shown.
    ``streaming="draft_first"`` shows the first draft as it is written, unverified; when the answer turns out to
    be another text, ``revision_notice`` and that text follow. Sources and ``metadata["denoise"]`` are there when
    the stream has ended, and ``get_response()`` gives the answer alone.
    """

    revision_notice = "\n\n(The draft above did not hold. The answer:)\n\n"

    def __init__(
        self,
        augmenter: Augmenter,
        *,
        streaming: Streaming = False,
        callback_manager: CallbackManager | None = None,
    ) -> None:
        if not isinstance(augmenter, Augmenter):
            raise InputError(
                f"expected a denoise_core Augmenter, got {type(augmenter).__name__}; around an existing query "
                "engine use AugmentedQueryEngine.around(engine)"
            )
        if streaming not in (False, True, "draft_first"):
            raise InputError(f"streaming={streaming!r}: expected False, True or 'draft_first'")
        super().__init__(callback_manager)
        self.augmenter = augmenter
        self.streaming = streaming
        self.query_engine: BaseQueryEngine | None = None
        self._threads = Threads(10)

    @classmethod
    def around(
        cls,
        query_engine: BaseQueryEngine,
        *,
        utility: Utility | None = None,
        policy: Policy | None = None,
        feedback: Feedback | None = None,
        budget: Budget | None = None,
        limits: LoopLimits | None = None,
    ) -> AugmentedQueryEngine:
        """The loop around an existing engine. A utility that asks a model needs one of its own.

        Raises `InputError` when ``query_engine`` is not a LlamaIndex query engine.
        """
        if not isinstance(query_engine, BaseQueryEngine):
            raise InputError(f"expected a llama_index query engine, got {type(query_engine).__name__}")
        settings = Augmenter(
            _NoModel(),
            _Given(()),
            utility=utility,
            policy=policy
            or Rules(widen=False),  # the engine has one way to search: asking it again finds the same
            feedback=feedback,
            budget=budget,
            limits=limits,
        )
        engine = cls(settings, callback_manager=query_engine.callback_manager)
        engine.query_engine = query_engine
        return engine

    def _query(self, query_bundle: QueryBundle) -> RESPONSE_TYPE:
        return self._answer(query_bundle, self._session(None))

    async def _aquery(self, query_bundle: QueryBundle) -> RESPONSE_TYPE:
        return await self._aanswer(query_bundle, self._session(None))

    def retrieve(self, query_bundle: QueryBundle) -> list[NodeWithScore]:
        """What the loop's first search would show the model."""
        if self.query_engine is not None:
            return self.query_engine.retrieve(query_bundle)
        memory = WorkingMemory(query_bundle.query_str)
        found, _ = run(self.augmenter.consolidator.gather(memory), budget=self.augmenter.budget)
        return _evidence_nodes(memory.question, found.evidence, found.retrieved)

    async def aretrieve(self, query_bundle: QueryBundle) -> list[NodeWithScore]:
        if self.query_engine is not None:
            return await aretrieve(self.query_engine, query_bundle, self._threads)
        memory = WorkingMemory(query_bundle.query_str)
        found, _ = await arun(self.augmenter.consolidator.gather(memory), budget=self.augmenter.budget)
        return _evidence_nodes(memory.question, found.evidence, found.retrieved)

    def synthesize(
        self,
        query_bundle: QueryBundle,
        nodes: list[NodeWithScore],
        additional_source_nodes: Sequence[NodeWithScore] | None = None,
    ) -> RESPONSE_TYPE:
        """A checked answer from the given nodes alone; nothing is searched for."""
        return self._answer(query_bundle, self._session(nodes), additional_source_nodes)

    async def asynthesize(
        self,
        query_bundle: QueryBundle,
        nodes: list[NodeWithScore],
        additional_source_nodes: Sequence[NodeWithScore] | None = None,
    ) -> RESPONSE_TYPE:
        return await self._aanswer(query_bundle, self._session(nodes), additional_source_nodes)

    def _session(self, nodes: Sequence[NodeWithScore] | None) -> _Session:
        if self.query_engine is None:
            return None if nodes is None else _Given(nodes)
        if nodes is not None and not can_retrieve(self.query_engine):
            raise NotImplementedError(f"{type(self.query_engine).__name__} does not support synthesize; use query")
        return EngineSession(self.query_engine, self.augmenter, self._threads, nodes)

    def _loop(self, session: _Session) -> Augmenter:
        if isinstance(session, EngineSession):
            return session.augmenter()
        a = self.augmenter
        if session is None:
            return a
        return Augmenter(
            a.llm,
            session,
            denoiser=a.consolidator.denoiser,
            utility=a.utility,
            policy=a.policy,
            feedback=a.feedback,
            budget=a.budget,
            limits=a.limits,
            task=a.task,
        )

    def _answer(
        self,
        query: QueryBundle,
        session: _Session,
        additional: Sequence[NodeWithScore] | None = None,
    ) -> RESPONSE_TYPE:
        payload: dict[str, Any] = {EventPayload.QUERY_STR: query.query_str}
        with self.callback_manager.event(CBEventType.QUERY, payload=payload) as event:
            if self.streaming == "draft_first":
                response: RESPONSE_TYPE = self._drafting(query, session, additional)
            else:
                answer = self._loop(session).answer(query.query_str)
                response = self._finished(*self._told(answer, session, additional))
            event.on_end(payload={EventPayload.RESPONSE: response})
        return response

    async def _aanswer(
        self,
        query: QueryBundle,
        session: _Session,
        additional: Sequence[NodeWithScore] | None = None,
    ) -> RESPONSE_TYPE:
        payload: dict[str, Any] = {EventPayload.QUERY_STR: query.query_str}
        with self.callback_manager.event(CBEventType.QUERY, payload=payload) as event:
            if self.streaming == "draft_first":
                response: RESPONSE_TYPE = await self._adrafting(query, session, additional)
            else:
                answer = await self._loop(session).aanswer(query.query_str)
                response = self._afinished(*self._told(answer, session, additional))
            event.on_end(payload={EventPayload.RESPONSE: response})
        return response

    def _drafting(
        self,
        query: QueryBundle,
        session: _Session,
        additional: Sequence[NodeWithScore] | None,
    ) -> DraftResponse:
        """Returns when the draft begins; what fails before that is raised here."""
        events = draft_first(self._loop(session), query.query_str)
        first = next(events)

        def shown() -> Generator[str, None, None]:
            for event in itertools.chain([first], events):
                yield from self._show(event, response, session, additional)

        response = DraftResponse(shown())
        return response

    async def _adrafting(
        self,
        query: QueryBundle,
        session: _Session,
        additional: Sequence[NodeWithScore] | None,
    ) -> AsyncDraftResponse:
        run = adraft_first(self._loop(session), query.query_str)
        events = cast("AsyncGenerator[StreamEvent, None]", run)
        first = await anext(events)

        async def shown() -> AsyncGenerator[str, None]:
            async with aclosing(events):  # a reader that leaves ends the run
                for piece in self._show(first, response, session, additional):
                    yield piece
                async for event in events:
                    for piece in self._show(event, response, session, additional):
                        yield piece

        response = AsyncDraftResponse(shown())
        return response

    def _show(
        self,
        event: StreamEvent,
        response: DraftResponse | AsyncDraftResponse,
        session: _Session,
        additional: Sequence[NodeWithScore] | None,
    ) -> Iterator[str]:
        """What the reader sees of an event; the last one settles the response."""
        if isinstance(event, Text):
            yield event.text
        elif isinstance(event, (Finished, Revised)):
            response.settle(*self._told(event.answer, session, additional))
            if isinstance(event, Revised):
                yield self.revision_notice
                yield from pieces_of(event.answer.text)

    def _told(
        self,
        answer: Answer,
        session: _Session,
        additional: Sequence[NodeWithScore] | None,
    ) -> tuple[str, list[NodeWithScore], dict[str, Any]]:
        """Text, sources and metadata of the response."""
        note = answer_record(answer)
        dispatcher.event(AnswerEvent(record=note))
        drafted = session.responses.get(answer.text) if isinstance(session, EngineSession) else None
        if drafted is not None:
            nodes = [*drafted.source_nodes, *(additional or ())]
            metadata = {**(drafted.metadata or {}), **response_metadata(nodes, note)}
            return answer.text, nodes, metadata
        best = answer.memory.best
        evidence = best.evidence if best else answer.memory.evidence
        nodes = _evidence_nodes(answer.memory.question, evidence, answer.memory.retrieved)
        if isinstance(session, _Given):
            nodes += session.without_text
        nodes += additional or ()
        return answer.text, nodes, response_metadata(nodes, note)

    def _get_prompts(self) -> PromptDictType:
        return {} if self.query_engine else {"instruction": PromptTemplate(self.augmenter.task.instruction)}

    def _update_prompts(self, prompts: PromptDictType) -> None:
        template = prompts.get("instruction")
        if template is None:
            return
        if not isinstance(template, PromptTemplate):
            raise InputError(f"instruction: expected a PromptTemplate, got {type(template).__name__}")
        a = self.augmenter
        self.augmenter = Augmenter(
            a.llm,
            a.consolidator,
            utility=a.utility,
            policy=a.policy,
            feedback=a.feedback,
            budget=a.budget,
            limits=a.limits,
            task=replace(a.task, instruction=template.template),
        )

    def _get_prompt_modules(self) -> PromptMixinType:
        if self.query_engine is None:
            return {}
        postprocessors = getattr(self.query_engine, "_node_postprocessors", ())
        return {"query_engine": self.query_engine, **postprocessor_modules(postprocessors)}


class _Given:
    """A retriever that finds what it was given; nodes without text stay aside."""

    def __init__(self, nodes: Sequence[NodeWithScore]) -> None:
        self.passages = to_passages(nodes, captions=True)
        self.without_text = [n for n in nodes if not says_something(n.node)]

    def retrieve(self, query: str) -> Sequence[Passage]:
        return self.passages

    async def aretrieve(self, query: str) -> Sequence[Passage]:
        return self.passages


class _NoModel:
    """Stands where a session puts the engine; is never asked."""

    def complete(self, messages: object) -> Any:
        raise NotImplementedError("a session drafts")

    async def acomplete(self, messages: object) -> Any:
        raise NotImplementedError("a session drafts")


def _evidence_nodes(
    question: str, evidence: Sequence[Passage], retrieved: Sequence[Passage]
) -> list[NodeWithScore]:
    return to_nodes(retrieved, DenoiseResult(question, tuple(evidence)), by="Augmenter")
