"""What is inside the settings that LangChain binds around a model."""

from __future__ import annotations

from typing import Any, TypeAlias

from langchain_core.language_models import BaseLanguageModel
from langchain_core.runnables import Runnable
from langchain_core.runnables.base import RunnableBindingBase

AnyRunnable: TypeAlias = Runnable[Any, Any]

# What `bind_tools` and `with_structured_output` bind.
_REPLY_FORM_SETTINGS = frozenset(
    ("tools", "response_format", "ls_structured_output_format")
)


def is_model(runnable: object) -> bool:
    """Whether a runnable is a language model, with or without bound settings."""
    while isinstance(runnable, RunnableBindingBase):
        runnable = runnable.bound
    return isinstance(runnable, BaseLanguageModel)


def without_reply_form(model: AnyRunnable) -> AnyRunnable:
    """The model without settings bound together with tools or a schema to reply in."""
    if not isinstance(model, RunnableBindingBase):
        return model
    changes: dict[str, Any] = {"bound": without_reply_form(model.bound)}
    if not _REPLY_FORM_SETTINGS.isdisjoint(model.kwargs):
        changes["kwargs"] = {}
    return model.model_copy(update=changes)


def is_greedy(model: AnyRunnable) -> bool:
    """Whether the model is set to temperature 0, so that it would repeat itself."""
    while isinstance(model, RunnableBindingBase):
        if "temperature" in model.kwargs:
            return bool(model.kwargs["temperature"] == 0)
        model = model.bound
    return bool(getattr(model, "temperature", None) == 0)
