"""`DenoisingRetriever` goes around your retriever and gives back less; `RetrieverAdapter` serves the core."""

from __future__ import annotations

import inspect
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, Self

from langchain_core.callbacks import (
    AsyncCallbackManagerForRetrieverRun,
    CallbackManagerForRetrieverRun,
)
from langchain_core.documents import Document
from langchain_core.language_models import BaseLanguageModel
from langchain_core.retrievers import BaseRetriever
from langchain_core.runnables import Runnable, RunnableConfig
from langchain_core.runnables.base import RunnableBindingBase
from langchain_core.runnables.config import ensure_config, patch_config
from langchain_core.runnables.configurable import DynamicRunnable
from pydantic import field_validator, model_validator
from typing_extensions import override

from denoise_core import InputError, Passage
from denoise_core.errors import ContractViolation
from denoise_core.runtime.record import RECORD_KEY
from langchain_denoise.compressor import DenoiseCompressor
from langchain_denoise.convert.documents import (
    HEADER_KEYS,
    passages_from_documents,
    read_documents,
    validate_header_keys,
)
from langchain_denoise.convert.messages import internal_config
from langchain_denoise.settings import (
    Denoise,
    PositiveCount,
    RetrieverLike,
    request_settings,
)

_config: ContextVar[RunnableConfig | None] = ContextVar(
    "denoise_retriever_config", default=None
)


@contextmanager
def _called_with(config: RunnableConfig | None) -> Iterator[None]:
    """A call's config for what LangChain calls in turn without it."""
    token = _config.set(ensure_config(config))
    try:
        yield
    finally:
        _config.reset(token)


class DenoisingRetriever(Denoise, BaseRetriever):
    """Retrieves, denoises, and gives back ``k`` documents.

    Settings and records are those of `DenoiseCompressor`, which it runs as its child. What is given with a
    call reaches the inner retriever: its config (``configurable``, tags, ``max_concurrency``, callbacks) and
    its keyword arguments, as in ``retriever.invoke(question, filter={"tenant": "a"})``. ``k`` is ours:
    ``retriever.invoke(question, k=3)``.

    Scores differ from query to query, and what asks several (``MultiQueryRetriever``) drops equal documents:
    they are written with ``order="score"`` and not otherwise.

    >>> from langchain_core.documents import Document
    >>> from langchain_core.runnables import RunnableLambda
    >>> found = [Document(page_content=t) for t in ("Bananas are yellow.", "The tower is 330 m tall.")]
    >>> yours = RunnableLambda(lambda question: found)  # or store.as_retriever()
    >>> [d.page_content for d in DenoisingRetriever(retriever=yours, k=1).invoke("How tall is the tower?")]
    ['The tower is 330 m tall.']
    """

    retriever: RetrieverLike
    """The retriever to ask: any runnable from a question to documents."""

    k: PositiveCount | None = None
    """So many documents come back, if the retriever found so many: ``top_n`` of `DenoiseCompressor`."""

    fetch_k: PositiveCount | None = None
    """How many documents to ask the retriever for, say five times ``k``; None leaves it to the retriever."""

    settings: Denoise | None = None
    """What is set in one object; what is given beside it comes first. None once it is taken."""

    @classmethod
    @override
    def is_lc_serializable(cls) -> bool:
        return True

    @field_validator("retriever")
    @classmethod
    def _is_a_retriever(cls, retriever: Any) -> Any:
        require_retriever(retriever)
        return retriever

    @model_validator(mode="after")
    def _one_number(self) -> Self:
        if self.top_n is not None and self.k is not None and self.top_n != self.k:
            raise InputError(
                f"top_n={self.top_n} and k={self.k}: both say how many come back; give k"
            )
        if self.fetch_k is not None and self.k is not None and self.fetch_k < self.k:
            raise InputError(f"fetch_k={self.fetch_k}: expected at least k={self.k}")
        if self.fetch_k is not None and not _takes(self.retriever, "k"):
            raise InputError(
                f"fetch_k={self.fetch_k}: {type(self.retriever).__name__} takes no k with a call; leave fetch_k "
                "out and set the number of documents on the retriever itself"
            )
        return self

    @override
    def invoke(
        self, input: str, config: RunnableConfig | None = None, **kwargs: Any
    ) -> list[Document]:
        with _called_with(config):
            return super().invoke(input, config, **kwargs)

    @override
    async def ainvoke(
        self, input: str, config: RunnableConfig | None = None, **kwargs: Any
    ) -> list[Document]:
        with _called_with(config):
            return await super().ainvoke(input, config, **kwargs)

    @override
    def _get_relevant_documents(
        self,
        query: str,
        *,
        run_manager: CallbackManagerForRetrieverRun,
        k: int | None = None,
        **kwargs: Any,
    ) -> list[Document]:
        config = patch_config(_config.get(), callbacks=run_manager.get_child())
        found = read_documents(
            self.retriever.invoke(query, config, **self._asked(kwargs)), "retriever"
        )
        return self._compressor.invoke(
            {"documents": found, "query": query}, _with_k(config, k)
        )

    @override
    async def _aget_relevant_documents(
        self,
        query: str,
        *,
        run_manager: AsyncCallbackManagerForRetrieverRun,
        k: int | None = None,
        **kwargs: Any,
    ) -> list[Document]:
        config = patch_config(_config.get(), callbacks=run_manager.get_child())
        found = read_documents(
            await self.retriever.ainvoke(query, config, **self._asked(kwargs)),
            "retriever",
        )
        return await self._compressor.ainvoke(
            {"documents": found, "query": query}, _with_k(config, k)
        )

    def _asked(self, kwargs: dict[str, Any]) -> dict[str, Any]:
        """What goes to the inner retriever with a call. Raises `InputError` for what that would leave out."""
        lost = [name for name in kwargs if not _takes(self.retriever, name)]
        if lost:
            raise InputError(
                f"{', '.join(lost)}: {type(self.retriever).__name__} takes no such argument with a call, and "
                "would leave it out without a word; set it on the retriever itself"
            )
        return {**({} if self.fetch_k is None else {"k": self.fetch_k}), **kwargs}

    @property
    def _compressor(self) -> DenoiseCompressor:
        settings = {name: getattr(self, name) for name in Denoise.model_fields}
        compressor = DenoiseCompressor(
            **{**settings, "top_n": self.top_n if self.k is None else self.k}
        )
        compressor._scores = self.order == "score"
        return compressor


class RetrieverAdapter:
    """A LangChain retriever as the core's `Retriever`.

    A document without an id gets one made from its text, so that the same passage found by two searches
    is known to be the same. ``header_keys`` name the metadata that is read with the text.

    >>> from langchain_core.runnables import RunnableLambda
    >>> yours = RunnableLambda(lambda question: [Document(page_content="The tower is 330 m tall.", id="a")])
    >>> [(p.id, p.text) for p in RetrieverAdapter(yours).retrieve("How tall is the tower?")]
    [('a', 'The tower is 330 m tall.')]
    """

    def __init__(
        self,
        retriever: Runnable[str, list[Document]],
        *,
        header_keys: Sequence[str] = HEADER_KEYS,
    ) -> None:
        require_retriever(retriever)
        self.retriever = retriever
        self.header_keys = tuple(validate_header_keys(header_keys))

    def retrieve(self, query: str) -> Sequence[Passage]:
        return self._passages(self.retriever.invoke(query, internal_config()))

    async def aretrieve(self, query: str) -> Sequence[Passage]:
        return self._passages(await self.retriever.ainvoke(query, internal_config()))

    def _passages(self, found: Sequence[Document]) -> Sequence[Passage]:
        try:
            return passages_from_documents(
                read_documents(found, "found"), self.header_keys
            )
        except InputError as error:
            raise ContractViolation(
                f"{type(self.retriever).__name__}: {error}"
            ) from error


def require_retriever(retriever: Any) -> None:
    """Raises `InputError` for what finds no documents: a vector store, a model, a list."""
    kind = type(retriever).__name__
    if isinstance(retriever, BaseLanguageModel):
        raise InputError(
            f"retriever: expected a LangChain retriever, got {kind}, a model; is it the other way round?"
        )
    if not isinstance(retriever, Runnable):
        hint = "; pass its as_retriever()" if hasattr(retriever, "as_retriever") else ""
        raise InputError(f"retriever: expected a LangChain retriever, got {kind}{hint}")


def _with_k(config: RunnableConfig, k: int | None) -> RunnableConfig:
    """The config with the call's own k, where it gave one."""
    if k is None:
        return config
    return {
        **config,
        "configurable": {
            **config.get("configurable", {}),
            RECORD_KEY: {**request_settings(config), "top_n": k},
        },
    }


def _takes(retriever: Any, name: str) -> bool:
    """Whether ``invoke(query, name=...)`` reaches the search; LangChain drops what a retriever does not take."""
    while isinstance(retriever, (RunnableBindingBase, DynamicRunnable)):
        retriever = (
            retriever.bound
            if isinstance(retriever, RunnableBindingBase)
            else retriever.default
        )
    if not isinstance(retriever, BaseRetriever):
        return True
    accepted = inspect.signature(retriever._get_relevant_documents).parameters.values()
    return any(
        p.name == name or p.kind is inspect.Parameter.VAR_KEYWORD for p in accepted
    )
