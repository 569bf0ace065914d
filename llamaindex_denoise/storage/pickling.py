"""What stands in for a denoiser in a pickle, so that it can go to another process and the caller's stays whole.

LlamaIndex's components, pickled, delete from the living object what does not pickle. Here a copy is pickled; a
lock becomes a new lock; and what cannot go along is named instead of left out. Keys and passwords stay here: the
copy takes its own from the environment, as the model does when it is made without one. Parts of the core go as
recipes (`denoise_core.running.recipes`), with what of LlamaIndex is among their settings prepared the same way.
"""

from __future__ import annotations

import copy
import dataclasses
import pickle
import threading
from types import MethodType
from typing import Any

from llama_index.core.schema import BaseComponent

from denoise_core._secrets import without_secrets
from llamaindex_denoise.storage.code import ours

_LOCKS = {type(threading.Lock()): threading.Lock, type(threading.RLock()): threading.RLock}


class _New:
    """Pickled, it is a new object of ``make``."""

    def __init__(self, make: Any) -> None:
        self.make = make

    def __reduce__(self) -> tuple[Any, tuple[()]]:
        return self.make, ()


def for_pickle(value: Any, at: str = "denoiser", seen: dict[int, Any] | None = None) -> Any:
    """A copy of ``value`` to be pickled. Raises TypeError naming a component's field that does not pickle."""
    seen = {} if seen is None else seen
    if id(value) in seen:
        return seen[id(value)]
    if type(value) in _LOCKS:
        return _New(_LOCKS[type(value)])
    if isinstance(value, BaseComponent):
        twin = without_secrets(value)
        for name, held in twin.__dict__.items():
            if name != "callback_manager":
                _check(held, f"{at}.{name}")
        return seen.setdefault(id(value), twin)
    if isinstance(value, (list, tuple)) and not hasattr(value, "_fields"):
        return type(value)(for_pickle(v, f"{at}[{i}]", seen) for i, v in enumerate(value))
    if isinstance(value, dict) and type(value) is dict:
        return {k: for_pickle(v, f"{at}[{k!r}]", seen) for k, v in value.items()}
    if isinstance(value, MethodType):
        return MethodType(value.__func__, for_pickle(value.__self__, at, seen))
    if ours(type(value)) and dataclasses.is_dataclass(value) and not isinstance(value, type):
        bare: Any = copy.copy(value)
        seen[id(value)] = bare
        for field in dataclasses.fields(value):
            inner = for_pickle(getattr(value, field.name), f"{at}.{field.name}", seen)
            object.__setattr__(bare, field.name, inner)
        return bare
    if ours(type(value)) and hasattr(value, "__dict__") and "__reduce__" not in vars(type(value)):
        twin = seen[id(value)] = copy.copy(value)
        for name, attribute in vars(value).items():
            vars(twin)[name] = for_pickle(attribute, f"{at}.{name}", seen)
        return twin
    return value


def _check(value: Any, at: str) -> None:
    try:
        pickle.dumps(value)
    except Exception as error:
        raise TypeError(f"{at} cannot be pickled, so this cannot go to another process: {error}") from error
