"""LlamaIndex's embeddings and rerankers as scorers of END, and the embedded encoder as LlamaIndex's embedding."""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

import numpy as np
from llama_index.core.base.embeddings.base import BaseEmbedding
from llama_index.core.bridge.pydantic import Field
from llama_index.core.llms import LLM
from llama_index.core.postprocessor.types import BaseNodePostprocessor
from llama_index.core.schema import NodeWithScore, TextNode
from numpy.typing import NDArray

from denoise_core import InputError
from denoise_core.runtime.thread_pool import run_in_pool

Floats = NDArray[np.float32]

UNRANKED_SCORE = -1.0e9
"""The score of a text that the reranker left out of its list."""


class EmbedModelScorer:
    """Cosine of a LlamaIndex embedding model, -1 to 1; the query as its queries are embedded, texts as its texts.

    Raises `InputError` for something that is no LlamaIndex embedding model.
    """

    def __init__(self, embed_model: BaseEmbedding) -> None:
        if not isinstance(embed_model, BaseEmbedding):
            raise InputError(
                f"expected a llama_index embedding model, got {type(embed_model).__name__}; pass the object "
                "itself, such as MockEmbedding(8) or HuggingFaceEmbedding(...)"
            )
        self.embed_model = embed_model

    def score(self, query: str, texts: Sequence[str]) -> Floats:
        from denoise_core.scorers.encoders import EmbeddingScorer

        return EmbeddingScorer(self.embed_model).score(query, texts)


class RerankerScorer:
    """A LlamaIndex reranker's own scores; `UNRANKED` for a text it left out.

    It is asked for all texts of a call at once, without its ``top_n``, and may be listwise. A reranker that gives
    no scores is read by its order. Raises `InputError` for something that is no node postprocessor.
    """

    listwise = True

    @property
    def uses_llm(self) -> bool:
        """Whether texts go into a model's prompts: they then have the metadata an LLM is shown."""
        return any(isinstance(v, LLM) for v in vars(self.reranker).values())

    def __init__(self, reranker: BaseNodePostprocessor) -> None:
        if not isinstance(reranker, BaseNodePostprocessor):
            raise InputError(
                f"expected a llama_index reranker, such as LLMRerank(...), got {type(reranker).__name__}"
            )
        self.reranker = reranker

    def score(self, query: str, texts: Sequence[str]) -> Floats:
        nodes = [
            NodeWithScore(node=TextNode(text=t, id_=str(i)), score=0.0)
            for i, t in enumerate(texts)
        ]
        asked = self.reranker
        if "top_n" in type(asked).model_fields:
            asked = asked.model_copy(update={"top_n": max(1, len(nodes))})
        ranked = asked.postprocess_nodes(nodes, query_str=query)
        said = {n.node.node_id: n.score for n in ranked}
        if any(s is None for s in said.values()) or len(set(said.values())) < min(
            2, len(said)
        ):
            said = {
                n.node.node_id: float(len(ranked) - place)
                for place, n in enumerate(ranked)
            }
        scores = [said.get(str(i)) for i in range(len(texts))]
        return np.array(
            [UNRANKED_SCORE if s is None else float(s) for s in scores],
            dtype=np.float32,
        )


class EmbeddedEmbedding(BaseEmbedding):
    """The sentence encoder that ships with the extra ``embedded`` as a LlamaIndex embedding: 384 values, offline.

    The model is loaded at the first call, once in a process.
    """

    model_name: str = Field(
        default="all-MiniLM-L6-v2",
        description="The encoder that ships; not to be chosen.",
    )

    @classmethod
    def class_name(cls) -> str:
        return "EmbeddedEmbedding"

    def _get_query_embedding(self, query: str) -> list[float]:
        return self._get_text_embeddings([query])[0]

    async def _aget_query_embedding(self, query: str) -> list[float]:
        return await run_in_pool(self._get_query_embedding, query)

    def _get_text_embedding(self, text: str) -> list[float]:
        return self._get_text_embeddings([text])[0]

    async def _aget_text_embedding(self, text: str) -> list[float]:
        return await run_in_pool(self._get_text_embedding, text)

    def _get_text_embeddings(self, texts: list[str]) -> list[list[float]]:
        from denoise_core.embedded import shared_encoder

        return cast(
            list[list[float]],
            np.asarray(shared_encoder().embed_texts(texts), dtype=np.float64).tolist(),
        )

    async def _aget_text_embeddings(self, texts: list[str]) -> list[list[float]]:
        return await run_in_pool(self._get_text_embeddings, texts)
