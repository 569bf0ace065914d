"""What is inside the settings that LangChain binds around a model."""

from __future__ import annotations

from typing import Any, TypeAlias

from langchain_core.language_models import BaseLanguageModel
from langchain_core.runnables import Runnable
from langchain_core.runnables.base import RunnableBindingBase

AnyRunnable: TypeAlias = Runnable[Any, Any]


def without_bindings(runnable: Any) -> Any:
    """What settings are bound around, such as tools or a schema to reply in."""
    while isinstance(runnable, RunnableBindingBase):
        runnable = runnable.bound
    return runnable


def is_model(runnable: object) -> bool:
    """Whether a runnable is a language model, with or without bound settings."""
    return isinstance(without_bindings(runnable), BaseLanguageModel)


def is_greedy(model: AnyRunnable) -> bool:
    """Whether the model is set to temperature 0, so that it would repeat itself."""
    while isinstance(model, RunnableBindingBase):
        if "temperature" in model.kwargs:
            return bool(model.kwargs["temperature"] == 0)
        model = model.bound
    return bool(getattr(model, "temperature", None) == 0)
