"""`DenoiseTransform`: denoising once, when documents are indexed, for an index that serves one subject."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from llama_index.core.bridge.pydantic import ConfigDict, Field
from llama_index.core.schema import BaseNode, NodeWithScore, TransformComponent

from denoise_core.running.record import KEY
from llamaindex_denoise.postprocessor import DenoisePostprocessor


class DenoiseTransform(TransformComponent):
    """Takes out of documents what does not bear on ``subject``, before they are embedded and stored.

    What is dropped here is gone for every later question: use it for boilerplate, with a subject as wide as the
    index (``"what a customer may ask about our hotels"``), and denoise per question at query time. Each node is
    seen by itself unless ``together``, so that a share kept means a share of every node.

    ``flat`` stores the record as a JSON string, for vector stores that take only flat metadata. The cache key
    of an `IngestionPipeline` changes with every setting of the denoiser, its model and prompts included.
    """

    model_config = ConfigDict(arbitrary_types_allowed=True, extra="forbid")

    postprocessor: DenoisePostprocessor = Field(exclude=True)
    subject: str = Field(min_length=1, description="What the index is about; takes the place of the question.")
    together: bool = Field(default=False, description="Denoise all nodes of a call as one list.")
    flat: bool = Field(default=False, description="Store the record as a JSON string.")

    @classmethod
    def class_name(cls) -> str:
        return "DenoiseTransform"

    def to_dict(self, **kwargs: Any) -> dict[str, Any]:
        """Settings, those of the postprocessor included; load with ``from_dict(data, postprocessor=...)``."""
        return {**super().to_dict(**kwargs), "postprocessor": self.postprocessor.to_dict()}

    def __call__(self, nodes: Sequence[BaseNode], **kwargs: Any) -> list[BaseNode]:
        out: list[BaseNode] = []
        for group in self._groups(nodes):
            out += self._stored(self.postprocessor.postprocess_nodes(group, query_str=self.subject))
        return out

    async def acall(self, nodes: Sequence[BaseNode], **kwargs: Any) -> list[BaseNode]:
        out: list[BaseNode] = []
        for group in self._groups(nodes):
            out += self._stored(await self.postprocessor.apostprocess_nodes(group, query_str=self.subject))
        return out

    def _groups(self, nodes: Sequence[BaseNode]) -> list[list[NodeWithScore]]:
        scored = [NodeWithScore(node=n) for n in nodes]
        return [scored] if self.together else [[n] for n in scored]

    def _stored(self, found: Sequence[NodeWithScore]) -> list[BaseNode]:
        nodes = [n.node for n in found]
        for node in nodes:
            if self.flat and KEY in node.metadata:
                node.metadata[KEY] = json.dumps(node.metadata[KEY])
        return nodes
