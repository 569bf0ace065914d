"""`S2AQueryEngine`: System 2 Attention as a query engine."""

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
from llamaindex_denoise.nodes.convert import NodeBatch, to_nodes

dispatcher = get_dispatcher(__name__)


class S2AQueryEngine(DenoiseEngine):
    """Retrieve, let the model remove noise and opinion, answer from the rest.

    The answering model never sees what was removed::

        S2AQueryEngine(S2A(LlamaLLM(llm)), retriever)

    ``source_nodes`` are the nodes as the answer's prompt had them, with the user's ids
    and a record of their origin. ``response.metadata["denoise"]`` has the answered
    question (S2A may have made it neutral), what was kept and dropped, and the cost.
    Without any retrieved text no model is called.

    Args:
        s2a: The method with its model.
        retriever: A LlamaIndex retriever.
        node_postprocessors: Run between the search and S2A.
        streaming: Stream the finished answer.
        callback_manager: LlamaIndex's callbacks.
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
                f"expected a denoise_core S2A, got {type(s2a).__name__}; write "
                "S2A(LlamaLLM(llm))"
            )
        retriever_adapter = LlamaRetriever(retriever, node_postprocessors)
        super().__init__(callback_manager)
        self.s2a = s2a
        self.streaming = streaming
        self._retriever = retriever_adapter
        for postprocessor in retriever_adapter.postprocessors:
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
        """Build the engine from a LlamaIndex model, by default `Settings.llm`.

        ``settings`` are those of `S2ADenoiser`.

        Raises:
            InputError: There is no model.
        """
        model = LlamaLLM(resolve_model("llm", llm, caller="S2AQueryEngine.from_args"))
        return cls(
            S2A(model, **settings),
            retriever,
            node_postprocessors=node_postprocessors,
            streaming=streaming,
        )

    def retrieve(self, query_bundle: QueryBundle) -> list[NodeWithScore]:
        """Return the retriever's nodes after the engine's postprocessors."""
        return self._retriever.retrieve_nodes(query_bundle)

    async def aretrieve(self, query_bundle: QueryBundle) -> list[NodeWithScore]:
        """Return the retriever's nodes after the engine's postprocessors."""
        return await self._retriever.aretrieve_nodes(query_bundle)

    def synthesize(
        self,
        query_bundle: QueryBundle,
        nodes: list[NodeWithScore],
        additional_source_nodes: NodeSequence | None = None,
    ) -> RESPONSE_TYPE:
        """Return an answer from what S2A keeps of the nodes."""
        batch = self._node_batch(nodes)
        answer = None
        if batch.has_text:
            answer = self.s2a.answer(query_bundle.query_str, batch.passages)
        parts = self._response_parts(answer, batch, additional_source_nodes or ())
        return self._build_response(*parts)

    async def asynthesize(
        self,
        query_bundle: QueryBundle,
        nodes: list[NodeWithScore],
        additional_source_nodes: NodeSequence | None = None,
    ) -> RESPONSE_TYPE:
        """Return an answer from what S2A keeps of the nodes."""
        batch = self._node_batch(nodes)
        answer = None
        if batch.has_text:
            answer = await self.s2a.aanswer(query_bundle.query_str, batch.passages)
        parts = self._response_parts(answer, batch, additional_source_nodes or ())
        return self._build_response(*parts, is_async=True)

    def _node_batch(self, nodes: NodeSequence) -> NodeBatch:
        denoiser = self.s2a.denoiser
        return NodeBatch(nodes, Guard(denoiser, on_error=denoiser.on_error))

    def _query(self, query_bundle: QueryBundle) -> RESPONSE_TYPE:
        return self.synthesize(query_bundle, self.retrieve(query_bundle))

    async def _aquery(self, query_bundle: QueryBundle) -> RESPONSE_TYPE:
        return await self.asynthesize(query_bundle, await self.aretrieve(query_bundle))

    def _response_parts(
        self, answer: S2AAnswer | None, batch: NodeBatch, additional: NodeSequence
    ) -> tuple[str, list[NodeWithScore], dict[str, Any]]:
        """Text, sources and metadata of the response."""
        if answer is None:
            sources = [*batch.untouched_nodes, *additional]
            run_record: dict[str, Any] = {"outcome": "no_context", "calls": 0}
            return EMPTY_RESPONSE, sources, response_metadata(sources, run_record)
        denoise_result = replace(answer.result, trace=answer.trace)
        method = f"S2A.{self.s2a.denoiser.variant}"
        kept_nodes = to_nodes(
            batch.passages, denoise_result, method=method, guard=batch.guard
        )
        summary = batch.summary(denoise_result)
        untouched_ids = [n.node.node_id for n in batch.untouched_nodes]
        dispatcher.event(
            DenoiseEvent(method="S2A", summary=summary, passed_through=untouched_ids)
        )
        sources = [*batch.restore_order(kept_nodes), *additional]
        run_record = {**summary, "outcome": "answered", "question": answer.question}
        return answer.text, sources, response_metadata(sources, run_record)

    def _get_prompts(self) -> PromptDictType:
        denoiser = self.s2a.denoiser
        answer_prompt = denoiser.options.prompts.step_2(denoiser.variant)
        prompts = denoiser_prompts(denoiser)
        return {**prompts, "s2a_answer": prompt_to_template(answer_prompt)}

    def _update_prompts(self, prompts: PromptDictType) -> None:
        denoiser = with_prompts(self.s2a.denoiser, prompts)
        if "s2a_answer" in prompts:
            answer_prompt = denoiser.options.prompts.step_2(denoiser.variant)
            denoiser.options = replace_prompt(
                denoiser.options, answer_prompt, prompts["s2a_answer"]
            )
        self.s2a = copy.copy(self.s2a)
        self.s2a.denoiser = denoiser

    def _get_prompt_modules(self) -> PromptMixinType:
        return postprocessor_modules(self._retriever.postprocessors)
