"""A model asked for JSON without losing what was set around it: bindings, configs, retries and fallbacks."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol, cast

from langchain_core.language_models import BaseLanguageModel
from langchain_core.runnables import Runnable, RunnableConfig
from langchain_core.runnables.base import RunnableBindingBase, RunnableParallel, RunnableSequence
from langchain_core.runnables.configurable import DynamicRunnable
from langchain_core.runnables.fallbacks import RunnableWithFallbacks

Model = Runnable[Any, Any]


class _Structuring(Protocol):
    def with_structured_output(self, schema: dict[str, Any], *, include_raw: bool, **how: Any) -> Model: ...


WAYS: tuple[dict[str, Any], ...] = (
    {"method": "json_schema", "strict": True},
    {"method": "function_calling", "strict": True},
    {"method": "function_calling"},
    {},
)
"""How LangChain is asked for JSON, one after the other until a model takes it; the last is its own default."""


def can_structure(model: Model) -> bool:
    """Whether the model inside says in its profile that it can be held to a JSON schema; all fallbacks too."""
    if isinstance(model, RunnableWithFallbacks):
        return all(can_structure(m) for m in model.runnables)
    profile = getattr(_innermost(model), "profile", None)
    return bool(profile and profile.get("structured_output"))  # what it does not say is found by asking


def has_structure(model: Model) -> bool:
    """Whether the model inside has ``with_structured_output`` at all."""
    if isinstance(model, RunnableWithFallbacks):
        return all(has_structure(m) for m in model.runnables)
    return hasattr(_innermost(model), "with_structured_output")


def held_to(
    model: Model, schema: Mapping[str, Any], config: RunnableConfig, how: Mapping[str, Any]
) -> Model | None:
    """``model`` asked for JSON by ``schema``, in LangChain's ``include_raw`` form, under all its settings.

    LangChain's own ``with_structured_output`` looks through the wrappers around a model and leaves them behind;
    here they go around the model's call inside what it gives. None when there is no place for them, so that the
    caller asks for text instead.
    """
    if isinstance(model, RunnableWithFallbacks):
        held = [held_to(m, schema, config, how) for m in model.runnables]
        if any(h is None for h in held):
            return None
        return model.model_copy(update={"runnable": held[0], "fallbacks": held[1:]})
    around: list[RunnableBindingBase[Any, Any]] = []
    inner = model
    while isinstance(inner, (RunnableBindingBase, DynamicRunnable)):
        if isinstance(inner, DynamicRunnable):  # configurable fields: what this run's config chooses
            inner, config = inner.prepare(config)
        else:
            around.append(inner)
            config = inner._merge_configs(config) if isinstance(inner.bound, DynamicRunnable) else config
            inner = inner.bound
    if isinstance(inner, RunnableWithFallbacks):
        return None
    structured = cast(_Structuring, inner).with_structured_output(dict(schema), include_raw=True, **how)
    if not around:
        return structured
    return _replaced(structured, inner, around)


def _innermost(model: Model) -> Model:
    while isinstance(model, (RunnableBindingBase, DynamicRunnable)):
        model = model.bound if isinstance(model, RunnableBindingBase) else model.default
    return model


def _replaced(runnable: Model, inner: Model, around: list[RunnableBindingBase[Any, Any]]) -> Model | None:
    """``runnable`` with every call of ``inner`` put inside ``around``; None when it never calls it by itself."""
    if runnable is inner or (isinstance(runnable, RunnableBindingBase) and _innermost(runnable) is inner):
        own = set(runnable.kwargs) if isinstance(runnable, RunnableBindingBase) else set()
        for wrapper in reversed(around):
            settings = {k: v for k, v in wrapper.kwargs.items() if k not in own}  # the schema comes first
            runnable = wrapper.model_copy(update={"bound": runnable, "kwargs": settings})
        return runnable
    if isinstance(runnable, RunnableSequence):
        steps = list(runnable.steps)
        for place, step in enumerate(steps):
            if (new := _replaced(step, inner, around)) is not None:
                return RunnableSequence(*steps[:place], new, *steps[place + 1 :])
    if isinstance(runnable, RunnableParallel):
        for key, step in runnable.steps__.items():
            if (new := _replaced(step, inner, around)) is not None:
                return RunnableParallel({**runnable.steps__, key: new})
    return None


def is_model(value: object) -> bool:
    """Whether a runnable is a language model, with or without settings around it."""
    return isinstance(value, Runnable) and isinstance(_innermost(value), BaseLanguageModel)


def is_greedy(model: Model) -> bool:
    """Whether the model inside is set to temperature 0, so that it takes the setting and would repeat itself."""
    while isinstance(model, RunnableBindingBase):
        if "temperature" in model.kwargs:
            return bool(model.kwargs["temperature"] == 0)
        model = model.bound
    return bool(getattr(model, "temperature", None) == 0)
