"""Reranking, in the shapes that clients of others speak."""

from __future__ import annotations

import math
import uuid
from collections.abc import Sequence
from typing import Any

import numpy as np

from denoise_core.errors import BadScores
from denoise_core.protocols import Scorer
from denoise_core.service.bodies import Rerank
from denoise_core.types import well_formed


def ranked(scorer: Scorer, name: str, body: Rerank, texts: Sequence[str]) -> Any:
    """Texts by their scores, best first, as plain values in the shape that was asked in. Raises `BadScores`."""
    given: Any = scorer.score(body.query, [well_formed(t) for t in texts]) if texts else []
    found = np.asarray(given, dtype=np.float64)
    if found.shape != (len(texts),) or not np.isfinite(found).all():
        raise BadScores(f"expected {len(texts)} finite scores, got an array of shape {found.shape}")
    scores = found.tolist()
    order = sorted(range(len(texts)), key=lambda i: -scores[i])
    if body.documents is None:
        told = [{"index": i, "score": scores[i] if body.raw_scores else _sigmoid(scores[i])} for i in order]
        return [r | {"text": texts[i]} for i, r in zip(order, told)] if body.return_text else told
    rows = [
        {"index": i, "relevance_score": _sigmoid(scores[i])}
        | ({"document": {"text": texts[i]}} if body.return_documents else {})
        for i in order[: body.top_n]
    ]
    return {"id": f"rerank-{uuid.uuid4().hex}", "model": name, "results": rows}


def _sigmoid(score: float) -> float:
    return 1 / (1 + math.exp(-score)) if score > -700 else 0.0
