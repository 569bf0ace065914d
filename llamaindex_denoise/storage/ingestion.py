"""`DenoiseTransform`: denoising once, when documents are indexed, for an index that serves one subject."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Any
from uuid import uuid4

from llama_index.core.bridge.pydantic import ConfigDict, Field
from llama_index.core.schema import BaseNode, NodeWithScore, TransformComponent

from llamaindex_denoise.postprocessor import DenoisePostprocessor
from llamaindex_denoise.storage.fingerprint import fingerprint

log = logging.getLogger(__name__)


class DenoiseTransform(TransformComponent):
    """Takes out of documents what does not bear on ``subject``, before they are embedded and stored.

    What is dropped here is gone for every later question: use it for boilerplate, with a subject as wide as the
    index (``"what a customer may ask about our hotels"``), and denoise per question at query time. Each node is
    seen by itself unless ``together``, so that a share kept means a share of every node.

    The cache key of an `IngestionPipeline` changes with the denoiser's code, settings, prompts, weights and files
    (`storage.fingerprint`), and not with credentials and time-outs. When something in it cannot be read, a warning
    names it and nothing is taken from the cache. It goes to other processes (``num_workers``) if its denoiser
    pickles; if not, pickle says why.
    """

    model_config = ConfigDict(arbitrary_types_allowed=True, extra="forbid")

    postprocessor: DenoisePostprocessor = Field(exclude=True)
    subject: str = Field(min_length=1, description="What the index is about; takes the place of the question.")
    together: bool = Field(default=False, description="Denoise all nodes of a call as one list.")

    @classmethod
    def class_name(cls) -> str:
        return "DenoiseTransform"

    def to_dict(self, **kwargs: Any) -> dict[str, Any]:
        """Settings, those of the postprocessor included; load with ``from_dict(data, postprocessor=...)``."""
        inner = self.postprocessor.to_dict()
        found = fingerprint(self.postprocessor.denoiser)
        inner["denoiser"], unknown = found.digest, found.unknown
        if unknown:
            inner["denoiser"] = f"unknown-{uuid4().hex}"
            log.warning(
                "DenoiseTransform: nothing is cached, because these cannot be compared: %s", ", ".join(unknown)
            )
        return {**super().to_dict(**kwargs), "postprocessor": inner}

    def __getstate__(self) -> dict[str, Any]:
        # The inherited form deletes what does not pickle from the living object; here pickle itself says so.
        return {
            "__dict__": dict(self.__dict__),
            "__pydantic_fields_set__": set(self.__dict__),
            "__pydantic_extra__": None,
            "__pydantic_private__": None,
        }

    def __call__(self, nodes: Sequence[BaseNode], **kwargs: Any) -> list[BaseNode]:
        out: list[BaseNode] = []
        for group in self._groups(nodes):
            out += [n.node for n in self.postprocessor.postprocess_nodes(group, query_str=self.subject)]
        return out

    async def acall(self, nodes: Sequence[BaseNode], **kwargs: Any) -> list[BaseNode]:
        out: list[BaseNode] = []
        for group in self._groups(nodes):
            found = await self.postprocessor.apostprocess_nodes(group, query_str=self.subject)
            out += [n.node for n in found]
        return out

    def _groups(self, nodes: Sequence[BaseNode]) -> list[list[NodeWithScore]]:
        scored = [NodeWithScore(node=n) for n in nodes]
        return [scored] if self.together else [[n] for n in scored]
