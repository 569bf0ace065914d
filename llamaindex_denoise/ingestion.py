"""`DenoiseTransform`: denoising once, when documents are indexed, for an index that serves one subject."""

from __future__ import annotations

import pickle
from collections.abc import Sequence
from typing import Any, Literal
from uuid import uuid4

from llama_index.core.bridge.pydantic import ConfigDict, Field
from llama_index.core.schema import (
    BaseNode,
    NodeWithScore,
    QueryBundle,
    TransformComponent,
)

from denoise_core import DenoiseResult, __version__
from denoise_core.errors import DenoiseError
from llamaindex_denoise.nodes.convert import NodeBatch
from llamaindex_denoise.postprocessor import DenoisePostprocessor

NOTHING_KEPT_NOTE = (
    "nothing was kept"  # an empty result is a finding; any other fallback is a failure
)


class DenoisingFailure(DenoiseError, RuntimeError):
    """A node came out of an ingestion as it went in, because its model or scorer failed."""


class DenoiseTransform(TransformComponent):
    """Takes out of documents what does not bear on ``subject``, before they are embedded and stored.

    What is dropped here is missing for every later question: use it for boilerplate, with a subject as wide as the
    index (``"what a customer may ask about our hotels"``). Each node is denoised by itself unless ``together``.

    The cache of an `IngestionPipeline` tells two transforms apart by their settings, their prompts and the
    ``cache_key`` of the postprocessor; without a key nothing is read from the cache. LlamaIndex caches whatever a
    transform returns, so a node that could not be denoised raises `DenoisingFailure`: run the pipeline again. With
    ``on_fallback="keep"`` such nodes stay as they are, and nothing is read from the cache.
    """

    model_config = ConfigDict(arbitrary_types_allowed=True, extra="forbid")

    postprocessor: DenoisePostprocessor = Field(exclude=True)
    query: str = Field(
        min_length=1,
        description="What the index is about; takes the place of the question.",
    )
    denoise_together: bool = Field(
        default=False, description="Denoise all nodes of a call as one list."
    )
    on_fallback: Literal["raise", "keep"] = Field(
        default="raise",
        description="What a node that could not be denoised gives: an error, or itself, uncached.",
    )

    @classmethod
    def class_name(cls) -> str:
        return "DenoiseTransform"

    def to_dict(self, **kwargs: Any) -> dict[str, Any]:
        """Settings, those of the postprocessor included; load with ``from_dict(data, postprocessor=...)``."""
        cache_key = self.postprocessor.cache_key
        if cache_key is None or self.on_fallback == "keep":
            cache_key = f"not cached {uuid4().hex}"
        templates = self.postprocessor.get_prompts()
        denoising = {
            **self.postprocessor.to_dict(),
            "cache_key": f"{cache_key}, rag-denoise {__version__}",
            "prompts": {
                name: template.get_template() for name, template in templates.items()
            },
        }
        return {**super().to_dict(**kwargs), "postprocessor": denoising}

    def __getstate__(self) -> dict[str, Any]:
        pickle.dumps(
            self.postprocessor
        )  # raises; LlamaIndex would take it out of this object and of the pickle
        state: dict[str, Any] = super().__getstate__()
        return state

    def __call__(self, nodes: Sequence[BaseNode], **kwargs: Any) -> list[BaseNode]:
        denoised_nodes: list[BaseNode] = []
        for group in self._groups(nodes):
            with self.postprocessor._start_run(group, QueryBundle(self.query)) as run:
                result = run.guard.denoise(run.query, run.node_batch.passages)
                self._check(result, run.node_batch)
                self.postprocessor._set_output(run, result)
            denoised_nodes += [n.node for n in run.output_nodes]
        return denoised_nodes

    async def acall(self, nodes: Sequence[BaseNode], **kwargs: Any) -> list[BaseNode]:
        denoised_nodes: list[BaseNode] = []
        for group in self._groups(nodes):
            with self.postprocessor._start_run(group, QueryBundle(self.query)) as run:
                result = await run.guard.adenoise(run.query, run.node_batch.passages)
                self._check(result, run.node_batch)
                self.postprocessor._set_output(run, result)
            denoised_nodes += [n.node for n in run.output_nodes]
        return denoised_nodes

    def _groups(self, nodes: Sequence[BaseNode]) -> list[list[NodeWithScore]]:
        scored = [NodeWithScore(node=n) for n in nodes]
        return [scored] if self.denoise_together else [[n] for n in scored]

    def _check(self, result: DenoiseResult, read: NodeBatch) -> None:
        """Raise `DenoisingFailure` where a node fell back and the pipeline would cache it."""
        failures = {**result.failures, **read.failures}
        failed = {
            node_id: why
            for node_id, why in failures.items()
            if NOTHING_KEPT_NOTE not in why
        }
        if not failed or self.on_fallback == "keep":
            return
        node_id, why = next(iter(failed.items()))
        raise DenoisingFailure(
            f"{len(failed)} of {len(read.nodes)} nodes were not denoised, {node_id} among them: {why}. LlamaIndex "
            "would cache them as they came; run the pipeline again, or write on_fallback='keep' to cache nothing"
        )
