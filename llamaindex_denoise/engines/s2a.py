"""`S2AQueryEngine`: System 2 Attention as a query engine; the answering model never sees what was left out."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from llama_index.core.base.base_retriever import BaseRetriever
from llama_index.core.base.response.schema import RESPONSE_TYPE
from llama_index.core.callbacks import CallbackManager
from llama_index.core.llms import LLM
from llama_index.core.postprocessor.types import BaseNodePostprocessor
from llama_index.core.prompts.mixin import PromptDictType, PromptMixinType
from llama_index.core.schema import NodeWithScore, QueryBundle
from llama_index_instrumentation import get_dispatcher

from denoise_core import Guard, InputError
from denoise_core.s2a import S2A, S2AAnswer
from llamaindex_denoise.engines.base import (
    DenoiseEngine,
    NodeSequence,
    denoiser_prompts,
    postprocessor_modules,
    prompt_to_template,
    replace_prompt,
    response_metadata,
    with_prompts,
)
from llamaindex_denoise.engines.drafter import EMPTY_RESPONSE
from llamaindex_denoise.events import DenoiseEvent
from llamaindex_denoise.models.llm import LlamaLLM, resolve_model
from llamaindex_denoise.models.retriever import LlamaRetriever
from llamaindex_denoise.nodes.convert import NodeBatch

dispatcher = get_dispatcher(__name__)


class S2AQueryEngine(DenoiseEngine):
    """Retrieve, have the model clear the context of noise and opinion, answer from what is left.

    ``S2AQueryEngine(S2A(LlamaLLM(llm)), retriever)``. ``node_postprocessors`` run between search and S2A.
    ``source_nodes`` are the nodes as they were answered from, with the user's ids and the record of their
    origin; ``response.metadata["denoise"]`` holds the question that was answered (S2A may have made it
    neutral), what was kept and dropped, and the cost. Without any retrieved text no model is asked.
    """

    def __init__(
        self,
        s2a: S2A,
        retriever: BaseRetriever,
        *,
        node_postprocessors: Sequence[BaseNodePostprocessor] = (),
        streaming: bool = False,
        callback_manager: CallbackManager | None = None,
    ) -> None:
        if not isinstance(s2a, S2A):
            raise InputError(
                f"expected a denoise_core S2A, got {type(s2a).__name__}; write S2A(LlamaLLM(llm))"
            )
        search = LlamaRetriever(retriever, node_postprocessors)
        super().__init__(callback_manager)
        self.s2a = s2a
        self.streaming = streaming
        self._search = search
        for postprocessor in search.postprocessors:
            postprocessor.callback_manager = self.callback_manager

    @classmethod
    def from_args(
        cls,
        retriever: BaseRetriever,
        llm: LLM | None = None,
        *,
        node_postprocessors: Sequence[BaseNodePostprocessor] = (),
        streaming: bool = False,
        **settings: Any,
    ) -> S2AQueryEngine:
        """With a LlamaIndex model, `Settings.llm` if none is given; ``settings`` are `S2ADenoiser`'s.

        Raises `InputError` when there is no model.
        """
        model = LlamaLLM(resolve_model("llm", llm, caller="S2AQueryEngine.from_args"))
        return cls(
            S2A(model, **settings),
            retriever,
            node_postprocessors=node_postprocessors,
            streaming=streaming,
        )

    def retrieve(self, query_bundle: QueryBundle) -> list[NodeWithScore]:
        """The retriever's nodes after the engine's postprocessors."""
        return self._search.retrieve_nodes(query_bundle)

    async def aretrieve(self, query_bundle: QueryBundle) -> list[NodeWithScore]:
        return await self._search.aretrieve_nodes(query_bundle)

    def synthesize(
        self,
        query_bundle: QueryBundle,
        nodes: list[NodeWithScore],
        additional_source_nodes: NodeSequence | None = None,
    ) -> RESPONSE_TYPE:
        """An answer from what S2A leaves of the nodes; its sources are the cleared text."""
        read = self._readable(nodes)
        answer = (
            self.s2a.answer(query_bundle.query_str, read.passages)
            if read.has_text
            else None
        )
        return self._build_response(*self._told(answer, read, additional_source_nodes))

    async def asynthesize(
        self,
        query_bundle: QueryBundle,
        nodes: list[NodeWithScore],
        additional_source_nodes: NodeSequence | None = None,
    ) -> RESPONSE_TYPE:
        """As ``synthesize``, without blocking the event loop."""
        read = self._readable(nodes)
        answer = (
            await self.s2a.aanswer(query_bundle.query_str, read.passages)
            if read.has_text
            else None
        )
        return self._build_response(
            *self._told(answer, read, additional_source_nodes), later=True
        )

    def _readable(self, nodes: Sequence[NodeWithScore]) -> NodeBatch:
        return NodeBatch(
            nodes, Guard(self.s2a.denoiser, on_error=self.s2a.denoiser.on_error)
        )

    def _query(self, query_bundle: QueryBundle) -> RESPONSE_TYPE:
        return self.synthesize(query_bundle, self.retrieve(query_bundle))

    async def _aquery(self, query_bundle: QueryBundle) -> RESPONSE_TYPE:
        return await self.asynthesize(query_bundle, await self.aretrieve(query_bundle))

    def _told(
        self,
        answer: S2AAnswer | None,
        read: NodeBatch,
        additional: Sequence[NodeWithScore] | None,
    ) -> tuple[str, list[NodeWithScore], dict[str, Any]]:
        """Text, sources and metadata of the response."""
        if answer is None:
            sources = [*read.untouched_nodes, *(additional or ())]
            return (
                EMPTY_RESPONSE,
                sources,
                response_metadata(sources, {"outcome": "no_context", "calls": 0}),
            )
        result = replace(answer.result, trace=answer.trace)
        kept = read.build_nodes(result, method=f"S2A.{self.s2a.denoiser.variant}")
        summary = read.summary(result)
        beside = [n.node.node_id for n in read.untouched_nodes]
        dispatcher.event(
            DenoiseEvent(method="S2A", summary=summary, passed_through=beside)
        )
        sources = [*read.restore_order(kept), *(additional or ())]
        note = {**summary, "outcome": "answered", "question": answer.question}
        return answer.text, sources, response_metadata(sources, note)

    def _get_prompts(self) -> PromptDictType:
        d = self.s2a.denoiser
        return {
            **denoiser_prompts(d),
            "s2a_answer": prompt_to_template(d.options.step_2(d.variant)),
        }

    def _update_prompts(self, prompts: PromptDictType) -> None:
        changed = copy.copy(self.s2a)
        denoiser = with_prompts(self.s2a.denoiser, prompts)
        if "s2a_answer" in prompts:
            old = denoiser.options.step_2(denoiser.variant)
            denoiser.options = replace_prompt(
                denoiser.options, old, prompts["s2a_answer"]
            )
        changed.denoiser = denoiser
        self.s2a = changed

    def _get_prompt_modules(self) -> PromptMixinType:
        return postprocessor_modules(self._search.postprocessors)
