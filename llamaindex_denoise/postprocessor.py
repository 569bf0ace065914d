"""`DenoisePostprocessor`: any denoiser as a LlamaIndex node postprocessor."""

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
from denoise_core._frameworks import (
    KeepSettings,
    bundled_denoiser,
    cache_signature,
    with_keep_rule,
)
from denoise_core._optional import require
from denoise_core.ranking import keep_top, order_by_score
from denoise_core.runtime.budget import limit_concurrency
from denoise_core.runtime.guard import FailurePolicy
from denoise_core.runtime.record import RecordDetail
from denoise_core.text.chunk import Chunker, no_chunking
from llamaindex_denoise.engines.base import (
    NestedPrompts,
    denoiser_prompts,
    with_prompts,
)
from llamaindex_denoise.events import DenoiseEvent
from llamaindex_denoise.models.llm import LlamaLLM, resolve_model
from llamaindex_denoise.models.scorers import EmbedModelScorer, RerankerScorer
from llamaindex_denoise.nodes.convert import NodeBatch, ScorePolicy, to_nodes
from llamaindex_denoise.nodes.headers import with_metadata_mode

dispatcher = get_dispatcher(__name__)
DEFAULT_CACHE_KEY = "END, the encoder that ships"
NodeOrder: TypeAlias = Literal["given", "score"]

# LlamaIndex's RetrieverTool turns a call with input="..." into this text; the argument's
# name is not part of the question.
_TOOL_CALL_QUERY = re.compile(r"\n?input is (.*)\n", re.DOTALL)

_CONSTRUCTORS = (
    (LLM, "from_llm"),
    (BaseEmbedding, "from_embed_model"),
    (BaseNodePostprocessor, "from_reranker"),
)


@dataclass(slots=True)
class PostprocessRun:
    """One call: its query, its nodes, the guarded denoiser, and what it returns."""

    query: str
    node_batch: NodeBatch
    guard: Guard
    output_nodes: list[NodeWithScore] = field(default_factory=list)


class DenoisePostprocessor(NestedPrompts, BaseNodePostprocessor):
    """Denoises retrieved nodes in query engines, chat engines and retriever tools.

    ``DenoisePostprocessor()`` works offline (extra ``embedded``). ``keep``, ``threshold``
    or ``max_tokens`` say how much is kept, as in LangChain's compressor. ``denoiser`` is
    any other denoiser; `from_llm`, `from_embed_model`, `from_cross_encoder` and
    `from_reranker` build one from what you have.

    Each kept node is a copy with its id, metadata, relationships and retrieval score;
    its record says which characters it consists of (`llamaindex_denoise.record`). Only
    text is cut. Nodes without text keep their positions. After an error, or when
    nothing is kept, the nodes are returned whole and the record says why
    (``on_error``, ``on_empty``, see `denoise_core.Guard`).

    Put it after rerankers and metadata replacement, before reordering. A copy shares
    the denoiser.

    Raises:
        InputError: At a call without a query.
        ValidationError: For an unknown argument.
    """

    model_config = ConfigDict(arbitrary_types_allowed=True, extra="forbid")

    denoiser: Denoiser = Field(
        default_factory=lambda: _embedded_denoiser(KeepSettings()),
        exclude=True,
        description="Any denoise_core Denoiser.",
    )
    keep: Any = Field(
        default=None,
        description="END: a fraction of the chunks, a number of them, or 'auto'.",
    )
    threshold: float | None = Field(
        default=None, description="END: keep chunks with at least this score."
    )
    max_tokens: int | None = Field(
        default=None, ge=1, description="END: the best chunks in so many tokens."
    )
    risk: float | None = Field(
        default=None,
        description="END, keep='auto': share of relevant chunks that may be lost.",
    )
    on_irrelevant: Literal["keep", "drop"] | None = Field(
        default=None,
        description="END: 'drop' returns no node if none seems relevant, and logs it.",
    )
    on_error: FailurePolicy = Field(
        default="keep",
        description="After an error: 'keep' the input, 'drop' it, or 'raise'.",
    )
    on_empty: FailurePolicy = Field(
        default="keep",
        description="If no text is kept: 'keep' the input, 'drop' it, or 'raise'.",
    )
    score_policy: ScorePolicy = Field(
        default="keep",
        description="'replace' sets each node's score to the method's score.",
    )
    top_n: int | None = Field(
        default=None,
        ge=1,
        description="At most this many nodes with text, the method's best.",
    )
    order: NodeOrder = Field(
        default="given",
        description="'score' puts the method's best node first; 'given' keeps order.",
    )
    record_detail: RecordDetail = Field(
        default="spans",
        description="Record on nodes: 'spans' (at most 2 KB), 'full', or 'none'.",
    )
    max_concurrency: int | None = Field(
        default=None,
        ge=1,
        description="At most this many calls at once; None leaves it to the denoiser.",
    )
    events_with_text: bool = Field(
        default=True,
        description="Whether events and callbacks carry the nodes; False keeps text "
        "out of logs.",
    )
    cache_key: str | None = Field(
        default=None,
        description="Name of the denoiser in an ingestion cache: method, model, "
        "settings. Without one nothing is cached.",
    )

    @classmethod
    def class_name(cls) -> str:
        """Return the name under which LlamaIndex serialises this class."""
        return "DenoisePostprocessor"

    @model_validator(mode="before")
    @classmethod
    def _build_denoiser(cls, values: Any) -> Any:
        """Apply `KeepSettings` to the given denoiser or the default."""
        if not isinstance(values, dict):
            return values
        values = dict(values)
        unknown_names = values.keys() - cls.model_fields
        if unknown_names:
            raise InputError(
                f"{', '.join(unknown_names)}: no such setting; there are "
                f"{', '.join(cls.model_fields)}"
            )
        denoiser = values.get("denoiser")
        _check_denoiser(denoiser)
        settings = KeepSettings(*map(values.get, KeepSettings._fields))
        if denoiser is None:
            denoiser = _embedded_denoiser(settings)
            values["cache_key"] = values.get("cache_key") or DEFAULT_CACHE_KEY
        else:
            denoiser = with_keep_rule(denoiser, settings)
        values["denoiser"] = denoiser
        return values

    @classmethod
    def from_llm(
        cls,
        llm: LLM | None = None,
        *,
        max_concurrency: int = 10,
        context: bool = True,
        **settings: Any,
    ) -> Self:
        """Build System 2 Attention: a model names what to keep.

        Args:
            llm: A LlamaIndex model; None takes `Settings.llm`.
            max_concurrency: At most this many calls of the model at once.
            context: Also keep what the named text cannot be read without, see
                `denoise_core.s2a.Options`.
            **settings: This class's fields.

        Raises:
            InputError: There is no model.
        """
        from denoise_core.s2a import Options, S2ADenoiser

        model = resolve_model("llm", llm, caller="DenoisePostprocessor.from_llm")
        denoiser = S2ADenoiser(
            LlamaLLM(model),
            variant="select",
            options=Options(keep_context=context),
            max_concurrency=max_concurrency,
        )
        cache_key = f"S2A, context={context}, {_model_key(model)}"
        return cls(**{"cache_key": cache_key, **settings, "denoiser": denoiser})

    @classmethod
    def from_file(
        cls, path: Any, model: Any = None, *, llm: LLM | None = None, **settings: Any
    ) -> Self:
        """Load what ``rag-denoise evaluate`` recommended or ``rag-denoise fit`` wrote.

        Args:
            path: A ``denoise.json``, or a folder of ``fit``.
            model: The model that a probe reads.
            llm: A LlamaIndex model, if the setting calls one.
            **settings: This class's fields.
        """
        from denoise_core import load_denoiser

        core_llm = None if llm is None else LlamaLLM(llm)
        return cls(denoiser=load_denoiser(path, model, llm=core_llm), **settings)

    @classmethod
    def from_probe(
        cls,
        folder: Any,
        model: Any = None,
        *,
        chunker: Chunker = no_chunking,
        **settings: Any,
    ) -> Self:
        """Build END by a probe, on a model's hidden states or on its attention heads.

        Args:
            folder: Where `denoise_core.end.Probe.save` wrote it.
            model: As for `denoise_core.end.ProbeScorer`; None takes the one that the
                probe's card names.
            chunker: As for `from_embed_model`.
            **settings: This class's fields.
        """
        from denoise_core.end import Probe, ProbeScorer

        probe = Probe.load(folder)
        scorer = ProbeScorer(model or probe.reading.model.name, probe)
        return cls(denoiser=_end_denoiser(scorer, chunker), **settings)

    @classmethod
    def from_embed_model(
        cls,
        embed_model: BaseEmbedding | None = None,
        *,
        chunker: Chunker = no_chunking,
        **settings: Any,
    ) -> Self:
        """Build END by the cosine similarity of a LlamaIndex embedding model.

        Args:
            embed_model: The model; None takes `Settings.embed_model`.
            chunker: How nodes are cut, such as ``sentence_spans``; the default keeps
                or drops whole nodes.
            **settings: This class's fields.

        Raises:
            InputError: There is no model.
        """
        model = resolve_model(
            "embed_model", embed_model, caller="DenoisePostprocessor.from_embed_model"
        )
        if chunker is no_chunking:  # a key cannot say how another function cuts
            settings.setdefault("cache_key", f"END, {_model_key(model)}")
        return cls(denoiser=_end_denoiser(EmbedModelScorer(model), chunker), **settings)

    @classmethod
    def from_reranker(
        cls,
        reranker: BaseNodePostprocessor,
        *,
        chunker: Chunker = no_chunking,
        **settings: Any,
    ) -> Self:
        """Build END by a LlamaIndex reranker's scores.

        Unless a setting says how much is kept, the reranker's ``top_n`` applies, best
        first.

        Raises:
            InputError: ``reranker`` is not a node postprocessor.
        """
        reranker_scorer = RerankerScorer(reranker)
        if not KeepSettings.say_how_much(settings):
            top_n = getattr(reranker, "top_n", None)
            settings["keep"] = top_n if isinstance(top_n, int) and top_n > 0 else None
            settings.setdefault("order", "score")
        return cls(denoiser=_end_denoiser(reranker_scorer, chunker), **settings)

    @classmethod
    def from_cross_encoder(
        cls, model: Any, *, top_n: int = 2, order: NodeOrder = "score", **settings: Any
    ) -> Self:
        """Build END by a cross-encoder.

        Args:
            model: A sentence-transformers model by name or path, a loaded one, or a
                function of pairs. Code that comes with a model is not run.
            top_n: Keep this many nodes, as LlamaIndex's ``SentenceTransformerRerank``.
            order: Best first, as the same class.
            **settings: This class's fields.

        Raises:
            InputError: ``model`` does not score pairs.
        """
        from denoise_core.scorers.encoders import CrossEncoderScorer

        if isinstance(model, str):
            settings.setdefault("cache_key", f"END, cross-encoder {model}")
        denoiser = _end_denoiser(CrossEncoderScorer(model), no_chunking)
        return cls(denoiser=denoiser, keep=top_n, order=order, **settings)

    def to_dict(self, **kwargs: Any) -> dict[str, Any]:
        """Return the settings for ``from_dict``.

        A denoiser other than the default is stored as its class name and loads with
        ``from_dict(data, denoiser=...)``.
        """
        denoiser = None if self._is_default() else self._method
        return {**super().to_dict(**kwargs), "denoiser": denoiser}

    def _is_default(self) -> bool:
        """Whether the settings alone rebuild this denoiser."""
        from denoise_core.embedded import DefaultScorer
        from denoise_core.end import ENDDenoiser

        denoiser = self.denoiser
        if not isinstance(denoiser, ENDDenoiser):
            return False
        if not isinstance(denoiser.scorer, DefaultScorer):
            return False
        values = []
        for name in KeepSettings._fields:
            values.append(getattr(self, name))
        settings = KeepSettings(*values)
        default = _embedded_denoiser(settings)
        return {**vars(denoiser), "scorer": None} == {**vars(default), "scorer": None}

    @cache_signature
    def _postprocess_nodes(
        self, nodes: list[NodeWithScore], query_bundle: QueryBundle | None = None
    ) -> list[NodeWithScore]:
        with self._start_run(nodes, query_bundle) as run:
            denoise_result = run.guard.denoise(run.query, run.node_batch.passages)
            self._set_output(run, denoise_result)
        return run.output_nodes

    @dispatcher.span
    @cache_signature
    async def _apostprocess_nodes(
        self, nodes: list[NodeWithScore], query_bundle: QueryBundle | None = None
    ) -> list[NodeWithScore]:
        with self._start_run(nodes, query_bundle) as run:
            denoise_result = await run.guard.adenoise(
                run.query, run.node_batch.passages
            )
            self._set_output(run, denoise_result)
        return run.output_nodes

    @contextmanager
    def _start_run(
        self, nodes: list[NodeWithScore], query_bundle: QueryBundle | None
    ) -> Iterator[PostprocessRun]:
        """Yield a run between LlamaIndex's start and end events."""
        query = _query_text(query_bundle)
        node_guard = Guard(
            with_metadata_mode(self.denoiser),
            on_error=self.on_error,
            on_empty=self.on_empty,
        )
        run = PostprocessRun(query, NodeBatch(nodes, node_guard), node_guard)
        input_nodes = run.node_batch.nodes
        event_nodes = input_nodes if self.events_with_text else []
        top_n = self.top_n or len(input_nodes)
        dispatcher.event(
            ReRankStartEvent(
                query=query_bundle,
                nodes=event_nodes,
                top_n=top_n,
                model_name=self._method,
            )
        )
        event_payload: dict[str, Any] = {
            EventPayload.NODES: event_nodes,
            EventPayload.MODEL_NAME: self._method,
            EventPayload.QUERY_STR: query,
            EventPayload.TOP_K: top_n,
        }
        try:
            with self.callback_manager.event(
                CBEventType.RERANKING, event_payload
            ) as event:
                with limit_concurrency(self.max_concurrency):
                    yield run
                event.on_end({EventPayload.NODES: self._event_nodes(run)})
        finally:  # handlers expect an end event after an error too
            dispatcher.event(ReRankEndEvent(nodes=self._event_nodes(run)))

    def _event_nodes(self, run: PostprocessRun) -> list[NodeWithScore]:
        return run.output_nodes if self.events_with_text else []

    def _set_output(self, run: PostprocessRun, result: DenoiseResult) -> None:
        node_batch = run.node_batch
        if self.top_n is not None:
            result = keep_top(result, node_batch.passages, self.top_n)
        if self.order == "score":
            result = order_by_score(result)
        kept_nodes = to_nodes(
            node_batch.passages,
            result,
            method=self._method,
            score_policy=self.score_policy,
            record_detail=self.record_detail,
            guard=run.guard,
        )
        if self.order == "given":
            run.output_nodes = node_batch.restore_order(kept_nodes)
        else:  # nodes without text have no score, so they go last
            run.output_nodes = [*kept_nodes, *node_batch.untouched_nodes]
        dispatcher.event(
            DenoiseEvent(
                method=self._method,
                summary=node_batch.summary(result),
                passed_through=[n.node.node_id for n in node_batch.untouched_nodes],
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
        # LlamaIndex drops what does not pickle, and would load the default instead.
        pickle.dumps(self.denoiser)
        state: dict[str, Any] = super().__getstate__()
        return state

    def __deepcopy__(self, memo: dict[int, Any] | None = None) -> DenoisePostprocessor:
        return self.model_copy()


def _check_denoiser(denoiser: Any) -> None:
    """Raise `InputError` for a model or a name instead of a denoiser."""
    if isinstance(denoiser, str):
        raise InputError(
            f"expected a Denoiser, got {denoiser!r}; load what to_dict wrote with "
            "from_dict(data, denoiser=...)"
        )
    if isinstance(denoiser, Denoiser):
        return
    for model_class, constructor in _CONSTRUCTORS:
        if isinstance(denoiser, model_class):
            raise InputError(
                f"denoiser: {type(denoiser).__name__} is not a denoiser; write "
                f"DenoisePostprocessor.{constructor}(...)"
            )


def _model_key(model: LLM | BaseEmbedding) -> str:
    """Class, name and sampling of a model for a cache key, without credentials."""
    model_name = (
        model.metadata.model_name if isinstance(model, LLM) else model.model_name
    )
    sampling = {
        "temperature": getattr(model, "temperature", None),
        "max_tokens": getattr(model, "max_tokens", None),
    }
    return f"{model.class_name()} {model_name} {sampling}"


def _query_text(query_bundle: QueryBundle | None) -> str:
    if not isinstance(query_bundle, QueryBundle):
        raise InputError(
            "denoising depends on the question: pass query_str= or query_bundle=, got "
            f"{type(query_bundle).__name__}"
        )
    tool_call = _TOOL_CALL_QUERY.fullmatch(query_bundle.query_str)
    return tool_call.group(1) if tool_call else query_bundle.query_str


def _end_denoiser(reranker_scorer: Any, chunker: Chunker) -> Denoiser:
    from denoise_core.end import ENDDenoiser

    return ENDDenoiser(reranker_scorer, chunker=chunker)


def _embedded_denoiser(settings: KeepSettings) -> Denoiser:
    """The default denoiser.

    A missing part raises here; at the first call it would only cause a fallback.
    """
    from denoise_core.embedded.minilm import minilm_folder

    for module in ("tokenizers", "safetensors"):
        require(module, extra="embedded")
    minilm_folder()
    return bundled_denoiser(settings)
