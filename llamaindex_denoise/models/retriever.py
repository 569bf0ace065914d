"""`LlamaRetriever`: a LlamaIndex retriever as the core's `Retriever`."""

from __future__ import annotations

from collections.abc import Sequence

from llama_index.core.base.base_retriever import BaseRetriever
from llama_index.core.schema import NodeWithScore, QueryBundle

from denoise_core import InputError, Passage
from denoise_core.runtime.thread_pool import run_in_pool
from llamaindex_denoise.nodes.convert import can_be_evidence, to_passages


class LlamaRetriever:
    """A LlamaIndex retriever as the core's `Retriever`; passages remember their nodes.

    A captioned picture becomes a passage of its caption; nodes without text are left
    out.

    Args:
        retriever: The LlamaIndex retriever.

    Raises:
        InputError: ``retriever`` is not a LlamaIndex retriever.
    """

    def __init__(self, retriever: BaseRetriever) -> None:
        if not isinstance(retriever, BaseRetriever):
            raise InputError(
                f"expected a llama_index retriever, got {type(retriever).__name__}; "
                "write index.as_retriever()"
            )
        self.retriever = retriever

    def retrieve(self, query: str) -> Sequence[Passage]:
        """Return the retrieved passages."""
        return _to_evidence(self.retriever.retrieve(QueryBundle(query)))

    async def aretrieve(self, query: str) -> Sequence[Passage]:
        """Return `retrieve`'s passages; a retriever without async gets a thread."""
        # The base class would run the synchronous form on the event loop.
        if defining_class(self.retriever, "_aretrieve") is BaseRetriever:
            return await run_in_pool(self.retrieve, query)
        return _to_evidence(await self.retriever.aretrieve(QueryBundle(query)))


def _to_evidence(nodes: Sequence[NodeWithScore]) -> tuple[Passage, ...]:
    return to_passages([n for n in nodes if can_be_evidence(n.node)])


def defining_class(instance: object, method: str) -> type | None:
    """Return the class that defines ``method`` for this object.

    LlamaIndex wraps methods, so comparing the functions would not work.
    """
    for base_class in type(instance).__mro__:
        if method in vars(base_class):
            return base_class
    return None
