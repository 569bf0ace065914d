"""`AugmentedQueryEngine`: a query engine whose answers were checked against their sources."""

from __future__ import annotations

import copy
import inspect
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Literal, TypeAlias

from llama_index.core.base.base_query_engine import BaseQueryEngine
from llama_index.core.base.base_retriever import BaseRetriever
from llama_index.core.base.llms.types import ChatMessage
from llama_index.core.base.response.schema import RESPONSE_TYPE, PydanticResponse
from llama_index.core.callbacks import CallbackManager
from llama_index.core.callbacks.schema import CBEventType, EventPayload
from llama_index.core.llms import LLM
from llama_index.core.postprocessor.types import BaseNodePostprocessor
from llama_index.core.prompts import PromptTemplate
from llama_index.core.prompts.mixin import PromptDictType, PromptMixinType
from llama_index.core.query_engine import RetrieverQueryEngine
from llama_index.core.schema import NodeWithScore, QueryBundle
from llama_index_instrumentation import get_dispatcher

from denoise_core import Budget, DenoiseResult, InputError, Message, Passage, arun, run
from denoise_core.augmenter import Answer, Augmenter, Consolidator, LoopLimits, WorkingMemory
from denoise_core.augmenter.answer import Outcome, StopReason
from denoise_core.augmenter.finish import NO_ANSWER
from denoise_core.augmenter.traces.record import answer_record
from llamaindex_denoise.engines.base import (
    DenoiseEngine,
    Streaming,
    messages_of,
    postprocessor_modules,
    response_metadata,
)
from llamaindex_denoise.engines.drafter import EngineDrafter, aretrieve, can_retrieve
from llamaindex_denoise.engines.drafting import Asked, adrafting, drafting
from llamaindex_denoise.events import AnswerEvent
from llamaindex_denoise.loop import loop_of
from llamaindex_denoise.models.retriever import RetrieverAdapter
from llamaindex_denoise.models.settings import llm_or_settings
from llamaindex_denoise.models.threads import Threads
from llamaindex_denoise.nodes.convert import says_something, to_nodes, to_passages

dispatcher = get_dispatcher(__name__)

OnError: TypeAlias = Literal["answer", "raise"]
"""What an error gives that leaves nothing to send: an answer that says which part failed, or the error itself."""


class AugmentedQueryEngine(DenoiseEngine):
    """LLM-Augmenter as a query engine: over a retriever and a model, or around an engine you have.

    ``AugmentedQueryEngine(Augmenter(LlamaLLM(llm), RetrieverAdapter(retriever)))`` drafts with the loop's own
    prompt. ``AugmentedQueryEngine.around(engine)`` keeps the engine's retrieval, postprocessors, synthesizer
    and prompts, and adds the check, the feedback and the retry.

    ``response.metadata["denoise"]`` says how far to trust the answer (``outcome``: supported, unsupported,
    unknown, abstained or failed), why the loop stopped, and what every attempt was and cost. ``source_nodes`` are
    the nodes the answer was written from; a citation ``[n]`` names the n-th of them. Structured output comes back
    as the object it was, checked field by field. An answer that nothing can be said about is passed on as it is.

    ``on_error="raise"`` raises the error that left nothing to send; else the answer names the part that failed.

    ``streaming=True`` hands the text out once it is final: no draft that failed is shown. ``"held_back"`` shows
    each sentence when the judge passes it. ``"draft_first"`` shows the first draft as it comes, not judged yet.
    When what was shown does not stay, ``revision_notice`` and the new text follow. Sources and
    ``metadata["denoise"]`` are there when the stream has ended, and ``get_response()`` gives the answer alone.
    """

    revision_notice: str = "\n\n(The draft above did not hold. The answer:)\n\n"

    def __init__(
        self,
        augmenter: Augmenter,
        *,
        streaming: Streaming = False,
        on_error: OnError = "answer",
        callback_manager: CallbackManager | None = None,
    ) -> None:
        if not isinstance(augmenter, Augmenter):
            raise InputError(
                f"expected a denoise_core Augmenter, got {type(augmenter).__name__}; around an existing query "
                "engine use AugmentedQueryEngine.around(engine)"
            )
        if streaming not in (False, True, "draft_first", "held_back"):
            raise InputError(f"streaming={streaming!r}: expected False, True, 'draft_first' or 'held_back'")
        if on_error not in ("answer", "raise"):
            raise InputError(f"on_error={on_error!r}: expected 'answer' or 'raise'")
        super().__init__(callback_manager)
        self.augmenter = augmenter
        self.on_error = on_error
        self.streaming: Streaming = streaming
        self.query_engine: BaseQueryEngine | None = None
        self._threads = Threads(10)

    @classmethod
    def around(
        cls,
        query_engine: BaseQueryEngine,
        augmenter: Augmenter | None = None,
        *,
        judge: Any = None,
        budget: Budget | None = None,
        limits: LoopLimits | None = None,
        unsupported: Literal["send", "abstain"] | None = None,
        streaming: Streaming = False,
        on_error: OnError = "answer",
    ) -> AugmentedQueryEngine:
        """The loop around an existing engine: ``augmenter``, or one with this ``judge`` (whatever judges, a
        LlamaIndex model or evaluator too), ``budget``, ``limits`` and ``unsupported`` (see `loop_of`). A utility
        that asks a model and names none asks the augmenter's ``llm``.

        An engine without ``retrieve`` and ``synthesize`` is asked once, and what it says is judged and repaired;
        ``limits=LoopLimits(rerun=True)`` asks it again. Raises `InputError` when it is no LlamaIndex query engine.
        """
        if not isinstance(query_engine, BaseQueryEngine):
            raise InputError(
                f"expected a llama_index query engine, got {type(query_engine).__name__}; an index gives one with "
                "index.as_query_engine(llm=...)"
            )
        manager = query_engine.callback_manager
        loop = loop_of(augmenter, judge=judge, budget=budget, limits=limits, unsupported=unsupported)
        engine = cls(loop, streaming=streaming, on_error=on_error, callback_manager=manager)
        engine.query_engine = query_engine
        return engine

    @classmethod
    def from_args(
        cls,
        retriever: BaseRetriever,
        llm: LLM | None = None,
        *,
        node_postprocessors: Sequence[BaseNodePostprocessor] = (),
        augmenter: Augmenter | None = None,
        judge: Any = None,
        budget: Budget | None = None,
        limits: LoopLimits | None = None,
        unsupported: Literal["send", "abstain"] | None = None,
        streaming: Streaming = False,
        on_error: OnError = "answer",
        **settings: Any,
    ) -> AugmentedQueryEngine:
        """As LlamaIndex's ``RetrieverQueryEngine.from_args``, whose ``settings`` it takes, with answers checked as
        in `around`.

        ``llm`` is `Settings.llm` if none is given. Raises `InputError` when there is none, and for a setting that
        LlamaIndex does not name (it would leave it out in silence).
        """
        named = inspect.signature(RetrieverQueryEngine.from_args).parameters.items()
        known = [n for n, p in named if p.kind is not p.VAR_KEYWORD]
        if unknown := [n for n in settings if n not in known]:
            raise InputError(f"from_args: no setting {', '.join(unknown)}; there are {', '.join(known)}")
        loop = loop_of(augmenter, judge=judge, budget=budget, limits=limits, unsupported=unsupported)
        inner = RetrieverQueryEngine.from_args(
            retriever,
            llm=llm_or_settings(llm, of="AugmentedQueryEngine.from_args"),
            node_postprocessors=list(node_postprocessors),
            streaming=streaming in ("draft_first", "held_back"),
            **settings,
        )
        return cls.around(inner, loop, streaming=streaming, on_error=on_error)

    def answer(self, question: str, history: Sequence[ChatMessage | Message] = ()) -> Answer:
        """The loop's own `Answer`, with the trace that can be recorded, replayed and learnt from."""
        return self.asked(QueryBundle(question), None, None, history).answer()

    async def aanswer(self, question: str, history: Sequence[ChatMessage | Message] = ()) -> Answer:
        """`answer` for async."""
        return await self.asked(QueryBundle(question), None, None, history).aanswer()

    def _query(self, query_bundle: QueryBundle) -> RESPONSE_TYPE:
        return self._answer(self.asked(query_bundle))

    async def _aquery(self, query_bundle: QueryBundle) -> RESPONSE_TYPE:
        return await self._aanswer(self.asked(query_bundle))

    def retrieve(self, query_bundle: QueryBundle) -> list[NodeWithScore]:
        """What the loop's first search would show the model."""
        if self.query_engine is not None:
            return self.query_engine.retrieve(query_bundle)
        memory = WorkingMemory(query_bundle.query_str)
        found, _ = run(self._searching(query_bundle).gather(memory), budget=self.augmenter.budget)
        return _evidence_nodes(memory.question, found.evidence, found.retrieved)

    async def aretrieve(self, query_bundle: QueryBundle) -> list[NodeWithScore]:
        """As ``retrieve``, without blocking the event loop."""
        if self.query_engine is not None:
            return await aretrieve(self.query_engine, query_bundle, self._threads)
        memory = WorkingMemory(query_bundle.query_str)
        found, _ = await arun(self._searching(query_bundle).gather(memory), budget=self.augmenter.budget)
        return _evidence_nodes(memory.question, found.evidence, found.retrieved)

    def synthesize(
        self,
        query_bundle: QueryBundle,
        nodes: list[NodeWithScore],
        additional_source_nodes: Sequence[NodeWithScore] | None = None,
    ) -> RESPONSE_TYPE:
        """A checked answer from the given nodes alone; nothing is searched for."""
        return self._answer(self.asked(query_bundle, nodes, additional_source_nodes))

    async def asynthesize(
        self,
        query_bundle: QueryBundle,
        nodes: list[NodeWithScore],
        additional_source_nodes: Sequence[NodeWithScore] | None = None,
    ) -> RESPONSE_TYPE:
        """As ``synthesize``, without blocking the event loop."""
        return await self._aanswer(self.asked(query_bundle, nodes, additional_source_nodes))

    def asked(
        self,
        query: QueryBundle,
        nodes: Sequence[NodeWithScore] | None = None,
        additional: Sequence[NodeWithScore] | None = None,
        history: Sequence[ChatMessage | Message] = (),
    ) -> Asked:
        """One question, with who searches and drafts for it."""
        given = None if nodes is None else list(nodes)
        said = messages_of(history)
        if self.query_engine is not None:
            if given is not None and not can_retrieve(self.query_engine):
                raise NotImplementedError(
                    f"{type(self.query_engine).__name__} does not support synthesize; use query"
                )
            drafter = EngineDrafter(self.query_engine, self._threads, query, given)
            return Asked(self.augmenter, query.query_str, said, drafter, extra=list(additional or ()))
        loop = copy.copy(self.augmenter)
        if given is None:
            loop.consolidator = self._searching(query)
            return Asked(loop, query.query_str, said, extra=list(additional or ()))
        loop.consolidator = Consolidator(_Given(given), denoiser=self.augmenter.consolidator.denoiser)
        without_text = [n for n in given if not says_something(n.node)]
        return Asked(loop, query.query_str, said, extra=[*without_text, *(additional or ())])

    def _searching(self, query: QueryBundle) -> Consolidator:
        """The loop's consolidator, whose LlamaIndex retrievers are asked the question with the whole bundle."""
        searching = copy.copy(self.augmenter.consolidator)
        searching.sources = tuple(
            s.asking(query) if isinstance(s, RetrieverAdapter) else s for s in searching.sources
        )
        return searching

    def _answer(self, asked: Asked) -> RESPONSE_TYPE:
        payload: dict[str, Any] = {EventPayload.QUERY_STR: asked.question}
        with self.callback_manager.event(CBEventType.QUERY, payload=payload) as event:
            if self.streaming in ("draft_first", "held_back"):
                response: RESPONSE_TYPE = drafting(asked, self)
            else:
                response = self._finished(*self.told(asked.answer(), asked))
            event.on_end(payload={EventPayload.RESPONSE: response})
        return response

    async def _aanswer(self, asked: Asked) -> RESPONSE_TYPE:
        payload: dict[str, Any] = {EventPayload.QUERY_STR: asked.question}
        with self.callback_manager.event(CBEventType.QUERY, payload=payload) as event:
            if self.streaming in ("draft_first", "held_back"):
                response: RESPONSE_TYPE = adrafting(asked, self)
            else:
                response = self._afinished(*self.told(await asked.aanswer(), asked))
            event.on_end(payload={EventPayload.RESPONSE: response})
        return response

    def told(self, answer: Answer, asked: Asked) -> tuple[Any, list[NodeWithScore], dict[str, Any]]:
        """Text (or the object, where the engine gives one), sources and metadata of the response."""
        note = answer_record(answer)
        text = answer.text
        if isinstance(asked.drafter, EngineDrafter):
            text = asked.drafter.shown(text)
        best = answer.best
        if isinstance(asked.drafter, EngineDrafter) and asked.drafter.silent:
            text = ""  # the engine gives sources alone, and nothing was claimed
            note.update(outcome="unknown", stopped_because="unjudged")
        elif answer.outcome is Outcome.FAILED and (failed := _failed(answer, asked)) is not None:
            part, error = failed
            if self.on_error == "raise":
                raise error if isinstance(error, Exception) else RuntimeError(f"{part} failed: {error}")
            name = type(error).__name__ if isinstance(error, Exception) else error.partition(":")[0]
            note["failed"] = {"part": part, "error": name}
            text = NO_ANSWER.format(why=f"{part} failed ({name})")
        dispatcher.event(AnswerEvent(record=note))
        drafted = best.origin if best else None
        if drafted is not None and hasattr(drafted, "source_nodes"):
            nodes = [*drafted.source_nodes, *asked.extra]
            metadata = {**(drafted.metadata or {}), **response_metadata(nodes, note)}
            whole = drafted.response if isinstance(drafted, PydanticResponse) else text
            return whole, nodes, metadata
        evidence = best.evidence if best else answer.memory.evidence
        nodes = _evidence_nodes(answer.memory.question, evidence, answer.memory.retrieved)
        nodes += asked.extra
        return text, nodes, response_metadata(nodes, note)

    def _get_prompts(self) -> PromptDictType:
        return {} if self.query_engine else {"instruction": PromptTemplate(self.augmenter.task.instruction)}

    def _update_prompts(self, prompts: PromptDictType) -> None:
        template = prompts.get("instruction")
        if template is None:
            return
        if not isinstance(template, PromptTemplate):
            raise InputError(f"instruction: expected a PromptTemplate, got {type(template).__name__}")
        changed = copy.copy(self.augmenter)
        changed.task = replace(changed.task, instruction=template.template)
        self.augmenter = changed

    def _get_prompt_modules(self) -> PromptMixinType:
        if self.query_engine is None:
            return {}
        postprocessors = getattr(self.query_engine, "_node_postprocessors", ())
        return {"query_engine": self.query_engine, **postprocessor_modules(postprocessors)}


def _failed(answer: Answer, asked: Asked) -> tuple[str, Exception | str] | None:
    """The part that left a run without an answer, and its error, of a loop of our own what the record says of it;
    None where nothing failed (a spent budget)."""
    if answer.stopped_because not in (StopReason.LLM_ERROR, StopReason.RETRIEVER_ERROR):
        return None
    if isinstance(asked.drafter, EngineDrafter) and asked.drafter.failed is not None:
        return asked.drafter.failed
    part = "the model" if answer.stopped_because is StopReason.LLM_ERROR else "the retriever"
    why = answer.memory.failures[-1][1] if answer.memory.failures else "no reason was noted"
    return part, why


class _Given:
    """A retriever that finds what it was given."""

    def __init__(self, nodes: Sequence[NodeWithScore]) -> None:
        self.passages = to_passages(nodes, captions=True)

    def retrieve(self, query: str) -> Sequence[Passage]:
        return self.passages

    async def aretrieve(self, query: str) -> Sequence[Passage]:
        return self.passages


def _evidence_nodes(
    question: str, evidence: Sequence[Passage], retrieved: Sequence[Passage]
) -> list[NodeWithScore]:
    return to_nodes(retrieved, DenoiseResult(question, tuple(evidence)), by="Augmenter")
