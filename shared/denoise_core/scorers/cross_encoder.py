"""A cross-encoder reranker as a scorer: question and passage read together by a model trained for it."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import Any, Protocol, TypeAlias, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from denoise_core._optional import require
from denoise_core.errors import BadScores, InputError
from denoise_core.protocols import numbers
from denoise_core.running.caches.stores import Once
from denoise_core.running.recipes import Travels

Pairs: TypeAlias = Callable[[list[tuple[str, str]]], Any]


@runtime_checkable
class Predicts(Protocol):
    """A model with ``predict`` over pairs, such as sentence-transformers' ``CrossEncoder``."""

    def predict(self, sentences: Any, /) -> Any: ...


class CrossEncoderScorer(Travels):
    """Scores of a cross-encoder, in its own unit.

    ``model`` is a callable from (question, text) pairs to scores ``(n,)``, an object with ``predict``, or
    the name or path of a sentence-transformers cross-encoder (loaded at the first call, without running
    code that comes with it; needs the extra ``dense``).
    """

    named = ("model",)

    def __init__(self, model: Pairs | Predicts | str) -> None:
        self.model = model
        self._loaded: Pairs | None = None
        self._lock = threading.Lock()

    def score(self, query: str, texts: Sequence[str]) -> NDArray[np.float32]:
        """float32 ``(len(texts),)``. Raises `InputError` when the model does not give one score a pair."""
        if not texts:
            return np.zeros(0, dtype=np.float32)
        with self._lock:
            self._loaded = self._loaded or _predictor(self.model)
        scores = numbers(self._loaded([(query, t) for t in texts]))
        if scores.ndim == 2 and scores.shape[1] == 1:
            scores = scores[:, 0]
        if scores.shape != (len(texts),):
            raise BadScores(
                f"expected one score for each of {len(texts)} pairs, got an array of shape {scores.shape}; "
                "a model with several classes is no reranker"
            )
        return scores


_models: Once[Any] = Once()  # by name, for as long as somebody uses one


def _predictor(model: Pairs | Predicts | str) -> Pairs:
    if isinstance(model, str):
        name, module = model, require("sentence_transformers", extra="dense")
        model = _models(name, lambda: module.CrossEncoder(name, trust_remote_code=False))
    if isinstance(model, Predicts):
        predicts = model
        return lambda pairs: predicts.predict(pairs)
    if callable(model):
        return model
    raise InputError(f"model: expected a callable, a model with predict(), or a name, got {type(model).__name__}")
