"""`DenoisePostprocessor`: any denoiser as a LlamaIndex node postprocessor."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Annotated, Any, Literal, TypeAlias

from llama_index.core.base.embeddings.base import BaseEmbedding
from llama_index.core.bridge.pydantic import (
    ConfigDict,
    Field,
    PrivateAttr,
    model_validator,
)
from llama_index.core.llms import LLM
from llama_index.core.postprocessor.types import BaseNodePostprocessor
from llama_index.core.schema import NodeWithScore, QueryBundle
from llama_index_instrumentation import get_dispatcher
from pydantic.json_schema import SkipJsonSchema

from denoise_core import Denoiser, DenoiseResult, Guard, InputError
from denoise_core._frameworks import (
    KeepSettings,
    build_s2a_denoiser,
    bundled_denoiser,
    cache_signature,
    check_names,
    named_chunker,
    scorer_denoiser,
    with_keep_rule,
)
from denoise_core._optional import require
from denoise_core.ranking import keep_top, order_by_score
from denoise_core.runtime.budget import limit_concurrency
from denoise_core.runtime.guard import FailurePolicy
from denoise_core.runtime.record import RecordDetail
from denoise_core.tool_results import read_pin
from llamaindex_denoise.events import DenoiseEvent, ShadowEvent
from llamaindex_denoise.models.llm import LlamaLLM, resolve_model
from llamaindex_denoise.nodes.convert import NodeBatch, NodeOrder
from llamaindex_denoise.nodes.repeats import drop_repeats

dispatcher = get_dispatcher(__name__)

DenoisingMethod: TypeAlias = Literal[
    "default", "select", "embedding", "rerank", "probe", "other"
]

# By the setting that names a method.
_METHODS: Mapping[str, DenoisingMethod] = {
    "denoiser": "other",
    "llm": "select",
    "embed_model": "embedding",
    "probe": "probe",
    "model": "rerank",
}

_OBJECT_KINDS: Mapping[str, Any] = {
    "llm": LLM,
    "embed_model": BaseEmbedding,
    "denoiser": Denoiser,
}

# What LlamaIndex's own parts call a setting, and what to write here.
_OTHER_NAMES = {
    "similarity_cutoff": "write threshold=, on the scale of the method's own scores; "
    "with embed_model= that is the cosine similarity",
    "similarity_top_k": "it belongs to the retriever; write top_n= for the nodes that "
    "are returned",
    "chunker": "write chunks='sentences' or chunks=800 (characters)",
}

# LlamaIndex's RetrieverTool turns a call with input="..." into this text; the argument's
# name is not part of the question.
_TOOL_CALL_QUERY = re.compile(r"\n?input is (.*)\n", re.DOTALL)


class DenoisePostprocessor(BaseNodePostprocessor):
    """Denoises retrieved nodes in query engines, chat engines and retriever tools.

    ``DenoisePostprocessor()`` works offline (extra ``embedded``). ``llm``,
    ``embed_model``, ``model``, ``probe`` or ``denoiser`` names another method. ``keep``,
    ``threshold`` or ``max_tokens`` say how much is kept, as in LangChain's compressor.
    Models are checked here, so that a name that does not exist fails before the first
    query.

    Each kept node is a copy with its id, metadata, relationships and retrieval score;
    its record says which characters it consists of (`llamaindex_denoise.record`). Where
    relevance is known, ``denoise_relevant`` and ``denoise_note`` are in its metadata too,
    hidden from models and embeddings. Only text is cut. Nodes without text keep their
    positions; of nodes with the same text and visible metadata the first is returned.
    After an error, or when nothing is kept, the nodes are returned whole and the record
    says why (``on_error``, ``on_empty``, see `denoise_core.Guard`); of a node that cannot
    be read the log and `DenoiseEvent` say it.

    Settings are plain values: ``from_dict(postprocessor.to_dict())`` rebuilds a method
    whose models have names; ``llm``, ``embed_model`` and ``denoiser`` are passed again.

    With ``shadow=True`` nothing changes, and `llamaindex_denoise.ShadowHandler` says
    what would be dropped, and which answers rest on it.

    Put it after rerankers and metadata replacement, before reordering. A copy shares
    the denoiser.

    Raises:
        InputError: At a call without a query.
        ValidationError: For an unknown setting, or settings that exclude each other.
    """

    model_config = ConfigDict(arbitrary_types_allowed=True, extra="forbid")

    method: DenoisingMethod | None = Field(
        default=None,
        description="'select' (System 2 Attention by llm), 'embedding', 'rerank' (a "
        "cross-encoder), 'probe', 'default' or 'other'; None follows from the models. "
        "Without its model 'select' and 'embedding' take that of Settings.",
    )
    llm: SkipJsonSchema[LLM | None] = Field(
        default=None, exclude=True, description="A model that names what to keep."
    )
    embed_model: SkipJsonSchema[BaseEmbedding | None] = Field(
        default=None, exclude=True, description="END by its cosine similarity."
    )
    model: str | None = Field(
        default=None,
        description="END by this cross-encoder, a name or folder; code that comes with "
        "it is not run. With method='embedding': a sentence encoder. With probe: the "
        "model that the probe reads.",
    )
    probe: str | None = Field(
        default=None,
        description="END by the probe in this folder, on hidden states or heads.",
    )
    denoiser: SkipJsonSchema[Annotated[Denoiser | None, Field(exclude=True)]] = Field(
        default=None, exclude=True, description="Any denoise_core Denoiser."
    )
    keep: int | float | str | None = Field(
        default=None,
        description="END: a fraction of the chunks, a number of them, or 'auto'. A chunk "
        "may be of several nodes of a document; top_n counts nodes.",
    )
    threshold: float | None = Field(
        default=None,
        description="END: keep chunks with at least this score, and the best one.",
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
        description="'drop' returns no node if none seems relevant, or if the model of "
        "'select' finds no answer, and logs it.",
    )
    chunks: Literal["whole", "sentences"] | Annotated[int, Field(ge=1)] | None = Field(
        default=None,
        description="END: what is scored: nodes 'whole', 'sentences', or chunks of at "
        "most so many characters.",
    )
    must_keep: str | None = Field(
        default=None,
        description="Nodes that are returned whole: those with a match of a regular "
        "expression, such as 'status: failed' for a field of a record.",
    )
    context: bool = Field(
        default=True,
        description="Method 'select': also keep what the named text cannot be read "
        "without.",
    )
    top_n: int | None = Field(
        default=None,
        ge=1,
        description="At most this many nodes with text, the method's best.",
    )
    order: NodeOrder = Field(
        default="input",
        description="'score' puts the method's best node first; 'input' keeps order.",
    )
    on_error: FailurePolicy = Field(
        default="keep",
        description="After an error: 'keep' the input, 'drop' it, or 'raise'.",
    )
    on_empty: FailurePolicy = Field(
        default="keep",
        description="If no text is kept: 'keep' the input, 'drop' it, or 'raise'.",
    )
    shadow: bool = Field(
        default=False,
        description="Return the nodes as they came, and give `ShadowHandler` what would "
        "be dropped.",
    )
    record: RecordDetail = Field(
        default="spans",
        description="Record on nodes: 'spans' or 'none'; the event DenoiseEvent has "
        "every chunk.",
    )
    max_concurrency: int | None = Field(
        default=None,
        ge=1,
        description="At most this many calls at once; None leaves it to the denoiser.",
    )
    cache_key: str | None = Field(
        default=None,
        description="Name of your own denoiser in an ingestion cache: method, model, "
        "settings. Named methods need none.",
    )
    _built_denoiser: Denoiser | None = PrivateAttr(default=None)

    @classmethod
    def class_name(cls) -> str:
        """Return the name under which LlamaIndex serialises this class."""
        return "DenoisePostprocessor"

    @model_validator(mode="before")
    @classmethod
    def _check_names(cls, values: Any) -> Any:
        """Reject unknown names, saying the right one, and find the method."""
        if not isinstance(values, dict):
            return values
        check_names(cls.__name__, values, cls.model_fields, _OTHER_NAMES)
        _check_objects(values)
        keep = values.get("keep")
        if isinstance(keep, bool) or not isinstance(keep, int | float | str | None):
            raise InputError(
                f"keep={keep!r}: expected a number or 'auto'; max_tokens= limits the "
                "tokens, and another rule goes into denoiser=ENDDenoiser(..., keep=rule)"
            )
        return {**values, "method": _find_method(values)}

    def model_post_init(self, context: Any, /) -> None:
        """Build the denoiser, so that wrong settings and models raise here."""
        super().model_post_init(context)
        read_pin(self.must_keep)
        self._built_denoiser = self._build_denoiser()

    @property
    def active_denoiser(self) -> Denoiser:
        """The denoiser of the settings."""
        if self._built_denoiser is None:  # a pickle loses what does not pickle
            self._built_denoiser = self._build_denoiser()
        return self._built_denoiser

    @property
    def cache_name(self) -> str | None:
        """What identifies the models in a cache; None if nothing does."""
        if self.cache_key is not None or self.method == "other":
            return self.cache_key
        if self.method == "probe":  # a folder may be written again
            return None
        return _model_key(self._resolve_model())

    def _resolve_model(self) -> Any:
        """The model of the method; None for the default, a probe and a denoiser."""
        if self.method == "select":
            return resolve_model("llm", self.llm)
        if self.method == "embedding" and self.model is None:
            return resolve_model("embed_model", self.embed_model)
        if self.method == "rerank" and self.model is None:
            raise InputError("method='rerank' needs model=, the cross-encoder's name")
        return self.model if self.method in ("embedding", "rerank") else None

    def _build_denoiser(self) -> Denoiser:
        settings = KeepSettings(**{n: getattr(self, n) for n in KeepSettings._fields})
        is_by_scorer = self.method in ("default", "embedding", "rerank", "probe")
        if self.chunks is not None and not is_by_scorer:
            raise InputError(f"chunks={self.chunks!r}: a setting of END by a scorer")
        if self.method != "select" and not self.context:
            raise InputError("context=False: a setting of method='select'")
        if self.method == "other":
            if self.denoiser is None:
                raise InputError(
                    "method='other' needs its denoiser: from_dict(data, denoiser=...)"
                )
            denoiser: Denoiser = with_keep_rule(self.denoiser, settings)
            return denoiser
        if self.method == "default":
            return _embedded_denoiser(settings, self.chunks)
        if self.method == "select":
            return build_s2a_denoiser(
                LlamaLLM(self._resolve_model()),
                settings,
                self.context,
                on_error="keep" if self.shadow else self.on_error,
                max_concurrency=self.max_concurrency,
            )
        return self._build_end(settings)

    def _build_end(self, settings: KeepSettings) -> Denoiser:
        from denoise_core.end import Probe, ProbeScorer
        from denoise_core.scorers.encoders import (
            CrossEncoderScorer,
            EmbeddingScorer,
            check_model_loads,
        )

        scorer: Any
        if self.method == "probe":
            if self.probe is None:
                raise InputError("method='probe' needs probe=, the folder of the probe")
            probe = Probe.load(self.probe)
            scorer = ProbeScorer(self.model or probe.reading.model.name, probe)
        else:
            is_embedding = self.method == "embedding"
            scorer_class = EmbeddingScorer if is_embedding else CrossEncoderScorer
            scorer = scorer_class(self._resolve_model())
            if self.model is not None:
                check_model_loads(scorer, self.model)
        chunker = named_chunker(self.chunks or "whole")
        return scorer_denoiser(scorer, settings, chunker, self.top_n)

    @cache_signature
    def _postprocess_nodes(
        self, nodes: list[NodeWithScore], query_bundle: QueryBundle | None = None
    ) -> list[NodeWithScore]:
        query = _query_text(query_bundle)
        node_batch = self.read_nodes(nodes)
        with limit_concurrency(self.max_concurrency):
            result = node_batch.guard.denoise(query, node_batch.passages)
        return self.build_output(node_batch, result)

    @dispatcher.span
    @cache_signature
    async def _apostprocess_nodes(
        self, nodes: list[NodeWithScore], query_bundle: QueryBundle | None = None
    ) -> list[NodeWithScore]:
        query = _query_text(query_bundle)
        node_batch = self.read_nodes(nodes)
        with limit_concurrency(self.max_concurrency):
            result = await node_batch.guard.adenoise(query, node_batch.passages)
        return self.build_output(node_batch, result)

    def read_nodes(self, nodes: list[NodeWithScore]) -> NodeBatch:
        """Return the nodes as passages for ``guard``, the denoiser with its policies."""
        guard = Guard(
            self.active_denoiser,
            on_error="keep" if self.shadow else self.on_error,
            on_empty="drop" if self.shadow else self.on_empty,
        )
        return NodeBatch(nodes, guard, must_keep=self.must_keep)

    def build_output(
        self, node_batch: NodeBatch, result: DenoiseResult
    ) -> list[NodeWithScore]:
        """Return what is kept as nodes, and tell LlamaIndex's handlers."""
        if self.top_n is not None:
            result = keep_top(result, node_batch.passages, self.top_n)
        if result.fallback is None:  # a failure keeps the input as it is
            result = drop_repeats(result, node_batch.passages)
        if self.shadow:
            dispatcher.event(ShadowEvent(call=node_batch.shadow_call(result)))
            return list(node_batch.nodes)
        if self.order == "score":
            result = order_by_score(result)
        output_nodes = node_batch.to_nodes(
            result,
            method=self._method_name,
            record_detail=self.record,
            order=self.order,
        )
        dispatcher.event(
            DenoiseEvent(
                method=self._method_name,
                summary=node_batch.summary(result),
                passed_through=node_batch.untouched_ids,
            )
        )
        return output_nodes

    @property
    def _method_name(self) -> str:
        return type(self.active_denoiser).__name__

    def __deepcopy__(self, memo: dict[int, Any] | None = None) -> DenoisePostprocessor:
        return self.model_copy()


def _find_method(settings: Mapping[str, Any]) -> DenoisingMethod:
    """The method that the settings name.

    Raises:
        InputError: They name two.
    """
    names = [name for name in _METHODS if settings.get(name) is not None]
    method = settings.get("method")
    if names == ["probe", "model"] or (method, names) == ("embedding", ["model"]):
        names.remove("model")
    if len(names) > 1:
        raise InputError(
            f"{' and '.join(names)}: each names a method; give one of them"
        )
    if not names:
        return method or "default"
    found_method = _METHODS[names[0]]
    if method not in (None, found_method):
        raise InputError(
            f"method={method!r} and {names[0]}=: that is method={found_method!r}"
        )
    return found_method


def _check_objects(settings: Mapping[str, Any]) -> None:
    """Raise `InputError` for a name, or another object than a model or denoiser."""
    for name, kind in _OBJECT_KINDS.items():
        value = settings.get(name)
        if value is None or isinstance(value, kind):
            continue
        hint = ""
        if name == "embed_model" and isinstance(value, str):
            hint = f"; write method='embedding', model={value!r}"
        for other_name, other_kind in _OBJECT_KINDS.items():
            if isinstance(value, other_kind):
                hint = f"; write {other_name}="
        raise InputError(
            f"{name}={value!r:.80}: expected the {kind.__name__} object, no default is "
            f"resolved{hint}"
        )


def _model_key(model: LLM | BaseEmbedding | str | None) -> str:
    """Class, name and sampling of a model for a cache key, without credentials."""
    if isinstance(model, str | None):
        return model or "the encoder that ships"
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
    if tool_call:
        return tool_call.group(1)
    return query_bundle.query_str


def _embedded_denoiser(settings: KeepSettings, chunks: Any) -> Denoiser:
    """The default denoiser.

    A missing part raises here; at the first call it would only cause a fallback.
    """
    from denoise_core.embedded.minilm import minilm_folder

    for module in ("tokenizers", "safetensors"):
        require(module, extra="embedded")
    minilm_folder()
    chunker = "auto" if chunks is None else named_chunker(chunks)
    return bundled_denoiser(settings, chunker)
