"""A LlamaIndex retriever as the core's: `RetrieverAdapter`."""

from __future__ import annotations

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

    def retrieve(self, query: str) -> Sequence[Passage]:
        return to_passages(self.retriever.retrieve(query), captions=True)

    async def aretrieve(self, query: str) -> Sequence[Passage]:
        return to_passages(await retrieve_nodes(self.retriever, QueryBundle(query), self._threads), captions=True)


async def retrieve_nodes(retriever: BaseRetriever, query: QueryBundle, threads: Threads) -> list[NodeWithScore]:
    """The retriever's own async form; a thread when it has none (the base class would run it on the loop)."""
    if owner(retriever, "_aretrieve") is BaseRetriever:
        return await threads.run(lambda: retriever.retrieve(query))
    return await retriever.aretrieve(query)
