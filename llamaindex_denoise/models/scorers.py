"""LlamaIndex embeddings and rerankers as END's scorers, and our encoder as theirs."""

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

FloatArray = NDArray[np.float32]

UNRANKED_SCORE = -1.0e9
"""The score of a text that the reranker left out."""


class EmbedModelScorer:
    """Cosine similarity, -1 to 1, by a LlamaIndex embedding model.

    The query is embedded as the model embeds queries, texts as it embeds texts.

    Raises:
        InputError: ``embed_model`` is not a LlamaIndex embedding model.
    """

    def __init__(self, embed_model: BaseEmbedding) -> None:
        if not isinstance(embed_model, BaseEmbedding):
            raise InputError(
                "expected a llama_index embedding model, got "
                f"{type(embed_model).__name__}; pass the object itself, such as "
                "MockEmbedding(8) or HuggingFaceEmbedding(...)"
            )
        self.embed_model = embed_model

    def score(self, query: str, texts: Sequence[str]) -> FloatArray:
        """Return one score per text, shape ``(len(texts),)``."""
        from denoise_core.scorers.encoders import EmbeddingScorer

        return EmbeddingScorer(self.embed_model).score(query, texts)


class RerankerScorer:
    """A LlamaIndex reranker's scores; `UNRANKED_SCORE` for a text it left out.

    It gets all texts of a call at once, without its ``top_n``, so it may be listwise.
    A reranker without scores is read by its order.

    Raises:
        InputError: ``reranker`` is not a node postprocessor.
    """

    listwise = True

    def __init__(self, reranker: BaseNodePostprocessor) -> None:
        if not isinstance(reranker, BaseNodePostprocessor):
            raise InputError(
                "expected a llama_index reranker, such as LLMRerank(...), got "
                f"{type(reranker).__name__}"
            )
        self.reranker = reranker

    @property
    def uses_llm(self) -> bool:
        """Whether texts go into prompts; they then carry the metadata for LLMs."""
        return any(isinstance(value, LLM) for value in vars(self.reranker).values())

    def score(self, query: str, texts: Sequence[str]) -> FloatArray:
        """Return one score per text, shape ``(len(texts),)``."""
        nodes = []
        for index, text in enumerate(texts):
            node = TextNode(text=text, id_=str(index))
            nodes.append(NodeWithScore(node=node, score=0.0))
        reranker = self.reranker
        if "top_n" in type(reranker).model_fields:
            reranker = reranker.model_copy(update={"top_n": max(1, len(nodes))})
        ranked_nodes = reranker.postprocess_nodes(nodes, query_str=query)
        scores = np.full(len(texts), UNRANKED_SCORE, dtype=np.float32)
        ranked_indices = [int(ranked_node.node.node_id) for ranked_node in ranked_nodes]
        ranked_scores = [ranked_node.score for ranked_node in ranked_nodes]
        # Missing or all equal scores say nothing: the order is the ranking then.
        if None in ranked_scores or len(set(ranked_scores)) < min(
            2, len(ranked_scores)
        ):
            scores[ranked_indices] = np.arange(len(ranked_nodes), 0, -1)
        else:
            scores[ranked_indices] = ranked_scores
        return scores


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
        return self._get_text_embeddings([query])[0]

    async def _aget_query_embedding(self, query: str) -> list[float]:
        return await run_in_pool(self._get_query_embedding, query)

    def _get_text_embedding(self, text: str) -> list[float]:
        return self._get_text_embeddings([text])[0]

    async def _aget_text_embedding(self, text: str) -> list[float]:
        return await run_in_pool(self._get_text_embedding, text)

    def _get_text_embeddings(self, texts: list[str]) -> list[list[float]]:
        from denoise_core.embedded import shared_encoder

        text_vectors = np.asarray(shared_encoder().embed_texts(texts), dtype=np.float64)
        return cast(list[list[float]], text_vectors.tolist())

    async def _aget_text_embeddings(self, texts: list[str]) -> list[list[float]]:
        return await run_in_pool(self._get_text_embeddings, texts)
