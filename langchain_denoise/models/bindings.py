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
