"""`DenoiseCompressor`: any denoiser as a document compressor or a runnable."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from typing import Any

from langchain_core.callbacks import Callbacks
from langchain_core.documents import BaseDocumentCompressor, Document
from langchain_core.runnables import RunnableConfig
from pydantic import PrivateAttr
from typing_extensions import TypedDict, override

from denoise_core import DenoiseResult, Guard, InputError
from denoise_core.ranking import keep_top, may_fill, order_by_score
from denoise_core.runtime.record import result_summary
from langchain_denoise.convert.documents import (
    Documents,
    describe_value,
    passages_from_documents,
    read_documents,
    restore_documents,
)
from langchain_denoise.observe import (
    AnyRunManager,
    Fields,
    Record,
    RecordedCall,
    RecordedRunnable,
    RunRecord,
)
from langchain_denoise.settings import Denoise, request_settings


class DenoiseInput(TypedDict):
    """What `DenoiseCompressor` takes in a chain."""

    documents: Iterable[Document]
    query: str


class DenoiseCompressor(
    Denoise, RecordedRunnable[DenoiseInput, Documents], BaseDocumentCompressor
):
    """Takes the noise out of retrieved documents.

    One object, three uses: ``base_compressor`` of a ``ContextualCompressionRetriever``,
    a member of a ``DocumentCompressorPipeline``, or a step of a chain that takes
    ``{"documents": ..., "query": ...}``. ``DenoiseCompressor()`` is the offline default;
    ``model=`` takes a chat model, ``scorer=`` embeddings or a cross-encoder, ``denoiser=``
    any denoiser of the core.

    Documents keep their id and metadata; inputs are never changed.
    ``metadata["denoise_spans"]`` gives in JSON the characters of the original document,
    named by its id ``denoise_origin``, that the text was taken from; ``denoise_fallback``
    the reason when the input was returned instead. All of it is flat, so that stores
    accept it, and holds no query. ``metadata["relevance_score"]`` is set when the method
    scores. What was dropped and why is in the span ``denoise_record``, which every tracer
    shows, and in the custom event ``denoise``.

    One request may use other settings:
    ``config={"configurable": {"denoise": {"keep": 0.5, "top_n": 3}}}``, or as usual
    through ``configurable_fields``.

    >>> from langchain_core.documents import Document
    >>> texts = ["Bananas are yellow.", "The tower is 330 m tall."]
    >>> documents = [Document(page_content=text) for text in texts]
    >>> compressor = DenoiseCompressor(keep=1)
    >>> kept = compressor.compress_documents(documents, "How tall is the tower?")
    >>> [document.page_content for document in kept]
    ['The tower is 330 m tall.']
    """

    _write_scores: bool = PrivateAttr(default=True)
    _max_characters: int = PrivateAttr(default=sys.maxsize)

    @classmethod
    @override
    def is_lc_serializable(cls) -> bool:
        return True

    @override
    def compress_documents(
        self,
        documents: Iterable[Document],
        query: str,
        callbacks: Callbacks = None,
    ) -> Documents:
        return self.invoke(
            {"documents": documents, "query": query}, {"callbacks": callbacks}
        )

    @override
    async def acompress_documents(
        self,
        documents: Iterable[Document],
        query: str,
        callbacks: Callbacks = None,
    ) -> Documents:
        return await self.ainvoke(
            {"documents": documents, "query": query}, {"callbacks": callbacks}
        )

    @override
    def invoke(
        self, input: DenoiseInput, config: RunnableConfig | None = None, **kwargs: Any
    ) -> Documents:
        return super().invoke(_validate_input(input, kwargs), config)

    @override
    async def ainvoke(
        self, input: DenoiseInput, config: RunnableConfig | None = None, **kwargs: Any
    ) -> Documents:
        return await super().ainvoke(_validate_input(input, kwargs), config)

    def denoise_texts(self, input: Any) -> Any:
        """Denoise texts of any kind, as `DenoiseToolResults` does with tools' results.

        Args:
            input: ``{"texts": passages, "query": ...}``; or what `invoke` takes.

        Returns:
            The core's result. Texts are chunked by their structure.
        """
        return super().invoke(input)

    async def adenoise_texts(self, input: Any) -> Any:
        """`denoise_texts` without blocking the event loop."""
        return await super().ainvoke(input)

    @override
    def _prepare_call(
        self, input: Any, run: AnyRunManager, config: RunnableConfig, options: Record
    ) -> RecordedCall:
        return _CompressorCall(self, input, run, config)


class _CompressorCall(RecordedCall):
    """One call's documents or texts as passages, and the denoiser for this request."""

    def __init__(
        self,
        settings: DenoiseCompressor,
        input: Fields,
        run: AnyRunManager,
        config: RunnableConfig,
    ) -> None:
        overrides = request_settings(config)
        denoiser = settings.denoiser_for(overrides)
        self.settings = settings
        self.callback_run = run
        self.query: str = input["query"]
        self.documents: Documents | None = input.get("documents")
        if self.documents is not None:
            self.passages = passages_from_documents(
                self.documents, settings.header_keys
            )
        else:
            # Imported here: a compressor of documents does not pay for tools' results.
            from denoise_core.end.tool_results import for_tool_results

            self.passages = tuple(input["texts"])
            max_characters = settings._max_characters
            denoiser = for_tool_results(denoiser, self.passages, max_characters)
        self.guard = Guard(
            denoiser,
            on_error="keep" if settings.shadow else settings.on_error,
            on_empty="drop" if settings.shadow else settings.on_empty,
        )
        self.top_n = overrides.get("top_n", settings.top_n)
        self.order = overrides.get("order", settings.order)
        self.fill_up = may_fill(denoiser)
        self.run_inputs = {
            "query": self.query,
            "texts" if self.documents is None else "documents": len(self.passages),
            "method": type(denoiser).__name__,
            "shadow": settings.shadow,
        }

    @override
    def run(self) -> DenoiseResult:
        return self.finish(self.guard.denoise(self.query, self.passages))

    @override
    async def arun(self) -> DenoiseResult:
        return self.finish(await self.guard.adenoise(self.query, self.passages))

    def finish(self, result: DenoiseResult) -> DenoiseResult:
        """The result with the best documents, in the order of the settings."""
        if self.documents is None:
            return result
        if self.top_n is not None:
            result = keep_top(result, self.passages, self.top_n, fill=self.fill_up)
        return result if self.order == "input" else order_by_score(result)

    @override
    def build_output(self, result: DenoiseResult) -> Any:
        if self.documents is None:
            return result
        if self.settings.shadow:
            return list(self.documents)
        write_scores = self.settings._write_scores or self.order == "score"
        return restore_documents(
            self.documents, self.passages, result, scores=write_scores
        )

    @override
    def record(self, result: DenoiseResult) -> RunRecord:
        if self.settings.shadow:
            from denoise_core.shadow import ShadowCall
            from langchain_denoise.shadow import report_call

            run = self.callback_run
            shadow_call = ShadowCall.from_result(self.passages, result)
            report_call(run.handlers, run.run_id, shadow_call)
        return self.run_inputs, result_summary(self.passages, result)


def _validate_input(input: Any, kwargs: Record) -> DenoiseInput:
    """The input with its documents as a list.

    Raises:
        InputError: For keyword arguments, and for anything but documents and a query.
    """
    if kwargs:
        raise InputError(
            f"{', '.join(kwargs)}: a compressor takes settings when it is built, or for "
            "one call as config={'configurable': {'denoise': {...}}}"
        )
    try:
        documents = input["documents"]
        query = input["query"]
    except (KeyError, TypeError):
        raise InputError(
            f"expected {{'documents': [...], 'query': '...'}}, got "
            f"{describe_value(input)}; in a chain, put RunnablePassthrough.assign(...) "
            "or a dict before this step"
        ) from None
    if not isinstance(query, str):
        raise InputError(f"query: expected a str, got {type(query).__name__}")
    return {"documents": read_documents(documents), "query": query}
