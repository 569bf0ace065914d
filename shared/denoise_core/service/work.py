"""What is computed for a request, on a thread of the service's own."""

from __future__ import annotations

import json
import math
import uuid
from collections.abc import Sequence
from typing import Any

import numpy as np

from denoise_core.errors import BadScores
from denoise_core.result import DenoiseResult
from denoise_core.service.bodies import Rerank
from denoise_core.service.settings import Service
from denoise_core.support.check import check
from denoise_core.types import Passage, well_formed


def denoised(service: Service, query: str, passages: Sequence[Passage]) -> tuple[DenoiseResult, bytes]:
    """The result, and as JSON."""
    result = service.denoiser.denoise(query, passages)
    return result, written(result.as_json())


def checked(service: Service, question: str, answer: str, passages: Sequence[Passage]) -> bytes:
    """Whether the passages support the answer, as JSON."""
    found = check(question, answer, passages, judge=service.judge)
    return written({"passed": found.passed, **found.as_json()})


def reranked(service: Service, body: Rerank, texts: Sequence[str]) -> bytes:
    """Texts by their scores, best first, as JSON in the shape that was asked in. Raises `BadScores`."""
    scorer = service.scorer
    assert scorer is not None  # asked before
    given: Any = scorer.score(body.query, [well_formed(t) for t in texts]) if texts else []
    found = np.asarray(given, dtype=np.float64)
    if found.shape != (len(texts),) or not np.isfinite(found).all():
        raise BadScores(f"expected {len(texts)} finite scores, got an array of shape {found.shape}")
    scores = found.tolist()
    order = sorted(range(len(texts)), key=lambda i: -scores[i])
    if body.documents is None:
        told = [{"index": i, "score": scores[i] if body.raw_scores else _sigmoid(scores[i])} for i in order]
        return written([r | {"text": texts[i]} for i, r in zip(order, told)] if body.return_text else told)
    rows = [
        {"index": i, "relevance_score": _sigmoid(scores[i])}
        | ({"document": {"text": texts[i]}} if body.return_documents else {})
        for i in order[: len(order) if body.top_n is None else body.top_n]
    ]
    about = {"id": f"rerank-{uuid.uuid4().hex}", "model": service.name}
    return written(about | {"results": rows, "meta": {"api_version": {"version": "1"}}})


def written(found: Any) -> bytes:
    """In ASCII, so that whatever stands in metadata can be written. Raises `ValueError` for NaN."""
    return json.dumps(found, allow_nan=False).encode()


def _sigmoid(score: float) -> float:
    return 1 / (1 + math.exp(-score)) if score > -700 else 0.0
