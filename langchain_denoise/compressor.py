"""`DenoiseCompressor`: any denoiser wherever LangChain takes a document compressor or a runnable."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from langchain_core.callbacks import AsyncParentRunManager, Callbacks, ParentRunManager
from langchain_core.documents import BaseDocumentCompressor, Document
from langchain_core.runnables import RunnableConfig, RunnableSerializable
from pydantic import PrivateAttr
from typing_extensions import TypedDict, override

from denoise_core import Denoiser, DenoiseResult, Guard, InputError, Passage
from denoise_core._frameworks import cache_signature
from denoise_core.ranking import keep_top, may_fill, order_by_score
from denoise_core.runtime.budget import limit_concurrency
from langchain_denoise.convert.documents import DocumentBatch, read_documents
from langchain_denoise.observe import (
    SUMMARY_FUNCTIONS,
    aemit_record,
    emit_record,
    has_listeners,
)
from langchain_denoise.settings import Denoise, request_settings


class DenoiseInput(TypedDict):
    """What `DenoiseCompressor` takes in a chain."""

    documents: Iterable[Document]
    query: str


class DenoiseCompressor(
    Denoise, RunnableSerializable[DenoiseInput, list[Document]], BaseDocumentCompressor
):
    """Takes the noise out of retrieved documents.

    One object, three places: ``base_compressor`` of a ``ContextualCompressionRetriever``, a member of a
    ``DocumentCompressorPipeline``, or a step of a chain that takes ``{"documents": ..., "query": ...}``.
    ``DenoiseCompressor()`` is the offline default; `from_llm`, `from_embeddings`, `from_cross_encoder`
    and `from_probe` build on what you have; ``denoiser=`` takes any denoiser of the core.

    Documents keep their id and metadata; inputs are never changed. ``metadata["denoise_spans"]`` says in JSON
    which characters of the original, by its id ``denoise_origin``, each text stands for; ``denoise_fallback``
    whether the input was handed back instead. All of it is flat, so that stores take it, and holds no query.
    ``metadata["relevance_score"]`` is set when the method scores. What was dropped and why is in the span
    ``denoise_record``, which every tracer shows, and whole in the custom event ``denoise``.

    One request may ask for other settings: ``config={"configurable": {"denoise": {"keep": 0.5, "top_n": 3}}}``, or
    as usual through ``configurable_fields``.

    >>> from langchain_core.documents import Document
    >>> found = [Document(page_content=t) for t in ("Bananas are yellow.", "The tower is 330 m tall.")]
    >>> [d.page_content for d in DenoiseCompressor(keep=1).compress_documents(found, "How tall is the tower?")]
    ['The tower is 330 m tall.']
    """

    settings: Denoise | None = None
    """What is set in one object; what is given beside it comes first. None once it is taken."""

    _scores: bool = PrivateAttr(default=True)

    @classmethod
    @override
    def is_lc_serializable(cls) -> bool:
        return True

    @override
    def compress_documents(
        self,
        documents: Iterable[Document],
        query: str,
        callbacks: Callbacks | None = None,
    ) -> list[Document]:
        return self.invoke(
            {"documents": documents, "query": query}, {"callbacks": callbacks}
        )

    @override
    async def acompress_documents(
        self,
        documents: Iterable[Document],
        query: str,
        callbacks: Callbacks | None = None,
    ) -> list[Document]:
        return await self.ainvoke(
            {"documents": documents, "query": query}, {"callbacks": callbacks}
        )

    @override
    def invoke(
        self, input: DenoiseInput, config: RunnableConfig | None = None, **kwargs: Any
    ) -> list[Document]:
        return self._call_with_config(self._denoise, _read(input, kwargs), config)

    @override
    async def ainvoke(
        self, input: DenoiseInput, config: RunnableConfig | None = None, **kwargs: Any
    ) -> list[Document]:
        return await self._acall_with_config(
            self._adenoise, _read(input, kwargs), config
        )

    def denoise_texts(self, input: Any, config: RunnableConfig | None) -> Any:
        """`invoke`, or of ``{"texts": passages, "query": ...}`` the core's result: texts of any kind, cut by their
        structure, as `DenoiseToolResults` has a tool's result denoised."""
        return self._call_with_config(self._denoise, input, config)

    async def adenoise_texts(self, input: Any, config: RunnableConfig | None) -> Any:
        """`clear` without blocking the event loop."""
        return await self._acall_with_config(self._adenoise, input, config)

    @cache_signature
    def _denoise(
        self, input: DenoiseInput, run_manager: ParentRunManager, config: RunnableConfig
    ) -> Any:
        work = self._work(input, config)
        with limit_concurrency(work.concurrency):
            result = work.finished(work.guard.denoise(work.query, work.passages))
        if has_listeners(run_manager):
            emit_record(run_manager, work.about, *work.summaries(result))
        return work.output(result)

    @cache_signature
    async def _adenoise(
        self,
        input: DenoiseInput,
        run_manager: AsyncParentRunManager,
        config: RunnableConfig,
    ) -> Any:
        work = self._work(input, config)
        with limit_concurrency(work.concurrency):
            result = work.finished(await work.guard.adenoise(work.query, work.passages))
        if has_listeners(run_manager):
            await aemit_record(run_manager, work.about, *work.summaries(result))
        return work.output(result)

    def _work(self, input: Mapping[str, Any], config: RunnableConfig) -> _Work:
        return (_Documents if "documents" in input else _Work)(self, input, config)


class _Work:
    """One call's texts as passages, and the denoiser that this call asks for: END with the cutting by structure,
    unless ``chunks`` says otherwise."""

    of = "texts"

    def __init__(
        self,
        settings: DenoiseCompressor,
        input: Mapping[str, Any],
        config: RunnableConfig,
    ) -> None:
        asked = request_settings(config)
        self.settings = settings
        self.query: str = input["query"]
        denoiser = self.denoiser(settings.denoiser_for(asked), input[self.of])
        self.guard = Guard(
            denoiser, on_error=settings.on_error, on_empty=settings.on_empty
        )
        self.passages: Sequence[Passage] = self.read(input[self.of])
        self.n = asked.get("top_n", settings.top_n)
        self.order = asked.get("order", settings.order)
        self.fill = may_fill(denoiser)
        bounds = (
            b
            for b in (settings.max_concurrency, config.get("max_concurrency"))
            if b is not None
        )
        self.concurrency = min(bounds, default=None)
        self.about = {
            "query": self.query,
            self.of: len(self.passages),
            "method": type(denoiser).__name__,
        }

    def denoiser(self, chosen: Denoiser, given: Any) -> Denoiser:
        from denoise_core.end.results import for_tool_results

        return (
            for_tool_results(chosen, given) if self.settings.chunks is None else chosen
        )

    def read(self, given: Any) -> Sequence[Passage]:
        return tuple(given)

    def finished(self, result: DenoiseResult) -> DenoiseResult:
        return result

    def output(self, result: DenoiseResult) -> Any:
        return result

    def summaries(self, result: DenoiseResult) -> tuple[dict[str, Any], dict[str, Any]]:
        """What is told of the run, bounded and whole."""
        return SUMMARY_FUNCTIONS[0](self.passages, result), SUMMARY_FUNCTIONS[1](
            self.passages, result
        )


class _Documents(_Work):
    """One call's documents."""

    of = "documents"

    def denoiser(self, chosen: Denoiser, given: Any) -> Denoiser:
        return chosen

    def read(self, given: Any) -> Sequence[Passage]:
        self.converted = DocumentBatch(given, self.settings.header_keys, self.guard)
        return self.converted.passages

    def finished(self, result: DenoiseResult) -> DenoiseResult:
        if self.n is not None:
            result = keep_top(result, self.passages, self.n, fill=self.fill)
        return result if self.order == "input" else order_by_score(result)

    def output(self, result: DenoiseResult) -> list[Document]:
        """The documents of the result; behind them those that could not be read, where ``on_error`` keeps them."""
        scores = self.settings._scores or self.order == "score"
        return self.converted.restore_documents(
            result, self.settings.record, scores=scores
        )

    def summaries(self, result: DenoiseResult) -> tuple[dict[str, Any], dict[str, Any]]:
        return super().summaries(
            replace(result, failures={**result.failures, **self.converted.failures})
        )


def _read(input: Any, kwargs: Mapping[str, Any]) -> DenoiseInput:
    if kwargs:
        raise InputError(
            f"{', '.join(kwargs)}: a compressor takes settings when it is built, or for one call as "
            "config={'configurable': {'denoise': {...}}}"
        )
    try:
        documents, query = input["documents"], input["query"]
    except (KeyError, TypeError):
        got = (
            f"a dict with the keys {sorted(input)}"
            if isinstance(input, dict)
            else f"a {type(input).__name__}"
        )
        raise InputError(
            f"expected {{'documents': [...], 'query': '...'}}, got {got}; in a chain, put "
            "RunnablePassthrough.assign(...) or a dict before this step"
        ) from None
    if not isinstance(query, str):
        raise InputError(f"query: expected a str, got {type(query).__name__}")
    return {"documents": read_documents(documents), "query": query}
