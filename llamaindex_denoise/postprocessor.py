"""`DenoisePostprocessor`: any denoiser where LlamaIndex takes a node postprocessor."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from llama_index.core.bridge.pydantic import ConfigDict, Field
from llama_index.core.callbacks.schema import CBEventType, EventPayload
from llama_index.core.instrumentation.events.rerank import ReRankEndEvent, ReRankStartEvent
from llama_index.core.postprocessor.types import BaseNodePostprocessor
from llama_index.core.prompts.mixin import PromptDictType, PromptMixinType
from llama_index.core.schema import NodeWithScore, QueryBundle
from llama_index_instrumentation import get_dispatcher

from denoise_core import Denoiser, DenoiseResult, Guard, InputError, Passage
from denoise_core.running.bound import at_most
from denoise_core.running.guard import Policy
from llamaindex_denoise._convert import ScorePolicy, is_text, to_nodes, to_passages, weave
from llamaindex_denoise._fingerprint import fingerprint
from llamaindex_denoise._prompts import NestedPrompts, prompts_of, with_prompts
from llamaindex_denoise.events import denoise_event

dispatcher = get_dispatcher(__name__)

# What LlamaIndex's RetrieverTool makes of a call with input="...": the name of the argument is not the question.
_TOOL_CALL = re.compile(r"\n?input is (.*)\n", re.DOTALL)


@dataclass(slots=True)
class _Run:
    """One call on its way: what came in, and what it is told to give back."""

    query: str
    nodes: list[NodeWithScore]
    passages: tuple[Passage, ...]
    guard: Guard
    out: list[NodeWithScore] = field(default_factory=list)


class DenoisePostprocessor(BaseNodePostprocessor, NestedPrompts):
    """Denoises retrieved nodes: query engines, chat engines and retriever tools take it as it is.

    Each node that stays is a copy of the original with its id, metadata, relationships and retrieval score;
    ``metadata["denoise"]`` says which characters it stands for (`llamaindex_denoise.record`). Nodes
    without text pass through in their places. The default never loses context: on an error, or when nothing
    is kept, the nodes come back whole and the record says why (``on_error``, ``on_empty``: "keep", "drop" or
    "raise", see `denoise_core.Guard`).

    Put it after rerankers and metadata replacement, before reordering. Raises `InputError` when no query is
    given; an unknown argument is a pydantic ValidationError. A copy shares the denoiser. ``get_prompts`` and
    ``update_prompts`` reach the prompts of S2A.
    """

    model_config = ConfigDict(arbitrary_types_allowed=True, extra="forbid")

    denoiser: Denoiser = Field(exclude=True, description="Any denoise_core Denoiser.")
    on_error: Policy = Field(default="keep", description="What an exception gives: the input, nothing, or itself.")
    on_empty: Policy = Field(default="keep", description="What a result without text gives.")
    scores: ScorePolicy = Field(default="keep", description="'replace' puts the method's score on the nodes.")
    max_concurrency: int | None = Field(
        default=None, ge=1, description="At most this many calls at once; None leaves it to the denoiser."
    )
    events_with_text: bool = Field(
        default=True,
        description="Whether rerank events and callbacks carry the nodes; False keeps text out of logs.",
    )

    @classmethod
    def class_name(cls) -> str:
        return "DenoisePostprocessor"

    def to_dict(self, **kwargs: Any) -> dict[str, Any]:
        """Settings; in the denoiser's place a hash of its own. Load with ``from_dict(data, denoiser=...)``."""
        return {**super().to_dict(**kwargs), "denoiser": fingerprint(self.denoiser)}

    def _postprocess_nodes(
        self, nodes: list[NodeWithScore], query_bundle: QueryBundle | None = None
    ) -> list[NodeWithScore]:
        with self._running(nodes, query_bundle) as run:
            self._finish(run, run.guard.denoise(run.query, run.passages))
        return run.out

    @dispatcher.span
    async def _apostprocess_nodes(
        self, nodes: list[NodeWithScore], query_bundle: QueryBundle | None = None
    ) -> list[NodeWithScore]:
        with self._running(nodes, query_bundle) as run:
            self._finish(run, await run.guard.adenoise(run.query, run.passages))
        return run.out

    @contextmanager
    def _running(self, nodes: list[NodeWithScore], query_bundle: QueryBundle | None) -> Iterator[_Run]:
        query = _query_of(query_bundle)
        passages = to_passages(nodes)
        guard = Guard(self.denoiser, on_error=self.on_error, on_empty=self.on_empty)
        run = _Run(query, list(nodes), passages, guard)
        shown = run.nodes if self.events_with_text else []
        dispatcher.event(
            ReRankStartEvent(query=query_bundle, nodes=shown, top_n=len(nodes), model_name=self._method)
        )
        payload: dict[str, Any] = {
            EventPayload.NODES: shown,
            EventPayload.MODEL_NAME: self._method,
            EventPayload.QUERY_STR: query,
            EventPayload.TOP_K: len(nodes),
        }
        with (
            self.callback_manager.event(CBEventType.RERANKING, payload=payload) as event,
            at_most(self.max_concurrency),
        ):
            yield run
            kept = run.out if self.events_with_text else []
            event.on_end(payload={EventPayload.NODES: kept})
        dispatcher.event(ReRankEndEvent(nodes=kept))

    def _finish(self, run: _Run, result: DenoiseResult) -> None:
        run.out = weave(run.nodes, to_nodes(run.passages, result, by=self._method, scores=self.scores))
        untouched = [n.node.node_id for n in run.nodes if not is_text(n.node)]
        dispatcher.event(denoise_event(self._method, run.passages, result, untouched))

    def _get_prompts(self) -> PromptDictType:
        return prompts_of(self.denoiser)

    def _update_prompts(self, prompts: PromptDictType) -> None:
        self.denoiser = with_prompts(self.denoiser, prompts)

    def _get_prompt_modules(self) -> PromptMixinType:
        return {}

    @property
    def _method(self) -> str:
        return type(self.denoiser).__name__

    def __deepcopy__(self, memo: dict[int, Any] | None = None) -> DenoisePostprocessor:
        return self.model_copy()

    def __getstate__(self) -> dict[str, Any]:
        # The inherited form deletes what does not pickle from the living object. Here pickle itself says so;
        # callbacks, which hold open handles, start anew as they do for every copy LlamaIndex loads.
        fields = {k: v for k, v in self.__dict__.items() if k != "callback_manager"}
        return {
            "__dict__": fields,
            "__pydantic_fields_set__": set(fields),
            "__pydantic_extra__": None,
            "__pydantic_private__": None,
        }


def _query_of(bundle: QueryBundle | None) -> str:
    if bundle is None:
        raise InputError("denoising depends on the question: pass query_str= or query_bundle=")
    asked = _TOOL_CALL.fullmatch(bundle.query_str)
    return asked.group(1) if asked else bundle.query_str
