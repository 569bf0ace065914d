"""Query engines whose answers are checked against their sources: over a retriever, or around another engine."""

from __future__ import annotations

import copy
import itertools
from collections.abc import AsyncGenerator, Generator, Iterator, Sequence
from contextlib import aclosing
from dataclasses import replace
from typing import Any

from llama_index.core.base.base_query_engine import BaseQueryEngine
from llama_index.core.base.base_retriever import BaseRetriever
from llama_index.core.base.llms.types import ChatMessage
from llama_index.core.base.response.schema import RESPONSE_TYPE
from llama_index.core.callbacks import CallbackManager
from llama_index.core.llms import LLM
from llama_index.core.postprocessor.types import BaseNodePostprocessor
from llama_index.core.prompts import PromptTemplate
from llama_index.core.prompts.mixin import PromptDictType, PromptMixinType
from llama_index.core.schema import NodeWithScore, QueryBundle

from denoise_core import Budget, InputError, Message, Passage, arun, run
from denoise_core.augmenter import (
    Answer,
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
    DenoiseEngine,
    DraftResponse,
    NodeSequence,
    StreamingMode,
    history_to_messages,
    postprocessor_modules,
    split_words,
)
from llamaindex_denoise.engines.drafter import (
    EngineDrafter,
    aretrieve_nodes,
    has_own_retrieval,
)
from llamaindex_denoise.models.llm import LlamaLLM, resolve_model
from llamaindex_denoise.models.retriever import LlamaRetriever
from llamaindex_denoise.nodes.convert import can_be_evidence, to_passages
from llamaindex_denoise.verify import (
    EngineLoopRun,
    ErrorPolicy,
    UnsupportedPolicy,
    build_augmenter,
    evidence_nodes,
)


class VerifiedEngine(DenoiseEngine):
    """What `AugmentedQueryEngine` and the engine that `Checked` gives share: an answer is a run of the loop.

    ``response.metadata["denoise"]`` says how far to trust the answer (``outcome``: supported, unsupported,
    unknown, abstained or failed), why the loop stopped, and what every attempt was and cost. ``source_nodes`` are
    the nodes the answer was written from; a citation ``[n]`` names the n-th of them. Structured output comes back
    as the object it was, checked field by field. An answer that nothing can be said about is passed on as it is.

    ``on_error="raise"`` raises the error that left nothing to send; else the answer names the part that failed.

    ``streaming="checked"`` (or True) hands the text out once it is judged, ``"draft"`` the first draft as it
    comes, not judged yet. When the answer is another text than the draft, ``revision_notice`` and the new text
    follow; ``get_response()`` gives the answer alone.
    """

    revision_notice: str = "\n\n(The draft above did not hold. The answer:)\n\n"

    def __init__(
        self,
        augmenter: Augmenter,
        *,
        streaming: StreamingMode = False,
        on_error: ErrorPolicy = "answer",
        callback_manager: CallbackManager | None = None,
    ) -> None:
        if not isinstance(augmenter, Augmenter):
            raise InputError(
                f"expected a denoise_core Augmenter, got {type(augmenter).__name__}; around an existing query "
                "engine use Checked(engine)"
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

    def answer(
        self, question: str, history: Sequence[ChatMessage | Message] = ()
    ) -> Answer:
        """The loop's own `Answer`, with the trace that can be recorded, replayed and learnt from."""
        return replace(
            self._loop_run(QueryBundle(question)), history=history_to_messages(history)
        ).answer()

    async def aanswer(
        self, question: str, history: Sequence[ChatMessage | Message] = ()
    ) -> Answer:
        return await replace(
            self._loop_run(QueryBundle(question)), history=history_to_messages(history)
        ).aanswer()

    def synthesize(
        self,
        query_bundle: QueryBundle,
        nodes: list[NodeWithScore],
        additional_source_nodes: NodeSequence | None = None,
    ) -> RESPONSE_TYPE:
        """A checked answer from the given nodes alone; nothing is searched for."""
        return self._answer(
            self._loop_run(query_bundle, nodes, additional_source_nodes or ())
        )

    async def asynthesize(
        self,
        query_bundle: QueryBundle,
        nodes: list[NodeWithScore],
        additional_source_nodes: NodeSequence | None = None,
    ) -> RESPONSE_TYPE:
        return await self._aanswer(
            self._loop_run(query_bundle, nodes, additional_source_nodes or ())
        )

    def _loop_run(
        self,
        query: QueryBundle,
        nodes: NodeSequence | None = None,
        additional: NodeSequence = (),
    ) -> EngineLoopRun:
        """One question, with who searches and drafts for it."""
        raise NotImplementedError

    def _query(self, query_bundle: QueryBundle) -> RESPONSE_TYPE:
        return self._answer(self._loop_run(query_bundle))

    async def _aquery(self, query_bundle: QueryBundle) -> RESPONSE_TYPE:
        return await self._aanswer(self._loop_run(query_bundle))

    def _answer(self, asked: EngineLoopRun) -> RESPONSE_TYPE:
        if self.streaming == "draft":
            return _drafting(asked, self)
        return self._build_response(*asked.run_to_response())

    async def _aanswer(self, asked: EngineLoopRun) -> RESPONSE_TYPE:
        if self.streaming == "draft":
            return _adrafting(asked, self)
        return self._build_response(*await asked.arun_to_response(), later=True)


def _drafting(asked: EngineLoopRun, engine: VerifiedEngine) -> DraftResponse:
    """Returns when the draft begins; what fails before that is raised here."""
    events = iter(
        stream_verified(
            asked.augmenter, asked.question, asked.history, drafter=asked.drafter
        )
    )
    first = next(events)

    def shown() -> Generator[str, None, None]:
        for event in itertools.chain([first], events):
            yield from _show(event, response, asked, engine)

    response = DraftResponse(shown())
    return response


def _adrafting(asked: EngineLoopRun, engine: VerifiedEngine) -> AsyncDraftResponse:
    """`_drafting` for async: begins, and raises what fails, when the response is read."""

    async def shown() -> AsyncGenerator[str, None]:
        run = stream_verified(
            asked.augmenter, asked.question, asked.history, drafter=asked.drafter
        )
        async with aclosing(aiter(run)) as events:  # a reader that leaves ends the run
            async for event in events:
                for piece in _show(event, response, asked, engine):
                    yield piece

    response = AsyncDraftResponse(shown())
    return response


def _show(
    event: StreamEvent,
    response: DraftResponse | AsyncDraftResponse,
    asked: EngineLoopRun,
    engine: VerifiedEngine,
) -> Iterator[str]:
    """What the reader sees of an event; the last one settles the response."""
    if isinstance(event, TextReleased):
        yield event.text
    elif isinstance(event, (Finished, Revised)):
        text, nodes, metadata = asked.response_parts(event.answer)
        response.set_answer(str(text), nodes, metadata)
        if isinstance(event, Revised):
            yield engine.revision_notice
            yield from split_words(str(text))


class CheckedQueryEngine(VerifiedEngine):
    """`Checked` of a query engine, whose retrieval, postprocessors, synthesizer and prompts it keeps. One without
    ``retrieve`` and ``synthesize`` is asked once, judged; ``LoopLimits(rerun=True)`` asks it again.
    """

    def __init__(
        self, query_engine: BaseQueryEngine, augmenter: Augmenter, **settings: Any
    ) -> None:
        super().__init__(
            augmenter, callback_manager=query_engine.callback_manager, **settings
        )
        self.query_engine = query_engine

    def retrieve(self, query_bundle: QueryBundle) -> list[NodeWithScore]:
        """What the engine itself retrieves."""
        return self.query_engine.retrieve(query_bundle)

    async def aretrieve(self, query_bundle: QueryBundle) -> list[NodeWithScore]:
        return await aretrieve_nodes(self.query_engine, query_bundle)

    def _asked(
        self,
        query: QueryBundle,
        nodes: NodeSequence | None = None,
        additional: NodeSequence = (),
    ) -> EngineLoopRun:
        if nodes is not None and not has_own_retrieval(self.query_engine):
            raise NotImplementedError(
                f"{type(self.query_engine).__name__} does not support synthesize; use query"
            )
        drafter = EngineDrafter(self.query_engine, query, nodes)
        return EngineLoopRun(
            self.augmenter,
            query.query_str,
            drafter,
            (),
            list(additional),
            self.on_error,
        )

    def _get_prompt_modules(self) -> PromptMixinType:
        postprocessors = getattr(self.query_engine, "_node_postprocessors", ())
        return {
            "query_engine": self.query_engine,
            **postprocessor_modules(postprocessors),
        }


class AugmentedQueryEngine(VerifiedEngine):
    """LLM-Augmenter as a query engine, over a retriever and a model; it drafts with the loop's own prompt.

    ``AugmentedQueryEngine.from_args(retriever, llm=llm)``, or with an `Augmenter` of yours, whose model is a
    `LlamaLLM` and whose retriever a `RetrieverAdapter`. Around an engine that you have: `Checked`.
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
        on_error: ErrorPolicy = "answer",
    ) -> AugmentedQueryEngine:
        """Over ``retriever``, whose nodes go through ``node_postprocessors``; the rest is as in `Checked`.

        ``llm`` is `Settings.llm` if none is given. Raises `InputError` when there is none.
        """
        model = LlamaLLM(
            resolve_model("llm", llm, caller="AugmentedQueryEngine.from_args")
        )
        search = LlamaRetriever(retriever, node_postprocessors)
        loop = build_augmenter(
            judge, budget, limits, unsupported, llm=model, retriever=search
        )
        return cls(loop, streaming=streaming, on_error=on_error)

    def retrieve(self, query_bundle: QueryBundle) -> list[NodeWithScore]:
        """What the loop's first search would show the model."""
        found, _ = run(self._gathering(query_bundle), budget=self.augmenter.budget)
        return evidence_nodes(query_bundle.query_str, found.evidence, found.retrieved)

    async def aretrieve(self, query_bundle: QueryBundle) -> list[NodeWithScore]:
        found, _ = await arun(
            self._gathering(query_bundle), budget=self.augmenter.budget
        )
        return evidence_nodes(query_bundle.query_str, found.evidence, found.retrieved)

    def _gathering(self, query: QueryBundle) -> Flow[GatheredEvidence]:
        return self._searching(query).gather(WorkingMemory(query.query_str))

    def _asked(
        self,
        query: QueryBundle,
        nodes: NodeSequence | None = None,
        additional: NodeSequence = (),
    ) -> EngineLoopRun:
        loop, extra = copy.copy(self.augmenter), list(additional)
        if nodes is None:
            loop.consolidator = self._searching(query)
        else:
            loop.consolidator = Consolidator(
                _Given(nodes), denoiser=self.augmenter.consolidator.denoiser
            )
            extra = [*(n for n in nodes if not can_be_evidence(n.node)), *extra]
        return EngineLoopRun(loop, query.query_str, None, (), extra, self.on_error)

    def _searching(self, query: QueryBundle) -> Consolidator:
        """The loop's consolidator, whose LlamaIndex retrievers are asked the question with the whole bundle."""
        searching = copy.copy(self.augmenter.consolidator)
        searching.sources = tuple(
            s.with_query_bundle(query) if isinstance(s, LlamaRetriever) else s
            for s in searching.sources
        )
        return searching

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
        changed = copy.copy(self.augmenter)
        changed.task = replace(changed.task, instruction=template.template)
        self.augmenter = changed

    def _get_prompt_modules(self) -> PromptMixinType:
        sources = self.augmenter.consolidator.sources
        return postprocessor_modules(
            [
                p
                for s in sources
                if isinstance(s, LlamaRetriever)
                for p in s.postprocessors
            ]
        )


class _Given:
    """A retriever that finds what it was given."""

    def __init__(self, nodes: Sequence[NodeWithScore]) -> None:
        self.passages = to_passages(nodes, include_captions=True)

    def retrieve(self, query: str) -> Sequence[Passage]:
        return self.passages

    async def aretrieve(self, query: str) -> Sequence[Passage]:
        return self.passages
