"""`DenoiseTransform`: denoising once, when documents are indexed, for an index that serves one subject."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Any

from llama_index.core.bridge.pydantic import ConfigDict, Field
from llama_index.core.schema import BaseNode, NodeWithScore, TransformComponent

from llamaindex_denoise.postprocessor import DenoisePostprocessor
from llamaindex_denoise.storage.fingerprint import fingerprint
from llamaindex_denoise.storage.pickling import Whole

log = logging.getLogger(__name__)


class DenoiseTransform(Whole, TransformComponent):
    """Takes out of documents what does not bear on ``subject``, before they are embedded and stored.

    What is dropped here is gone for every later question: use it for boilerplate, with a subject as wide as the
    index (``"what a customer may ask about our hotels"``). Each node is seen by itself unless ``together``.

    The cache key of an `IngestionPipeline` changes with the denoiser's code, settings, prompts, weights and files
    (`storage.fingerprint`), and not with credentials and time-outs. When something in it cannot be compared (a
    function or class of your own, which may be edited), a warning names it and nothing is taken from the cache.
    It goes to other processes (``num_workers``) if its denoiser pickles; if not, pickle says why.
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
        found = fingerprint(self.postprocessor.denoiser)
        if found.unknown:
            unknown = ", ".join(found.unknown)
            log.warning("DenoiseTransform: nothing is cached, because these cannot be compared: %s", unknown)
        inner = {**self.postprocessor.to_dict(), "denoiser": found.digest}
        return {**super().to_dict(**kwargs), "postprocessor": inner}

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
