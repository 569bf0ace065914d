"""Decision models (langchain-core 1.8): asked yes-or-no questions, they answer with probabilities.

Older versions of langchain-core have none; then `is_decision_model` is false for everything.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from importlib import import_module
from typing import Any

from denoise_core import InputError, MissingExtra
from langchain_denoise.convert.messages import internal_config


def is_decision_model(value: object) -> bool:
    """Whether ``value`` is a `BaseDecisionModel`; imports nothing."""
    module = sys.modules.get("langchain_core.decisions.base")
    return module is not None and isinstance(value, module.BaseDecisionModel)


def decisions() -> Any:
    """The module ``langchain_core.decisions``. Raises `MissingExtra` where there is none."""
    try:
        return import_module("langchain_core.decisions")
    except ModuleNotFoundError as error:
        raise MissingExtra(
            "decision models need langchain-core 1.8; run: pip install 'langchain-core>=1.8'"
        ) from error


class Decide:
    """A decision model as the core's `DecisionScorer` and ``support.judges.decision`` ask one: questions about a
    state in, ``{name: {"noul": probability}}`` out. Of several requests ``max_concurrency`` are asked at once."""

    def __init__(self, model: Any, *, max_concurrency: int = 8) -> None:
        if not is_decision_model(model):
            decisions()  # raises where langchain-core has none
            raise InputError(f"expected a LangChain decision model, got {type(model).__name__}")
        self.model = model
        self.max_concurrency = max_concurrency

    def __call__(self, request: Mapping[str, Any]) -> dict[str, Any]:
        return self.many([request])[0]

    def many(self, requests: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
        """The answers to each request. Raises what the model does."""
        noul = decisions().Noul
        asked = [
            {**r, "questions": {n: noul(instructions=q["instructions"]) for n, q in r["questions"].items()}}
            for r in requests
        ]
        found = self.model.batch(asked, {**internal_config(), "max_concurrency": self.max_concurrency})
        return [{name: {"noul": float(a.noul)} for name, a in response.nouls.items()} for response in found]
