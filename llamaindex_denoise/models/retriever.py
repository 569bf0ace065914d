"""A LlamaIndex retriever as the core's: `RetrieverAdapter`."""

from __future__ import annotations

import copy
from collections.abc import Sequence

from llama_index.core.base.base_retriever import BaseRetriever
from llama_index.core.postprocessor.types import BaseNodePostprocessor
from llama_index.core.schema import NodeWithScore, QueryBundle

from denoise_core import InputError, Passage
from llamaindex_denoise.models.threads import AdapterThreads, defining_class
from llamaindex_denoise.nodes.convert import to_passages


class LlamaRetriever:
    """A LlamaIndex retriever as the core's `Retriever`; its passages remember their nodes.

    ``postprocessors`` run on what it finds. A retriever that only has a synchronous form is run on at most
    ``max_threads`` threads under async. A captioned picture is a passage by its caption; nodes without any text
    are left out. Raises `InputError` for something that is no retriever.
    """

    _asked: QueryBundle | None = None

    def __init__(
        self,
        retriever: BaseRetriever,
        postprocessors: Sequence[BaseNodePostprocessor] = (),
        max_threads: int = 10,
    ) -> None:
        if not isinstance(retriever, BaseRetriever):
            raise InputError(
                f"expected a llama_index retriever, got {type(retriever).__name__}; "
                "an index gives one with index.as_retriever()"
            )
        self.retriever = retriever
        self.postprocessors = list(postprocessors)
        self._threads = AdapterThreads(max_threads)

    def retrieve_nodes(self, query: QueryBundle) -> list[NodeWithScore]:
        found = self.retriever.retrieve(query)
        for postprocessor in self.postprocessors:
            found = postprocessor.postprocess_nodes(found, query_bundle=query)
        return found

    async def aretrieve_nodes(self, query: QueryBundle) -> list[NodeWithScore]:
        """As `nodes`; a retriever without an async form is asked on a thread (its base class would hold the
        loop)."""
        if defining_class(self.retriever, "_aretrieve") is BaseRetriever:
            found = await self._threads.run(lambda: self.retriever.retrieve(query))
        else:
            found = await self.retriever.aretrieve(query)
        for postprocessor in self.postprocessors:
            found = await postprocessor.apostprocess_nodes(found, query_bundle=query)
        return found

    def with_query_bundle(self, bundle: QueryBundle) -> LlamaRetriever:
        """One that searches for ``bundle.query_str`` with the whole bundle (embedding, custom strings, image)."""
        other = copy.copy(self)
        other._asked = bundle
        return other

    def retrieve(self, query: str) -> Sequence[Passage]:
        return to_passages(
            self.retrieve_nodes(self._bundle(query)), include_captions=True
        )

    async def aretrieve(self, query: str) -> Sequence[Passage]:
        return to_passages(
            await self.aretrieve_nodes(self._bundle(query)), include_captions=True
        )

    def _bundle(self, query: str) -> QueryBundle:
        asked = self._asked
        return (
            asked
            if asked is not None and asked.query_str == query
            else QueryBundle(query)
        )
