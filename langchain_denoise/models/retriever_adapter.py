"""`RetrieverAdapter`: a LangChain retriever as the core's."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from langchain_core.documents import Document
from langchain_core.language_models import BaseLanguageModel
from langchain_core.runnables import Runnable

from denoise_core import InputError, Passage
from denoise_core.errors import BrokenLaw
from langchain_denoise.convert.documents import HEADER_KEYS, checked_keys, read_documents, to_passages
from langchain_denoise.convert.messages import internal_config


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
        self, retriever: Runnable[str, list[Document]], *, header_keys: Sequence[str] = HEADER_KEYS
    ) -> None:
        check_retriever(retriever)
        self.retriever = retriever
        self.header_keys = tuple(checked_keys(header_keys))

    def retrieve(self, query: str) -> Sequence[Passage]:
        return self._passages(self.retriever.invoke(query, internal_config()))

    async def aretrieve(self, query: str) -> Sequence[Passage]:
        return self._passages(await self.retriever.ainvoke(query, internal_config()))

    def _passages(self, found: Sequence[Document]) -> Sequence[Passage]:
        try:
            return to_passages(read_documents(found, "found"), self.header_keys)
        except InputError as error:
            raise BrokenLaw(f"{type(self.retriever).__name__}: {error}") from error


def check_retriever(retriever: Any) -> None:
    """Raises `InputError` for what finds no documents: a vector store, a model, a list."""
    kind = type(retriever).__name__
    if isinstance(retriever, BaseLanguageModel):
        raise InputError(
            f"retriever: expected a LangChain retriever, got {kind}, a model; is it the other way round?"
        )
    if not isinstance(retriever, Runnable):
        hint = "; pass its as_retriever()" if hasattr(retriever, "as_retriever") else ""
        raise InputError(f"retriever: expected a LangChain retriever, got {kind}{hint}")
