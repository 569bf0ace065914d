"""`DenoiseTransform`: denoise documents once, when they are indexed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal
from uuid import uuid4

from llama_index.core.bridge.pydantic import ConfigDict, Field
from llama_index.core.schema import BaseNode, NodeWithScore, TransformComponent

from denoise_core import DenoiseResult, __version__
from denoise_core.errors import DenoiseError
from denoise_core.runtime.budget import limit_concurrency
from denoise_core.runtime.thread_pool import run_in_pool
from llamaindex_denoise.nodes.convert import NodeBatch
from llamaindex_denoise.postprocessor import DenoisePostprocessor

# An empty result is a finding; any other fallback is a failure.
NOTHING_KEPT_NOTE = "nothing was kept"


class DenoisingFailure(DenoiseError, RuntimeError):
    """A node was not denoised, because its model or scorer failed."""


class DenoiseTransform(TransformComponent):
    """Removes what is irrelevant to ``query`` before nodes are embedded and stored.

    Each node is denoised by itself. What is dropped here is missing for every later
    question. Use it for boilerplate,
    with a query as wide as the index (``"what a customer may ask about our hotels"``).

    The cache of an `IngestionPipeline` identifies a transform by its settings and the
    ``cache_name`` of the postprocessor; without a name nothing is read from it.
    LlamaIndex caches what a transform returns, so a node that could not be denoised
    raises `DenoisingFailure`: run the pipeline again. With
    ``on_fallback="keep"`` such nodes stay unchanged and nothing is read from the cache.
    """

    model_config = ConfigDict(arbitrary_types_allowed=True, extra="forbid")

    postprocessor: DenoisePostprocessor = Field(exclude=True)
    query: str = Field(
        pattern=r"\S", description="What the index is about; replaces the question."
    )
    on_fallback: Literal["raise", "keep"] = Field(
        default="raise",
        description="For a node that could not be denoised: 'raise', or 'keep' it and "
        "cache nothing.",
    )

    @classmethod
    def class_name(cls) -> str:
        """Return the name under which LlamaIndex serialises this class."""
        return "DenoiseTransform"

    def to_dict(self, **kwargs: Any) -> dict[str, Any]:
        """Return the settings, with those of the postprocessor.

        Load them with ``from_dict(data, postprocessor=...)``.
        """
        cache_key = self.postprocessor.cache_name
        if cache_key is None or self.on_fallback == "keep":
            cache_key = f"not cached {uuid4().hex}"
        settings = self.postprocessor.to_dict()
        settings["cache_key"] = f"{cache_key}, rag-denoise {__version__}"
        return {**super().to_dict(**kwargs), "postprocessor": settings}

    def __call__(self, nodes: Sequence[BaseNode], **kwargs: Any) -> list[BaseNode]:
        """Return the denoised nodes.

        Raises:
            DenoisingFailure: A node could not be denoised.
        """
        output_nodes = []
        for node in nodes:
            node_batch = self.postprocessor.read_nodes([NodeWithScore(node=node)])
            with limit_concurrency(self.postprocessor.max_concurrency):
                result = node_batch.guard.denoise(self.query, node_batch.passages)
            output_nodes += self._finish(node_batch, result)
        return output_nodes

    async def acall(self, nodes: Sequence[BaseNode], **kwargs: Any) -> list[BaseNode]:
        """Return the denoised nodes; this object is called on a thread."""
        return await run_in_pool(self, nodes)

    def _finish(self, node_batch: NodeBatch, result: DenoiseResult) -> list[BaseNode]:
        """The output; raises if the node fell back, since the pipeline would cache it."""
        failures = {**result.failures, **node_batch.failures}
        for node_id, reason in failures.items():
            if self.on_fallback == "raise" and NOTHING_KEPT_NOTE not in reason:
                raise DenoisingFailure(
                    f"node {node_id} was not denoised: {reason}. LlamaIndex would cache "
                    "it unchanged; run the pipeline again, or set on_fallback='keep' to "
                    "cache nothing"
                )
        scored_nodes = self.postprocessor.build_output(node_batch, result)
        return [scored_node.node for scored_node in scored_nodes]
