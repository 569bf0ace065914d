"""Decision models (langchain-core 1.8) as scorers: asked yes-or-no questions, they answer with probabilities.

Older versions of langchain-core have none; then `is_decision_model` is false for everything.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Sequence
from importlib import import_module
from typing import Any

import numpy as np
from numpy.typing import NDArray

from denoise_core import InputError, MissingExtra
from langchain_denoise.convert.messages import internal_config

RELEVANT = "Does `text` help to answer `question`? Text that is about the same things without helping does not."


def is_decision_model(value: object) -> bool:
    """Whether ``value`` is a `BaseDecisionModel`; imports nothing."""
    module = sys.modules.get("langchain_core.decisions.base")
    return module is not None and isinstance(value, module.BaseDecisionModel)


def check_decision_model(value: object) -> None:
    """Raises `InputError` for anything else, `MissingExtra` where langchain-core has no decision models."""
    if not is_decision_model(value):
        decisions()
        raise InputError(f"expected a LangChain decision model, got {type(value).__name__}")


def decisions() -> Any:
    """The module ``langchain_core.decisions``. Raises `MissingExtra` where there is none."""
    try:
        return import_module("langchain_core.decisions")
    except ModuleNotFoundError as error:
        raise MissingExtra(
            "decision models need langchain-core 1.8; run: pip install 'langchain-core>=1.8'"
        ) from error


class DecisionScorer:
    """Relevance as a decision model sees it: the log-odds of yes to ``instructions``, a call for each text.

    ``instructions`` speak of ``question`` and ``text``, which is what the state holds. Log-odds keep the order of
    the probabilities and are on the scale of a probe's scores; 0 is even. At most ``max_concurrency`` calls at
    once.
    """

    def __init__(self, model: Any, *, instructions: str = RELEVANT, max_concurrency: int = 8) -> None:
        check_decision_model(model)
        if max_concurrency < 1:
            raise InputError(f"max_concurrency={max_concurrency}: expected 1 or more")
        self.model = model
        self.instructions = instructions
        self.max_concurrency = max_concurrency

    def score(self, query: str, texts: Sequence[str]) -> NDArray[np.float32]:
        """float32 ``(len(texts),)``. Raises what the model does, and `InputError` for an answer without a yes."""
        if not texts:
            return np.zeros(0, dtype=np.float32)
        requests = [self._request(query, text) for text in texts]
        config = {**internal_config(), "max_concurrency": self.max_concurrency}
        answers = self.model.batch(requests, config)
        return np.array([log_odds(probability_of_yes(a)) for a in answers], dtype=np.float32)

    def _request(self, query: str, text: str) -> dict[str, Any]:
        asked = decisions().Noul(instructions=self.instructions)
        return {"state": {"question": query, "text": text}, "questions": {"yes": asked}}


def log_odds(probability: float) -> float:
    """Finite also at 0 and 1."""
    p = min(max(probability, 1e-6), 1 - 1e-6)
    return math.log(p / (1 - p))


def probability_of_yes(response: Any) -> float:
    answer = response.nouls.get("yes")
    if answer is None:
        raise InputError(f"{response.model} gave no answer to the question it was asked")
    return float(answer.noul)
