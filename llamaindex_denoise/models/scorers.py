"""The encoder that ships as a LlamaIndex embedding model."""

from __future__ import annotations

import numpy as np
from llama_index.core.base.embeddings.base import BaseEmbedding
from llama_index.core.bridge.pydantic import Field

from denoise_core.runtime.thread_pool import run_in_pool


class EmbeddedEmbedding(BaseEmbedding):
    """The sentence encoder of the extra ``embedded`` for LlamaIndex: 384 values.

    It works offline. The model is loaded at the first call, once per process.
    """

    model_name: str = Field(
        default="all-MiniLM-L6-v2", description="The bundled encoder; fixed."
    )

    @classmethod
    def class_name(cls) -> str:
        """Return the name under which LlamaIndex serialises this class."""
        return "EmbeddedEmbedding"

    def _get_query_embedding(self, query: str) -> list[float]:
        return self._get_text_embedding(query)

    async def _aget_query_embedding(self, query: str) -> list[float]:
        return await self._aget_text_embedding(query)

    def _get_text_embedding(self, text: str) -> list[float]:
        return self._get_text_embeddings([text])[0]

    async def _aget_text_embedding(self, text: str) -> list[float]:
        return await run_in_pool(self._get_text_embedding, text)

    def _get_text_embeddings(self, texts: list[str]) -> list[list[float]]:
        from denoise_core.embedded import shared_encoder

        default_encoder = shared_encoder()
        short_vectors = default_encoder.embed_texts(texts)
        text_vectors = np.asarray(short_vectors, dtype=np.float64)
        embeddings: list[list[float]] = text_vectors.tolist()
        return embeddings

    async def _aget_text_embeddings(self, texts: list[str]) -> list[list[float]]:
        return await run_in_pool(self._get_text_embeddings, texts)
