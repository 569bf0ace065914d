"""A served cross-encoder: an encoder with a classification head behind ``/rerank``, as engines serve it."""

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
    fill_missing_scores,
)

Floats = NDArray[np.float32]


class RemoteReranker:
    """Scores of the reranker served at ``url``, an address before ``/rerank`` or several of one model.

    ``shape`` is what the server speaks: "jina" (Jina, Cohere, vLLM, ``rag-denoise serve``: ``documents`` in,
    ``results`` with ``relevance_score`` out; the address usually ends in ``/v1``) or "tei"
    (text-embeddings-inference: ``texts`` in, a list with ``score`` out, here without the sigmoid). Limits, keys
    and replicas are as in `denoise_core.end.remote.RemoteScorer`; ``batch`` texts go in one request at most.
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
        """The server's own unit, float32 ``(len(texts),)``. Raises `BadReply` for a reply that lacks one;
        a text that the server refuses by itself has the lowest score of the others."""
        return self.engine.run(partial(self._scores, query, list(texts)))

    async def ascore(self, query: str, texts: Sequence[str]) -> Floats:
        """`score` without holding a thread while the server works."""
        return await self.engine.arun(partial(self._scores, query, list(texts)))

    async def _scores(
        self, query: str, texts: list[str], meter: Meter | None
    ) -> Floats:
        async def ask(url: str, positions: list[int]) -> list[float]:
            body: dict[str, Any] = {"query": query}
            some = [texts[i] for i in positions]
            if self.shape == "tei":
                body |= {"texts": some, "raw_scores": True}
            else:
                body |= {
                    "documents": some,
                    "top_n": len(some),
                    "return_documents": False,
                }
            if self.model is not None:
                body["model"] = self.model
            return _read(
                await self.engine.request("POST", url, "/rerank", body, meter),
                len(some),
            )

        return fill_missing_scores(
            await self.engine.request_batches(
                [document_key(t) for t in texts], self.batch, ask
            )
        )


def _read(reply: Any, count: int) -> list[float]:
    try:
        rows = reply if isinstance(reply, list) else reply["results"]
        found = {
            int(r["index"]): float(r["score"] if "score" in r else r["relevance_score"])
            for r in rows
        }
        if (
            len(rows) == count
            and found.keys() == set(range(count))
            and all(map(math.isfinite, found.values()))
        ):
            return [found[i] for i in range(count)]
    except (KeyError, TypeError, ValueError, OverflowError, AttributeError):
        pass
    raise BadReply(
        f"expected a /rerank reply with one finite score for each of {count} texts"
    )
