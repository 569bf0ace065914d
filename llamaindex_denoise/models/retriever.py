"""A LlamaIndex retriever as the core's: `RetrieverAdapter`."""

from __future__ import annotations

import copy
from collections.abc import Sequence

from llama_index.core.base.base_retriever import BaseRetriever
from llama_index.core.schema import NodeWithScore, QueryBundle

from denoise_core import InputError, Passage
from llamaindex_denoise.models.threads import Threads, owner
from llamaindex_denoise.nodes.convert import to_passages


class RetrieverAdapter:
    """A LlamaIndex retriever as the core's `Retriever`; its passages remember their nodes.

    A retriever that only has a synchronous form is run on at most ``max_threads`` threads under async.
    A captioned picture is a passage by its caption; nodes without any text are left out.
    """

    def __init__(self, retriever: BaseRetriever, *, max_threads: int = 10) -> None:
        if not isinstance(retriever, BaseRetriever):
            raise InputError(
                f"RetrieverAdapter: expected a llama_index retriever, got {type(retriever).__name__}; "
                "an index gives one with index.as_retriever()"
            )
        self.retriever = retriever
        self._threads = Threads(max_threads)
        self._asked: QueryBundle | None = None

    def asking(self, bundle: QueryBundle) -> RetrieverAdapter:
        """One that searches for ``bundle.query_str`` with the whole bundle (embedding, custom strings, image)."""
        other = copy.copy(self)
        other._asked = bundle
        return other

    def retrieve(self, query: str) -> Sequence[Passage]:
        return to_passages(self.retriever.retrieve(self._bundle(query)), captions=True)

    async def aretrieve(self, query: str) -> Sequence[Passage]:
        found = await retrieve_nodes(self.retriever, self._bundle(query), self._threads)
        return to_passages(found, captions=True)

    def _bundle(self, query: str) -> QueryBundle:
        asked = self._asked
        return asked if asked is not None and asked.query_str == query else QueryBundle(query)


async def retrieve_nodes(retriever: BaseRetriever, query: QueryBundle, threads: Threads) -> list[NodeWithScore]:
    """The retriever's own async form; a thread when it has none (the base class would run it on the loop)."""
    if owner(retriever, "_aretrieve") is BaseRetriever:
        return await threads.run(lambda: retriever.retrieve(query))
    return await retriever.aretrieve(query)
