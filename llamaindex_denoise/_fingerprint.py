"""A hash of everything that decides what a denoiser does: its class, settings, prompts, weights and model."""

from __future__ import annotations

import dataclasses
import functools
import hashlib
from collections.abc import Iterator, Mapping
from types import FunctionType, MethodType
from typing import Any

import numpy as np
from llama_index.core.schema import BaseComponent

import denoise_core

_DEPTH = 16


def fingerprint(value: object) -> str:
    """Equal for equal settings in every process of one Python version; it holds none of them readably.

    Read are the public attributes of services, the fields of dataclasses and LlamaIndex components, arrays,
    functions by their code, and the version of this package. What begins with an underscore is what a service
    keeps while it runs (a loaded model, a cache, a lock) and is left out.
    """
    digest = hashlib.sha256(denoise_core.__version__.encode())
    for part in _parts(value, _DEPTH, {}):
        digest.update(part.encode("utf-8", "surrogatepass") + b"\0")
    return digest.hexdigest()


def _parts(value: Any, depth: int, seen: dict[int, Any]) -> Iterator[str]:
    if value is None or isinstance(value, (bool, int, float, str, bytes)):
        yield f"{type(value).__name__}:{value!r}"
    elif depth == 0:
        yield _name(type(value))
    elif isinstance(value, np.ndarray):
        content = hashlib.sha256(np.ascontiguousarray(value).tobytes()).hexdigest()
        yield f"array:{value.dtype}:{value.shape}:{content}"
    elif isinstance(value, Mapping):
        yield f"{len(value)} pairs"
        for key in sorted(value, key=repr):
            yield from _parts(key, depth - 1, seen)
            yield from _parts(value[key], depth - 1, seen)
    elif isinstance(value, (list, tuple)):
        yield f"{len(value)} items"
        for item in value:
            yield from _parts(item, depth - 1, seen)
    elif isinstance(value, (set, frozenset)):
        yield from sorted(fingerprint(item) for item in value)
    elif isinstance(value, type):
        yield _name(value)
    elif id(value) in seen:
        yield f"again {list(seen).index(id(value))}"
    else:
        seen[id(value)] = value  # kept, so that no other object can take its id
        yield from _object(value, depth - 1, seen)


def _object(value: Any, depth: int, seen: dict[int, Any]) -> Iterator[str]:
    if isinstance(value, MethodType):
        yield from _parts([value.__func__, value.__self__], depth, seen)
    elif isinstance(value, functools.partial):
        yield from _parts([value.func, value.args, value.keywords], depth, seen)
    elif isinstance(value, FunctionType):
        yield f"{value.__module__}.{value.__qualname__}:{value.__code__.co_code.hex()}"
        constants = [c for c in value.__code__.co_consts if not hasattr(c, "co_code")]
        captured = [c.cell_contents for c in value.__closure__ or ()]
        yield from _parts([constants, value.__defaults__, captured], depth, seen)
    else:
        yield _name(type(value))
        yield from _parts(_settings(value), depth, seen)


def _settings(value: Any) -> dict[str, Any]:
    if dataclasses.is_dataclass(value):
        return {f.name: getattr(value, f.name) for f in dataclasses.fields(value)}
    fields: dict[str, Any] = getattr(value, "__dict__", {})
    hidden = ("callback_manager",) if isinstance(value, BaseComponent) else ()
    return {name: v for name, v in fields.items() if not name.startswith("_") and name not in hidden}


def _name(cls: type) -> str:
    return f"{cls.__module__}.{cls.__qualname__}"
