"""`DenoisePostprocessor`: any denoiser where LlamaIndex takes a node postprocessor."""

from __future__ import annotations

import pickle
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Literal, Self, TypeAlias

from llama_index.core.base.embeddings.base import BaseEmbedding
from llama_index.core.bridge.pydantic import ConfigDict, Field, model_validator
from llama_index.core.callbacks.schema import CBEventType, EventPayload
from llama_index.core.instrumentation.events.rerank import (
    ReRankEndEvent,
    ReRankStartEvent,
)
from llama_index.core.llms import LLM
from llama_index.core.postprocessor.types import BaseNodePostprocessor
from llama_index.core.prompts.mixin import PromptDictType
from llama_index.core.schema import NodeWithScore, QueryBundle
from llama_index_instrumentation import get_dispatcher

from denoise_core import Denoiser, DenoiseResult, Guard, InputError
from denoise_core._frameworks import cache_signature, with_keep_rule
from denoise_core._optional import require
from denoise_core.ranking import keep_top, order_by_score
from denoise_core.runtime.budget import limit_concurrency
from denoise_core.runtime.guard import FailurePolicy
from denoise_core.text.chunk import Chunker, no_chunking
from llamaindex_denoise.engines.base import (
    NestedPrompts,
    denoiser_prompts,
    with_prompts,
)
from llamaindex_denoise.events import DenoiseEvent
from llamaindex_denoise.models.llm import LlamaLLM, resolve_model
from llamaindex_denoise.models.scorers import EmbedModelScorer, RerankerScorer
from llamaindex_denoise.nodes.convert import NodeBatch, ScorePolicy
from llamaindex_denoise.nodes.headers import with_metadata_mode
from denoise_core.runtime.record import RecordDetail

dispatcher = get_dispatcher(__name__)
DEFAULT_CACHE_KEY = "END, the encoder that ships"
NodeOrder: TypeAlias = Literal["given", "score"]

# What LlamaIndex's RetrieverTool makes of a call with input="...": the name of the argument is not the question.
_TOOL_CALL = re.compile(r"\n?input is (.*)\n", re.DOTALL)


@dataclass(slots=True)
class _PostprocessRun:
    """One call on its way: what came in, and what it is told to give back."""

    query: str
    node_batch: NodeBatch
    guard: Guard
    output_nodes: list[NodeWithScore] = field(default_factory=list)


class DenoisePostprocessor(NestedPrompts, BaseNodePostprocessor):
    """Denoises retrieved nodes: query engines, chat engines and retriever tools take it as it is.

    ``DenoisePostprocessor()`` is the default that works offline (extra ``embedded``); ``keep`` or ``threshold``
    say what stays, as they do to LangChain's compressor; ``denoiser`` is any other of
    `denoise_core`'s, or of your own; `from_llm`, `from_embed_model` and `from_reranker` make one of what you have.

    Each node that stays is a copy of the original with its id, metadata, relationships and retrieval score; its
    record says which characters it stands for (`llamaindex_denoise.record`). What is cut is the text alone; nodes
    without text pass through in their places. On an error, or when nothing is kept, the nodes come back whole and
    the record says why (``on_error``, ``on_empty``: "keep", "drop" or "raise", see `denoise_core.Guard`).

    Put it after rerankers and metadata replacement, before reordering. Raises `InputError` when no query is
    given; an unknown argument is a pydantic ValidationError. A copy shares the denoiser.
    """

    model_config = ConfigDict(arbitrary_types_allowed=True, extra="forbid")

    denoiser: Denoiser = Field(
        default_factory=lambda: _embedded(None, None),
        exclude=True,
        description="Any denoise_core Denoiser.",
    )
    keep: Any = Field(
        default=None,
        description="END: a share of the chunks below 1, a number of them, 'auto'.",
    )
    threshold: float | None = Field(
        default=None, description="END: every chunk of at least this score."
    )
    on_error: FailurePolicy = Field(
        default="keep",
        description="What an exception gives: the input, nothing, or itself.",
    )
    on_empty: FailurePolicy = Field(
        default="keep", description="What a result without text gives."
    )
    score_policy: ScorePolicy = Field(
        default="keep", description="'replace' puts the method's score on the nodes."
    )
    top_n: int | None = Field(
        default=None,
        ge=1,
        description="At most this many nodes with text, the method's best; None for all.",
    )
    order: NodeOrder = Field(
        default="given",
        description="'score' puts the method's best node first, 'given' leaves the order.",
    )
    record_detail: RecordDetail = Field(
        default="spans",
        description="What is noted on nodes: 'spans' (at most 2 KB), 'full' (every chunk), 'none'.",
    )
    max_concurrency: int | None = Field(
        default=None,
        ge=1,
        description="At most this many calls at once; None leaves it to the denoiser.",
    )
    events_with_text: bool = Field(
        default=True,
        description="Whether rerank events and callbacks carry the nodes; False keeps text out of logs.",
    )

    cache_key: str | None = Field(
        default=None,
        description="What an ingestion cache knows the denoiser by: method, model, their settings. A denoiser of "
        "your own has none and is not cached.",
    )

    @classmethod
    def class_name(cls) -> str:
        return "DenoisePostprocessor"

    @model_validator(mode="before")
    @classmethod
    def _built(cls, values: Any) -> Any:
        """With the denoiser that ``keep`` and ``threshold`` ask for: the default's, or the given one's rule."""
        if not isinstance(values, dict):
            return values
        values = dict(values)
        if unknown := values.keys() - cls.model_fields:
            raise InputError(
                f"{', '.join(unknown)}: no such setting; there are {', '.join(cls.model_fields)}"
            )
        given, keep, threshold = (
            values.get(n) for n in ("denoiser", "keep", "threshold")
        )
        makes = {
            LLM: "from_llm",
            BaseEmbedding: "from_embed_model",
            BaseNodePostprocessor: "from_reranker",
        }
        make = next(
            (make for kind, make in makes.items() if isinstance(given, kind)), None
        )
        if make and not isinstance(given, Denoiser):
            raise InputError(
                f"denoiser: {type(given).__name__} is none; write DenoisePostprocessor.{make}(...)"
            )
        if isinstance(given, str):
            raise InputError(
                f"expected a Denoiser, got {given!r}; of to_dict load from_dict(data, denoiser=...)"
            )
        if given is None:
            given = _embedded(keep, threshold)
            values["cache_key"] = values.get("cache_key") or DEFAULT_CACHE_KEY
        elif keep is not None or threshold is not None:
            given = with_keep_rule(given, keep, threshold)
        return {**values, "denoiser": given}

    @classmethod
    def from_llm(
        cls,
        llm: LLM | None = None,
        *,
        max_concurrency: int = 10,
        context: bool = True,
        **settings: Any,
    ) -> Self:
        """System 2 Attention by a LlamaIndex model, `Settings.llm` if none is given: the model names what to keep.

        ``context`` keeps with it what it cannot be read without, as `denoise_core.s2a.Options` says. ``settings``
        are this class's fields, ``top_n`` among them. Raises `InputError` when there is no model.
        """
        from denoise_core.s2a import Options, S2ADenoiser

        model = LlamaLLM(
            resolve_model("llm", llm, caller="DenoisePostprocessor.from_llm")
        )
        options = Options(keep_context=context)
        denoiser = S2ADenoiser(
            model, variant="select", options=options, max_concurrency=max_concurrency
        )
        settings.setdefault(
            "cache_key", f"S2A, context={context}, {_model_key(model.model)}"
        )
        return cls(denoiser=denoiser, **settings)

    @classmethod
    def from_file(
        cls, path: Any, model: Any = None, *, llm: LLM | None = None, **settings: Any
    ) -> Self:
        """What ``rag-denoise evaluate`` recommended (its ``denoise.json``), or a folder of ``rag-denoise fit``.

        ``model`` is a probe's, ``llm`` a LlamaIndex model, where the setting asks one.
        """
        from denoise_core import load_denoiser

        return cls(
            denoiser=load_denoiser(
                path, model, llm=None if llm is None else LlamaLLM(llm)
            ),
            **settings,
        )

    @classmethod
    def from_embed_model(
        cls,
        embed_model: BaseEmbedding | None = None,
        *,
        chunker: Chunker = no_chunking,
        **settings: Any,
    ) -> Self:
        """END by the cosine of a LlamaIndex embedding model, `Settings.embed_model` if none is given.

        ``chunker`` is `ENDDenoiser`'s: ``chunker=sentences`` cuts nodes, the default keeps or drops them whole;
        ``settings`` are this class's fields, ``keep`` and ``threshold`` among them. Raises `InputError` when there
        is no model.
        """
        model = resolve_model(
            "embed_model", embed_model, caller="DenoisePostprocessor.from_embed_model"
        )
        if (
            chunker is no_chunking
        ):  # what another function cuts, a key of ours cannot say
            settings.setdefault("cache_key", f"END, {_model_key(model)}")
        return cls(denoiser=_end(EmbedModelScorer(model), chunker), **settings)

    @classmethod
    def from_reranker(
        cls,
        reranker: BaseNodePostprocessor,
        *,
        chunker: Chunker = no_chunking,
        **settings: Any,
    ) -> Self:
        """END by a LlamaIndex reranker's scores; without ``keep`` and ``threshold`` its own ``top_n``, best first.

        Raises `InputError` for something that is no node postprocessor.
        """
        scorer = RerankerScorer(reranker)
        if settings.get("keep") is None and settings.get("threshold") is None:
            own = getattr(reranker, "top_n", None)
            settings["keep"] = own if isinstance(own, int) and own > 0 else None
            settings.setdefault("order", "score")
        return cls(denoiser=_end(scorer, chunker), **settings)

    @classmethod
    def from_cross_encoder(
        cls, model: Any, *, top_n: int = 2, order: NodeOrder = "score", **settings: Any
    ) -> Self:
        """END by a cross-encoder: a sentence-transformers one by name or path, a loaded one, or a function of
        pairs. The best ``top_n`` nodes, best first, as LlamaIndex's ``SentenceTransformerRerank`` gives them; code
        that comes with a model is not run. Raises `InputError` for something that scores no pairs.
        """
        from denoise_core.scorers.encoders import CrossEncoderScorer

        if isinstance(model, str):
            settings.setdefault("cache_key", f"END, cross-encoder {model}")
        return cls(
            denoiser=_end(CrossEncoderScorer(model), no_chunking),
            keep=top_n,
            order=order,
            **settings,
        )

    def to_dict(self, **kwargs: Any) -> dict[str, Any]:
        """Settings, for ``from_dict``; in the place of a denoiser other than the default its class, which loads
        with ``from_dict(data, denoiser=...)``."""
        denoiser = None if self._is_default() else self._method
        return {**super().to_dict(**kwargs), "denoiser": denoiser}

    def _is_default(self) -> bool:
        """Whether ``keep`` and ``threshold`` alone build this denoiser again."""
        from denoise_core.embedded import DefaultScorer
        from denoise_core.end import ENDDenoiser

        if not isinstance(self.denoiser, ENDDenoiser) or not isinstance(
            self.denoiser.scorer, DefaultScorer
        ):
            return False
        default = _embedded(self.keep, self.threshold)
        settings = {**vars(self.denoiser), "scorer": None}
        return settings == {**vars(default), "scorer": None}

    @cache_signature
    def _postprocess_nodes(
        self, nodes: list[NodeWithScore], query_bundle: QueryBundle | None = None
    ) -> list[NodeWithScore]:
        with self._start_run(nodes, query_bundle) as run:
            self._set_output(run, run.guard.denoise(run.query, run.node_batch.passages))
        return run.output_nodes

    @dispatcher.span
    @cache_signature
    async def _apostprocess_nodes(
        self, nodes: list[NodeWithScore], query_bundle: QueryBundle | None = None
    ) -> list[NodeWithScore]:
        with self._start_run(nodes, query_bundle) as run:
            self._set_output(
                run, await run.guard.adenoise(run.query, run.node_batch.passages)
            )
        return run.output_nodes

    @contextmanager
    def _start_run(
        self, nodes: list[NodeWithScore], query_bundle: QueryBundle | None
    ) -> Iterator[_PostprocessRun]:
        query = _query_of(query_bundle)
        guard = Guard(
            with_metadata_mode(self.denoiser),
            on_error=self.on_error,
            on_empty=self.on_empty,
        )
        run = _PostprocessRun(query, NodeBatch(nodes, guard), guard)
        shown_nodes = run.node_batch.nodes if self.events_with_text else []
        top_n = self.top_n or len(run.node_batch.nodes)
        dispatcher.event(
            ReRankStartEvent(
                query=query_bundle,
                nodes=shown_nodes,
                top_n=top_n,
                model_name=self._method,
            )
        )
        payload: dict[str, Any] = {
            EventPayload.NODES: shown_nodes,
            EventPayload.MODEL_NAME: self._method,
            EventPayload.QUERY_STR: query,
            EventPayload.TOP_K: top_n,
        }
        try:
            with self.callback_manager.event(CBEventType.RERANKING, payload) as event:
                with limit_concurrency(self.max_concurrency):
                    yield run
                event.on_end(
                    {
                        EventPayload.NODES: run.output_nodes
                        if self.events_with_text
                        else []
                    }
                )
        finally:  # what began also ends when it fails
            dispatcher.event(
                ReRankEndEvent(nodes=run.output_nodes if self.events_with_text else [])
            )

    def _set_output(self, run: _PostprocessRun, result: DenoiseResult) -> None:
        read = run.node_batch
        if self.top_n is not None:
            result = keep_top(result, read.passages, self.top_n)
        if self.order == "score":
            result = order_by_score(result)
        kept_nodes = read.build_nodes(
            result, method=self._method, score_policy=self.score_policy, record_detail=self.record_detail
        )
        if self.order == "given":
            run.output_nodes = read.restore_order(kept_nodes)
        else:
            run.output_nodes = [
                *kept_nodes,
                *read.untouched_nodes,
            ]  # by score there are no places to go back to
        passed_through = [n.node.node_id for n in read.untouched_nodes]
        dispatcher.event(
            DenoiseEvent(
                method=self._method,
                summary=read.summary(result),
                passed_through=passed_through,
            )
        )

    def _get_prompts(self) -> PromptDictType:
        return denoiser_prompts(self.denoiser)

    def _update_prompts(self, prompts: PromptDictType) -> None:
        self.denoiser = with_prompts(self.denoiser, prompts)

    @property
    def _method(self) -> str:
        return type(self.denoiser).__name__

    def __getstate__(self) -> dict[str, Any]:
        pickle.dumps(
            self.denoiser
        )  # raises; LlamaIndex would leave it out, and load the default in its place
        state: dict[str, Any] = super().__getstate__()
        return state

    def __deepcopy__(self, memo: dict[int, Any] | None = None) -> DenoisePostprocessor:
        return self.model_copy()


def _model_key(model: LLM | BaseEmbedding) -> str:
    """Class, name and sampling of a model, as a cache key says them; no credentials and no time-outs."""
    name = model.metadata.model_name if isinstance(model, LLM) else model.model_name
    sampling = {
        "temperature": getattr(model, "temperature", None),
        "max_tokens": getattr(model, "max_tokens", None),
    }
    return f"{model.class_name()} {name} {sampling}"


def _query_of(bundle: QueryBundle | None) -> str:
    if not isinstance(bundle, QueryBundle):
        said = f"denoising depends on the question: pass query_str= or query_bundle=, got {type(bundle).__name__}"
        raise InputError(said)
    asked = _TOOL_CALL.fullmatch(bundle.query_str)
    return asked.group(1) if asked else bundle.query_str


def _end(scorer: Any, chunker: Chunker | Literal["auto"]) -> Denoiser:
    from denoise_core.end import ENDDenoiser

    return ENDDenoiser(scorer, chunker=chunker)


def _embedded(keep: Any, threshold: float | None) -> Denoiser:
    """The default, refused here and now where a part of it is missing: later it would only be a fallback."""
    from denoise_core.embedded import DefaultScorer, default_denoiser
    from denoise_core.embedded.minilm import minilm_folder

    for module in ("tokenizers", "safetensors"):
        require(module, extra="embedded")
    minilm_folder()
    if threshold is None:
        return default_denoiser(**({} if keep is None else {"keep": keep}))
    ruled_default: Denoiser = with_keep_rule(
        _end(DefaultScorer(), "auto"), keep, threshold
    )
    return ruled_default
