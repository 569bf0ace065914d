"""`DenoisingRetriever` wraps your retriever; `RetrieverAdapter` serves it to the core."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from langchain_core.callbacks import (
    AsyncCallbackManagerForRetrieverRun,
    CallbackManagerForRetrieverRun,
)
from langchain_core.documents import Document
from langchain_core.language_models import BaseLanguageModel
from langchain_core.retrievers import BaseRetriever
from langchain_core.runnables import Runnable, RunnableConfig
from langchain_core.runnables.config import patch_config
from pydantic import ConfigDict, Field, field_validator
from typing_extensions import override

from denoise_core import InputError, Passage
from denoise_core.errors import ContractViolation
from denoise_core.runtime.record import RECORD_KEY
from langchain_denoise.compressor import DenoiseCompressor
from langchain_denoise.convert.documents import (
    Documents,
    describe_value,
    passages_from_documents,
    read_documents,
)
from langchain_denoise.convert.messages import internal_config
from langchain_denoise.models.bindings import without_bindings
from langchain_denoise.observe import Record
from langchain_denoise.settings import (
    Denoise,
    PositiveCount,
    RequestSettings,
    RetrieverLike,
    request_settings,
)


class DenoisingRetriever(Denoise, BaseRetriever):
    """Retrieves, denoises, and returns ``k`` documents.

    Settings and records are those of `DenoiseCompressor`, which runs as a child. The
    arguments of a call reach the inner retriever: its config (``configurable``, tags,
    ``max_concurrency``, callbacks) and its keyword arguments, as in
    ``retriever.invoke(question, filter={"tenant": "a"})``. Only ``k`` is used here:
    ``retriever.invoke(question, k=3)``.

    Scores are written with ``order="score"`` and not otherwise: they differ from query to
    query, and a ``MultiQueryRetriever`` merges documents only if they are equal.

    >>> from langchain_core.documents import Document
    >>> from langchain_core.runnables import RunnableLambda
    >>> texts = ["Bananas are yellow.", "The tower is 330 m tall."]
    >>> documents = [Document(page_content=text) for text in texts]
    >>> yours = RunnableLambda(lambda question: documents)  # or store.as_retriever()
    >>> retriever = DenoisingRetriever(retriever=yours, k=1)
    >>> [document.page_content for document in retriever.invoke("How tall is the tower?")]
    ['The tower is 330 m tall.']
    """

    retriever: RetrieverLike
    """The retriever to wrap: any runnable from a question to documents."""

    top_n: PositiveCount | None = Field(default=None, alias="k")
    """How many documents to return, if the retriever found so many: ``top_n`` of
    `DenoiseCompressor`, which is called ``k`` here."""

    model_config = ConfigDict(populate_by_name=True, extra="forbid")

    @classmethod
    @override
    def is_lc_serializable(cls) -> bool:
        return True

    @field_validator("retriever")
    @classmethod
    def _check_retriever(cls, retriever: Any) -> Any:
        require_retriever(retriever)
        return retriever

    @override
    def invoke(
        self, input: str, config: RunnableConfig | None = None, **kwargs: Any
    ) -> Documents:
        # LangChain gives the config to no other method of a retriever.
        return super().invoke(input, config, call_config=config, **kwargs)

    @override
    async def ainvoke(
        self, input: str, config: RunnableConfig | None = None, **kwargs: Any
    ) -> Documents:
        return await super().ainvoke(input, config, call_config=config, **kwargs)

    @override
    def _get_relevant_documents(
        self,
        query: str,
        *,
        run_manager: CallbackManagerForRetrieverRun,
        call_config: RunnableConfig | None = None,
        **kwargs: Any,
    ) -> Documents:
        config = patch_config(call_config, callbacks=run_manager.get_child())
        request, arguments = self._split_arguments(kwargs)
        retrieved = self.retriever.invoke(query, config, **arguments)
        documents = read_documents(retrieved, "retriever")
        return self._compressor.invoke(
            {"documents": documents, "query": query},
            _config_with_settings(config, request),
        )

    @override
    async def _aget_relevant_documents(
        self,
        query: str,
        *,
        run_manager: AsyncCallbackManagerForRetrieverRun,
        call_config: RunnableConfig | None = None,
        **kwargs: Any,
    ) -> Documents:
        config = patch_config(call_config, callbacks=run_manager.get_child())
        request, arguments = self._split_arguments(kwargs)
        retrieved = await self.retriever.ainvoke(query, config, **arguments)
        documents = read_documents(retrieved, "retriever")
        return await self._compressor.ainvoke(
            {"documents": documents, "query": query},
            _config_with_settings(config, request),
        )

    def _split_arguments(self, kwargs: Record) -> tuple[Record, Record]:
        """The settings of this call, and the arguments for the inner retriever.

        Raises:
            InputError: For settings that a call cannot change, and for arguments that
                LangChain would silently leave out.
        """
        request: Record = {}
        arguments: Record = {}
        for name, value in kwargs.items():
            if name == "k":
                if value is not None:
                    request["top_n"] = value
            elif name in RequestSettings.__annotations__:
                request[name] = value
            elif name in Denoise.model_fields:
                raise InputError(
                    f"{name}: set it on the DenoisingRetriever; a call may change "
                    f"{', '.join(RequestSettings.__annotations__)}"
                )
            else:
                arguments[name] = value
        inner = without_bindings(self.retriever)
        if arguments and not getattr(inner, "_expects_other_args", True):
            raise InputError(
                f"{', '.join(arguments)}: {type(inner).__name__} takes no argument with "
                "a call, and LangChain would silently leave it out; set it on the "
                "retriever itself"
            )
        return request, arguments

    @property
    def _compressor(self) -> DenoiseCompressor:
        settings = {name: getattr(self, name) for name in Denoise.model_fields}
        # The settings are checked already.
        compressor = DenoiseCompressor.model_construct(**settings)
        compressor._built = self._built
        # Equal documents of several queries must stay equal to be merged.
        compressor._write_scores = self.order == "score"
        return compressor


class RetrieverAdapter:
    """A LangChain retriever as the core's `Retriever`.

    A document without an id gets one made from its text, so that the same passage found
    by two searches is recognised. Its title is read with the text.

    >>> from langchain_core.runnables import RunnableLambda
    >>> document = Document(page_content="The tower is 330 m tall.", id="a")
    >>> retriever = RetrieverAdapter(RunnableLambda(lambda question: [document]))
    >>> passages = retriever.retrieve("How tall is the tower?")
    >>> [(passage.id, passage.text) for passage in passages]
    [('a', 'The tower is 330 m tall.')]
    """

    def __init__(self, retriever: Runnable[str, Documents]) -> None:
        require_retriever(retriever)
        self.retriever = retriever

    def retrieve(self, query: str) -> Sequence[Passage]:
        """The passages that the retriever finds.

        Raises:
            ContractViolation: If it returns anything but documents.
        """
        return self._to_passages(self.retriever.invoke(query, internal_config()))

    async def aretrieve(self, query: str) -> Sequence[Passage]:
        """`retrieve` for async."""
        return self._to_passages(await self.retriever.ainvoke(query, internal_config()))

    def _to_passages(self, documents: Sequence[Document]) -> Sequence[Passage]:
        try:
            document_list = read_documents(documents, "found")
            return passages_from_documents(document_list)
        except InputError as error:
            raise ContractViolation(
                f"{type(self.retriever).__name__}: {error}"
            ) from error


def require_retriever(retriever: Any) -> None:
    """Check that the object is a retriever, or a runnable that may be one.

    Raises:
        InputError: For a vector store, a model, a list.
    """
    is_model = isinstance(retriever, BaseLanguageModel)
    if is_model or not isinstance(retriever, Runnable):
        raise InputError(
            "retriever: expected a LangChain retriever, got "
            f"{describe_value(retriever)}; a vector store has as_retriever()"
        )


def _config_with_settings(config: RunnableConfig, settings: Record) -> RunnableConfig:
    """The config with the settings of this call."""
    if not settings:
        return config
    request = {**request_settings(config), **settings}
    configurable = {**config.get("configurable", {}), RECORD_KEY: request}
    return {**config, "configurable": configurable}
