"""`DenoiseCompressor`: any denoiser wherever LangChain takes a document compressor or a runnable."""

from __future__ import annotations

import copy
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self, cast

from langchain_core.callbacks import AsyncParentRunManager, Callbacks, ParentRunManager
from langchain_core.documents import BaseDocumentCompressor, Document
from langchain_core.runnables import RunnableConfig, RunnableSerializable
from pydantic import ConfigDict, PrivateAttr
from typing_extensions import TypedDict, Unpack, override

from denoise_core import DenoiseResult, Guard, InputError, Passage
from denoise_core._frameworks import signed
from denoise_core.running.budget import at_most
from denoise_core.running.record import bounded_summary_of, summary_of
from denoise_core.text.cutting import pieces
from langchain_denoise.convert.documents import Readable, read_documents
from langchain_denoise.likes import KeepLike, LLMLike
from langchain_denoise.observe import atell, is_watched, tell
from langchain_denoise.ranking import fills, ordered, top
from langchain_denoise.settings import DenoiseSettings, Numbers, Rules, Settings, Variant, asked_for

if TYPE_CHECKING:
    from langchain_core.cross_encoders import BaseCrossEncoder
    from langchain_core.embeddings import Embeddings

    from denoise_core import LLM


class CrossEncoded(Rules, total=False):
    """What `DenoiseCompressor.from_cross_encoder` takes besides ``top_n``."""

    k: int | None


class DenoiseInput(TypedDict):
    """What `DenoiseCompressor` takes in a chain."""

    documents: Iterable[Document]
    query: str


class DenoiseCompressor(
    DenoiseSettings, RunnableSerializable[DenoiseInput, list[Document]], BaseDocumentCompressor
):
    """Takes the noise out of retrieved documents.

    One object, three places: ``base_compressor`` of a ``ContextualCompressionRetriever``, a member of a
    ``DocumentCompressorPipeline``, or a step of a chain that takes ``{"documents": ..., "query": ...}``.
    ``DenoiseCompressor()`` is the offline default; `from_llm`, `from_embeddings`, `from_cross_encoder`,
    `from_decision_model` and `from_probe` build on what you have; ``denoiser=`` takes any denoiser of the core.

    Documents keep their id and metadata; inputs are never changed. ``metadata["denoise_spans"]`` says in JSON
    which characters of the original, by its id ``denoise_origin``, each text stands for; ``denoise_fallback``
    whether the input was handed back instead. All of it is flat, so that stores take it, and holds no query.
    ``metadata["relevance_score"]`` is set when the method scores. What was dropped and why is in the span
    ``denoise_record``, which every tracer shows, and whole in the custom event ``denoise``.

    One request may ask for other settings: ``config={"configurable": {"denoise": {"keep": 0.5, "k": 3}}}``, or as
    usual through ``configurable_fields``.
    """

    _scores: bool = PrivateAttr(default=True)

    model_config = ConfigDict(arbitrary_types_allowed=True, extra="forbid")

    @classmethod
    @override
    def is_lc_serializable(cls) -> bool:
        return True

    @classmethod
    def from_llm(
        cls,
        model: LLMLike | None = None,
        *,
        llm: LLMLike | None = None,
        variant: Variant = "select",
        **settings: Unpack[Settings],
    ) -> Self:
        """System 2 Attention with a chat model, a runnable, a name, or a core LLM; in the place of LangChain's
        ``LLMChainFilter.from_llm(model)``, and with ``context=False``, which keeps the sentences that the model
        names and none beside them, of ``LLMChainExtractor.from_llm(model)``."""
        if (model is None) == (llm is None):
            raise InputError("from_llm: give one model, as in from_llm(model)")
        given: dict[str, Any] = {"model": llm if model is None else model, "variant": variant, **settings}
        return cls(**given)

    @classmethod
    def from_embeddings(
        cls,
        embeddings: Embeddings,
        *,
        keep: KeepLike = 20,
        threshold: float | None = None,
        **settings: Unpack[Numbers],
    ) -> Self:
        """The cosine of ``embeddings``, the best ``keep`` documents; in the place of
        ``EmbeddingsFilter(embeddings=embeddings, k=20)``, whose ``k`` and ``similarity_threshold`` it takes too.
        ``threshold`` is a cosine, and then ``keep`` is not asked."""
        keep = settings.pop("k", keep)
        threshold = settings.pop("similarity_threshold", threshold)
        rule = {"keep": None if threshold is not None else keep, "threshold": threshold}
        given: dict[str, Any] = {"scorer": embeddings, **rule, **settings}
        return cls(**given)

    @classmethod
    def from_cross_encoder(
        cls, model: BaseCrossEncoder, *, top_n: int | None = 3, **settings: Unpack[CrossEncoded]
    ) -> Self:
        """The best ``top_n`` documents of a cross-encoder, best first; in the place of
        ``CrossEncoderReranker(model=model, top_n=3)``. It reads the text alone, as that does;
        ``header_keys=("title",)`` shows it titles too."""
        n = settings.pop("k", top_n)
        given: dict[str, Any] = {"scorer": model, "top_n": n, "order": "score", "header_keys": (), **settings}
        return cls(**given)

    @classmethod
    def from_decision_model(cls, model: Any, *, threshold: float = 0.0, **settings: Unpack[Numbers]) -> Self:
        """What a decision model finds helpful: log-odds of at least ``threshold``, 0 being even."""
        given: dict[str, Any] = {"scorer": model, "threshold": threshold, **settings}
        return cls(**given)

    @classmethod
    def from_probe(cls, folder: str | Path, model: Any = None, **settings: Unpack[Settings]) -> Self:
        """END with the probe in ``folder``; ``model`` as in `denoise_core.end.ProbeScorer`, or None for the one
        that the probe's card names. Loaded at the first use."""
        given: dict[str, Any] = {"probe": str(folder), "model": model, **settings}
        return cls(**given)

    @classmethod
    def from_file(
        cls, path: str | Path, model: Any = None, *, llm: LLM | None = None, **settings: Unpack[Settings]
    ) -> Self:
        """What ``rag-denoise evaluate`` recommended (its ``denoise.json``), or a folder of ``rag-denoise fit``.

        ``model`` is a probe's and ``llm`` a core LLM, such as ``ChatModelLLM(model)``, where the setting asks one.
        """
        from denoise_core import load_denoiser

        given: dict[str, Any] = {"denoiser": load_denoiser(path, model, llm=llm), **settings}
        return cls(**given)

    @override
    def compress_documents(
        self, documents: Iterable[Document], query: str, callbacks: Callbacks | None = None
    ) -> list[Document]:
        return self.invoke({"documents": documents, "query": query}, {"callbacks": callbacks})

    @override
    async def acompress_documents(
        self, documents: Iterable[Document], query: str, callbacks: Callbacks | None = None
    ) -> list[Document]:
        return await self.ainvoke({"documents": documents, "query": query}, {"callbacks": callbacks})

    @override
    def invoke(self, input: DenoiseInput, config: RunnableConfig | None = None, **kwargs: Any) -> list[Document]:
        _no_arguments(kwargs)
        return self._call_with_config(self._denoise, _read(input), config)

    @override
    async def ainvoke(
        self, input: DenoiseInput, config: RunnableConfig | None = None, **kwargs: Any
    ) -> list[Document]:
        _no_arguments(kwargs)
        return await self._acall_with_config(self._adenoise, _read(input), config)

    def clear(self, query: str, passages: Sequence[Passage]) -> DenoiseResult:
        """Texts of any kind, cut by their structure: what `DenoiseToolResults` does with a tool's result."""
        found: DenoiseResult = cast(Any, self)._call_with_config(self._clear, (query, tuple(passages)), None)
        return found

    async def aclear(self, query: str, passages: Sequence[Passage]) -> DenoiseResult:
        """`clear` without blocking the event loop."""
        run = cast(Any, self)._acall_with_config
        found: DenoiseResult = await run(self._aclear, (query, tuple(passages)), None)
        return found

    @signed
    def _clear(
        self, given: tuple[str, tuple[Passage, ...]], run_manager: ParentRunManager, config: RunnableConfig
    ) -> DenoiseResult:
        query, passages = given
        with at_most(self._bound(config)):
            result = self._cutting(config).denoise(query, passages)
        if is_watched(run_manager):
            about = {"query": query, "texts": len(passages)}
            tell(run_manager, about, bounded_summary_of(passages, result), summary_of(passages, result))
        return result

    @signed
    async def _aclear(
        self, given: tuple[str, tuple[Passage, ...]], run_manager: AsyncParentRunManager, config: RunnableConfig
    ) -> DenoiseResult:
        query, passages = given
        with at_most(self._bound(config)):
            result = await self._cutting(config).adenoise(query, passages)
        if is_watched(run_manager):
            about = {"query": query, "texts": len(passages)}
            await atell(run_manager, about, bounded_summary_of(passages, result), summary_of(passages, result))
        return result

    def _bound(self, config: RunnableConfig) -> int | None:
        """How many model calls at once: the smaller of our own bound and the config's."""
        bounds = [b for b in (self.max_concurrency, config.get("max_concurrency")) if b is not None]
        return min(bounds, default=None)

    def _cutting(self, config: RunnableConfig) -> Guard:
        """The denoiser under the policies, END with the cutting by structure unless ``chunks`` says otherwise."""
        from denoise_core.end import ENDDenoiser

        denoiser = self.denoiser_for(asked_for(config))
        if isinstance(denoiser, ENDDenoiser) and self.chunks is None:
            denoiser = copy.copy(denoiser)
            denoiser.chunker, denoiser.brings = pieces, True
        return Guard(denoiser, on_error=self.on_error, on_empty=self.on_empty)

    @signed
    def _denoise(
        self, input: DenoiseInput, run_manager: ParentRunManager, config: RunnableConfig
    ) -> list[Document]:
        work = _Work(self, input, config)
        with at_most(work.concurrency):
            result = work.finished(work.guard.denoise(work.query, work.passages))
        if is_watched(run_manager):
            tell(run_manager, work.about, *work.summaries(result))
        return work.output(result)

    @signed
    async def _adenoise(
        self, input: DenoiseInput, run_manager: AsyncParentRunManager, config: RunnableConfig
    ) -> list[Document]:
        work = _Work(self, input, config)
        with at_most(work.concurrency):
            result = work.finished(await work.guard.adenoise(work.query, work.passages))
        if is_watched(run_manager):
            await atell(run_manager, work.about, *work.summaries(result))
        return work.output(result)


class _Work:
    """One call's documents as passages, and the denoiser that this call asks for."""

    def __init__(self, settings: DenoiseCompressor, input: Mapping[str, Any], config: RunnableConfig) -> None:
        asked = asked_for(config)
        self.settings = settings
        denoiser = settings.denoiser_for(asked)
        self.guard = Guard(denoiser, on_error=settings.on_error, on_empty=settings.on_empty)
        self.query: str = input["query"]
        self.read = Readable(input["documents"], settings.header_keys, self.guard)
        self.passages = self.read.passages
        self.n = asked.get("k", asked.get("top_n", settings.top_n))
        self.order = asked.get("order", settings.order)
        self.fill = fills(denoiser)
        self.concurrency = settings._bound(config)
        self.about = {"query": self.query, "documents": len(self.passages), "method": type(denoiser).__name__}

    def finished(self, result: DenoiseResult) -> DenoiseResult:
        if self.n is not None:
            result = top(result, self.passages, self.n, fill=self.fill)
        return ordered(result, self.order)

    def output(self, result: DenoiseResult) -> list[Document]:
        """The documents of the result; behind them those that could not be read, where ``on_error`` keeps them."""
        return self.read.back(result, self.settings.record, scores=self.settings._scores)

    def summaries(self, result: DenoiseResult) -> tuple[dict[str, Any], dict[str, Any]]:
        """What is told of the run, bounded and whole."""
        told = replace(result, failures={**result.failures, **self.read.failures})
        return bounded_summary_of(self.passages, told), summary_of(self.passages, told)


def _read(input: Any) -> DenoiseInput:
    try:
        documents, query = input["documents"], input["query"]
    except (KeyError, TypeError):
        raise InputError(
            f"expected {{'documents': [...], 'query': '...'}}, got {_shape(input)}; in a chain, put "
            "RunnablePassthrough.assign(...) or a dict before this step"
        ) from None
    if not isinstance(query, str):
        raise InputError(f"query: expected a str, got {type(query).__name__}")
    return {"documents": read_documents(documents), "query": query}


def _no_arguments(kwargs: Mapping[str, Any]) -> None:
    if kwargs:
        raise InputError(
            f"{', '.join(kwargs)}: a compressor takes settings when it is built, or for one call as "
            "config={'configurable': {'denoise': {...}}}"
        )


def _shape(value: object) -> str:
    return f"a dict with the keys {sorted(value)}" if isinstance(value, dict) else f"a {type(value).__name__}"
