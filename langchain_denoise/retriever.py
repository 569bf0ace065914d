"""`DenoisingRetriever`: a retriever around yours that fetches more than it needs and gives back less."""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Self

from langchain_core.callbacks import AsyncCallbackManagerForRetrieverRun, CallbackManagerForRetrieverRun
from langchain_core.documents import Document
from langchain_core.retrievers import BaseRetriever, RetrieverLike
from pydantic import ConfigDict, Field, model_validator
from typing_extensions import override

from denoise_core import Denoiser, DenoiseResult, Drop, Guard, InputError, Passage
from denoise_core.running.guard import Policy
from langchain_denoise.compressor import DenoiseCompressor


class DenoisingRetriever(BaseRetriever):
    """Retrieves, denoises, and keeps at most ``k`` documents.

    The settings and the records are those of `DenoiseCompressor`, which it runs as its child. ``k`` can also
    be given with a call: ``retriever.invoke(question, k=3)``.
    """

    retriever: RetrieverLike
    """The retriever to ask: from a question to documents."""

    denoiser: Denoiser
    """Any `denoise_core.Denoiser`."""

    k: int | None = Field(default=None, ge=1)
    """At most this many documents come back: those with the best scores, or the first if there are none."""

    fetch_k: int | None = Field(default=None, ge=1)
    """How many documents to ask the retriever for, say five times ``k``; None leaves it to the retriever."""

    on_error: Policy = "keep"
    on_empty: Policy = "keep"
    max_concurrency: int | None = Field(default=None, ge=1)

    model_config = ConfigDict(arbitrary_types_allowed=True, extra="forbid")

    @model_validator(mode="after")
    def _fetches_enough(self) -> Self:
        if self.fetch_k is not None and self.k is not None and self.fetch_k < self.k:
            raise InputError(f"fetch_k={self.fetch_k}: expected at least k={self.k}")
        if self.fetch_k is not None and not _takes_k(self.retriever):
            raise InputError(
                f"fetch_k={self.fetch_k}: {type(self.retriever).__name__} takes no k with a call; leave fetch_k "
                "out and set the number of documents on the retriever itself"
            )
        return self

    @override
    def _get_relevant_documents(
        self, query: str, *, run_manager: CallbackManagerForRetrieverRun, k: int | None = None
    ) -> list[Document]:
        child = run_manager.get_child()
        found = self.retriever.invoke(query, {"callbacks": child}, **self._asked())
        return self._compressor(k).compress_documents(found, query, callbacks=child)

    @override
    async def _aget_relevant_documents(
        self, query: str, *, run_manager: AsyncCallbackManagerForRetrieverRun, k: int | None = None
    ) -> list[Document]:
        child = run_manager.get_child()
        found = await self.retriever.ainvoke(query, {"callbacks": child}, **self._asked())
        return await self._compressor(k).acompress_documents(found, query, callbacks=child)

    def _asked(self) -> dict[str, Any]:
        return {} if self.fetch_k is None else {"k": self.fetch_k}

    def _compressor(self, k: int | None) -> DenoiseCompressor:
        k = self.k if k is None else k
        denoiser = self.denoiser
        if k is not None:
            denoiser = Best(Guard(denoiser, on_error=self.on_error, on_empty=self.on_empty), k)
        return DenoiseCompressor(
            denoiser=denoiser,
            on_error=self.on_error,
            on_empty=self.on_empty,
            max_concurrency=self.max_concurrency,
        )


class Best:
    """Keeps the ``k`` best passages of another denoiser's result, in their order; drops the rest with a reason."""

    def __init__(self, denoiser: Denoiser, k: int) -> None:
        if k < 1:
            raise InputError(f"k={k}: expected 1 or more")
        self.denoiser = denoiser
        self.k = k

    def denoise(self, query: str, passages: Sequence[Passage]) -> DenoiseResult:
        return self._cut(self.denoiser.denoise(query, passages))

    async def adenoise(self, query: str, passages: Sequence[Passage]) -> DenoiseResult:
        return self._cut(await self.denoiser.adenoise(query, passages))

    def _cut(self, result: DenoiseResult) -> DenoiseResult:
        places = list(range(len(result.passages)))
        scores = [p.score for p in result.passages if p.score is not None]
        if len(scores) == len(places):
            places.sort(key=lambda i: -scores[i])  # stable: of equals the earlier one stays
        best = set(places[: self.k])
        if len(best) == len(places):
            return result
        cut = [p for i, p in enumerate(result.passages) if i not in best]
        lost = {s for p in cut for s in p.covered}
        return replace(
            result,
            passages=tuple(p for i, p in enumerate(result.passages) if i in best),
            dropped=(
                *result.dropped,
                *(Drop(s, f"not among the best {self.k}", p.score) for p in cut for s in p.covered),
            ),
            kept=tuple(c for c in result.kept if c.span not in lost),
        )


def _takes_k(retriever: object) -> bool:
    """Whether ``invoke(query, k=...)`` reaches the search; LangChain drops what a retriever does not take."""
    if not isinstance(retriever, BaseRetriever):
        return True
    accepted = inspect.signature(retriever._get_relevant_documents).parameters.values()
    return any(p.name == "k" or p.kind is inspect.Parameter.VAR_KEYWORD for p in accepted)
