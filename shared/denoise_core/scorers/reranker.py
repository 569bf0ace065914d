"""A scorer by a server: a cross-encoder behind ``/rerank``."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import partial
from typing import Any, Literal

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

    Texts are sent in batches. Keys and replicas are as in
    `denoise_core.runtime.engines.Engine`.

    Args:
        url: An address before ``/rerank``, or several of one model; it usually ends in
            ``/v1``.
        model: The served name, if the server needs one.
        shape: What the server speaks. "jina" is Jina, Cohere, vLLM and ``rag-denoise
            serve``: ``documents`` in, ``results`` with ``relevance_score`` out.
            "tei" is text-embeddings-inference: ``texts`` in, a list with ``score`` out,
            here without the sigmoid.
        key_env: Environment variable with the key.
        limits: How often and how long requests are retried.
        batch: Texts of a request at most.
    """

    def __init__(
        self,
        url: str | Sequence[str],
        model: str | None = None,
        *,
        shape: Literal["jina", "tei"] = "jina",
        key_env: str | None = None,
        limits: RemoteLimits | None = None,
        batch: int = 32,
    ) -> None:
        if shape not in ("jina", "tei"):
            raise InputError(f"shape={shape!r}: expected 'jina' or 'tei'")
        if batch < 1:
            raise InputError(f"batch={batch}: expected 1 or more")
        self.engine = Engine(url, key_env=key_env, limits=limits)
        self.model = model
        self.shape = shape
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
            request_body = self._request_body(query, batch_texts)
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

    def _request_body(self, query: str, texts: Sequence[str]) -> dict[str, Any]:
        request_body: dict[str, Any] = {"query": query}
        if self.shape == "tei":
            return request_body | {"texts": texts, "raw_scores": True}
        jina_body = {
            "documents": texts,
            "top_n": len(texts),
            "return_documents": False,
        }
        return request_body | jina_body


def _parse_scores(server_reply: Any, text_count: int) -> list[float]:
    text_scores = {}
    try:
        reply_rows = server_reply
        if not isinstance(server_reply, list):
            reply_rows = server_reply["results"]
        for reply_row in reply_rows:
            score_key = "score" if "score" in reply_row else "relevance_score"
            text_scores[int(reply_row["index"])] = float(reply_row[score_key])
        if len(reply_rows) == text_count == len(text_scores):
            ordered_scores = [text_scores[i] for i in range(text_count)]
            if all(map(math.isfinite, ordered_scores)):
                return ordered_scores
    except (KeyError, TypeError, ValueError, OverflowError, AttributeError):
        pass
    raise BadReply(
        f"expected a /rerank reply with one finite score for each of {text_count} texts"
    )
