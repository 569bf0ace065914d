"""What is inside the settings and fallbacks that LangChain puts around a model."""

from __future__ import annotations

from typing import Any, TypeAlias

from langchain_core.language_models import BaseLanguageModel
from langchain_core.runnables import Runnable
from langchain_core.runnables.base import RunnableBindingBase
from langchain_core.runnables.fallbacks import RunnableWithFallbacks

AnyRunnable: TypeAlias = Runnable[Any, Any]


def without_bindings(runnable: Any) -> Any:
    """What settings are bound around, such as tools or a schema to reply in."""
    while isinstance(runnable, RunnableBindingBase):
        runnable = runnable.bound
    return runnable


def bare_model(runnable: Any) -> Any:
    """The language model inside what is bound to it; None for any other runnable.

    Of a model with fallbacks each one is bare.
    """
    inner = without_bindings(runnable)
    if isinstance(inner, RunnableWithFallbacks):
        first, *fallbacks = map(bare_model, inner.runnables)
        if first is None or None in fallbacks:
            return None
        return inner.model_copy(update={"runnable": first, "fallbacks": fallbacks})
    return inner if isinstance(inner, BaseLanguageModel) else None
