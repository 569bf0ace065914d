"""A scorer by a server: a cross-encoder behind ``/rerank``."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from denoise_core.errors import BadReply, InputError
from denoise_core.runtime.budget import Meter
from denoise_core.runtime.engines import (
    Engine,
    RemoteLimits,
    document_key,
)

Floats = NDArray[np.float32]


class RemoteReranker:
    """Scores of the reranker served at ``url``.

    Texts are sent in batches, as Jina, Cohere, vLLM and ``rag-denoise serve`` take them:
    ``documents`` in, ``results`` with ``relevance_score`` out. Keys and replicas are as in
    `denoise_core.runtime.engines.Engine`.

    Args:
        url: An address before ``/rerank``, or several of one model; it usually ends in
            ``/v1``.
        model: The served name, if the server needs one.
        key_env: Environment variable with the key.
        limits: How often and how long requests are retried.
        batch: Texts of a request at most.
    """

    def __init__(
        self,
        url: str | Sequence[str],
        model: str | None = None,
        *,
        key_env: str | None = None,
        limits: RemoteLimits | None = None,
        batch: int = 32,
    ) -> None:
        if batch < 1:
            raise InputError(f"batch={batch}: expected 1 or more")
        self.engine = Engine(url, key_env=key_env, limits=limits)
        self.model = model
        self.batch = batch

    def score(self, query: str, texts: Sequence[str]) -> Floats:
        """Scores in the server's own unit, float32 ``(len(texts),)``.

        Raises:
            BadReply: The server refuses a text, or a reply lacks a score.
        """
        return self.engine.run(partial(self._request_scores, query, list(texts)))

    async def ascore(self, query: str, texts: Sequence[str]) -> Floats:
        """`score` without holding a thread while the server works."""
        return await self.engine.arun(partial(self._request_scores, query, list(texts)))

    async def _request_scores(
        self, query: str, texts: list[str], call_meter: Meter | None
    ) -> Floats:
        async def request_batch(url: str, positions: list[int]) -> list[float]:
            batch_texts = [texts[i] for i in positions]
            request_body: dict[str, Any] = {
                "query": query,
                "documents": batch_texts,
                "top_n": len(batch_texts),
                "return_documents": False,
            }
            if self.model is not None:
                request_body["model"] = self.model
            server_reply = await self.engine.request(
                "POST", url, "/rerank", request_body, call_meter
            )
            return _parse_scores(server_reply, len(batch_texts))

        document_keys = [document_key(text) for text in texts]
        text_scores = await self.engine.request_batches(
            document_keys, self.batch, request_batch
        )
        return np.array(text_scores, dtype=np.float32)


def _parse_scores(server_reply: Any, text_count: int) -> list[float]:
    try:
        indexed_scores = []
        for row in server_reply["results"]:
            indexed_scores.append((int(row["index"]), float(row["relevance_score"])))
        scores = scores_in_order(indexed_scores, text_count)
    except (KeyError, TypeError, ValueError, OverflowError):
        raise BadReply(
            f"expected a /rerank reply with one finite score for each of {text_count} texts: "
            '{"results": [{"index": 0, "relevance_score": 0.5}, ...]}'
        ) from None  # the error may quote the reply
    return list(scores.tolist())


def scores_in_order(
    indexed_scores: Iterable[tuple[int, float]], text_count: int
) -> Floats:
    """Put scores in the order of their texts.

    Args:
        indexed_scores: Positions of texts, from 0, with their scores, in any order.
        text_count: Number of texts, ``n``.

    Returns:
        float32 ``(n,)``.

    Raises:
        ValueError: Not each text has one finite score.
    """
    sorted_pairs = sorted(indexed_scores)
    indices = [index for index, _ in sorted_pairs]
    scores = np.array([score for _, score in sorted_pairs], dtype=np.float32)
    if indices != list(range(text_count)) or not np.isfinite(scores).all():
        raise ValueError(f"not one finite score for each of {text_count} texts")
    return scores
