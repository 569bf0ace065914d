"""`DenoiseCompressor`: any denoiser wherever LangChain takes a document compressor or a runnable."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from langchain_core.callbacks import (
    AsyncParentRunManager,
    Callbacks,
    ParentRunManager,
    adispatch_custom_event,
    dispatch_custom_event,
)
from langchain_core.documents import BaseDocumentCompressor, Document
from langchain_core.runnables import RunnableConfig, RunnableSerializable
from pydantic import ConfigDict, Field
from typing_extensions import TypedDict, override

from denoise_core import Denoiser, Guard, InputError, Passage
from denoise_core.running.bound import at_most
from denoise_core.running.guard import Policy
from denoise_core.running.record import summary_of
from langchain_denoise._convert import to_documents, to_passages


class DenoiseInput(TypedDict):
    """What `DenoiseCompressor` takes in a chain."""

    documents: Sequence[Document]
    query: str


class DenoiseCompressor(RunnableSerializable[DenoiseInput, list[Document]], BaseDocumentCompressor):
    """Takes the noise out of retrieved documents.

    One object, three places: ``base_compressor`` of a ``ContextualCompressionRetriever``, a member of a
    ``DocumentCompressorPipeline``, or a step of a chain that takes ``{"documents": ..., "query": ...}``.

    Documents keep their id, metadata and order; inputs are never changed. ``metadata["denoise"]`` says in
    plain JSON which characters of the original each text stands for, what was dropped and why, and whether
    the input was handed back instead (``fallback``). ``metadata["relevance_score"]`` is set when the method
    scores. A ``denoise`` custom event carries the record of the whole call, dropped documents included.
    """

    denoiser: Denoiser
    """Any `denoise_core.Denoiser`."""

    on_error: Policy = "keep"
    """What an exception gives: the input (``"keep"``), nothing (``"drop"``), or the exception (``"raise"``)."""

    on_empty: Policy = "keep"
    """The same for a result that keeps nothing; ``"raise"`` is `denoise_core.EmptyResult`."""

    max_concurrency: int | None = Field(default=None, ge=1)
    """At most this many model calls of one denoising at once; None leaves it to the denoiser's own bound."""

    model_config = ConfigDict(arbitrary_types_allowed=True, extra="forbid")

    @override
    def compress_documents(
        self, documents: Sequence[Document], query: str, callbacks: Callbacks | None = None
    ) -> list[Document]:
        return self.invoke({"documents": documents, "query": query}, {"callbacks": callbacks})

    @override
    async def acompress_documents(
        self, documents: Sequence[Document], query: str, callbacks: Callbacks | None = None
    ) -> list[Document]:
        return await self.ainvoke({"documents": documents, "query": query}, {"callbacks": callbacks})

    @override
    def invoke(self, input: DenoiseInput, config: RunnableConfig | None = None, **kwargs: Any) -> list[Document]:
        return self._call_with_config(self._denoise, input, config)

    @override
    async def ainvoke(
        self, input: DenoiseInput, config: RunnableConfig | None = None, **kwargs: Any
    ) -> list[Document]:
        return await self._acall_with_config(self._adenoise, input, config)

    def _denoise(
        self, input: DenoiseInput, run_manager: ParentRunManager, config: RunnableConfig
    ) -> list[Document]:
        documents, passages, query = _read(input)
        with at_most(self._bound(config)):
            result = self._guarded().denoise(query, passages)
        dispatch_custom_event("denoise", summary_of(passages, result))
        return to_documents(documents, passages, result)

    async def _adenoise(
        self, input: DenoiseInput, run_manager: AsyncParentRunManager, config: RunnableConfig
    ) -> list[Document]:
        documents, passages, query = _read(input)
        with at_most(self._bound(config)):
            result = await self._guarded().adenoise(query, passages)
        await adispatch_custom_event("denoise", summary_of(passages, result))
        return to_documents(documents, passages, result)

    def _guarded(self) -> Guard:
        return Guard(self.denoiser, on_error=self.on_error, on_empty=self.on_empty)

    def _bound(self, config: RunnableConfig) -> int | None:
        """The smaller of our own limit and that of the run around us."""
        bounds = [b for b in (self.max_concurrency, config.get("max_concurrency")) if b is not None]
        return min(bounds, default=None)


def _read(input: DenoiseInput) -> tuple[Sequence[Document], tuple[Passage, ...], str]:
    try:
        documents, query = input["documents"], input["query"]
    except (KeyError, TypeError):
        raise InputError(
            f"expected {{'documents': [...], 'query': '...'}}, got {_shape(input)}; in a chain, put "
            "RunnablePassthrough.assign(...) or a dict before this step"
        ) from None
    if not isinstance(query, str):
        raise InputError(f"query: expected a str, got {type(query).__name__}")
    return documents, to_passages(documents), query


def _shape(value: object) -> str:
    return f"a dict with the keys {sorted(value)}" if isinstance(value, dict) else f"a {type(value).__name__}"
