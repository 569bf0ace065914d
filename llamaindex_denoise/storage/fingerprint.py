"""A hash of everything that decides what a denoiser does: code, settings, prompts, weights and files.

Two that do the same may differ (an edited comment does not, a renamed variable may); two that differ in what is
listed at `fingerprint` do not agree. What cannot be read so is named, for the caller not to cache.
"""

from __future__ import annotations

import dataclasses
import enum
import functools
import hashlib
import inspect
import logging
import re
import types
from collections.abc import Iterator, Mapping
from concurrent.futures import Executor
from contextvars import ContextVar
from pathlib import Path
from threading import Thread
from types import FunctionType, MethodType, ModuleType
from typing import Any

import numpy as np
from llama_index.core.bridge.pydantic import SecretStr
from llama_index.core.schema import BaseComponent

import denoise_core
from llamaindex_denoise.storage import weights
from llamaindex_denoise.storage.code import class_parts, function_parts, name_of, ours, version_of

_DEPTH = 50

_NO_SETTING = re.compile(
    r"(?i)^_*+(api_?key|(access|auth|bearer|hf|id|refresh)_token|token|secret\w*|password|credentials?|authorization"
    r"|default_headers|headers|organization|timeout\w*|\w+_timeout|max_retries|call_seconds|callback_manager)$"
)
"""Names of attributes that say who asks and how long it waits, not what comes back."""

_CONNECTIONS = ("httpx", "openai", "requests", "aiohttp", "urllib3", "anthropic", "cohere", "ssl", "socket")
_RUNNING = (Executor, Thread, ContextVar, logging.Logger, SecretStr)
_FILES = re.compile(r"(?i)^_*+(model|model_name|model_id|model_path|tokenizer|path|folder|file|weights|probe)$")


@dataclasses.dataclass(frozen=True, slots=True)
class Fingerprint:
    """``digest`` is sha256 in hexadecimal; ``unknown`` names what could not be read into it."""

    digest: str
    unknown: tuple[str, ...] = ()


def fingerprint(value: object) -> Fingerprint:
    """Equal for equal code and settings in every process of one Python version; it holds none readably.

    Read are the attributes of services and LlamaIndex components; functions and methods by bytecode, constants,
    inner functions, defaults, captured values and the globals they name; arrays, tensors and torch modules by
    their values; tokenizers by their definition; named files and folders by content; installed packages by their
    version. Left out are credentials, time-outs, connections, locks, and of this package's own classes what they
    keep while they run.
    """
    reader = _Reader()
    digest = hashlib.sha256(denoise_core.__version__.encode())
    for part in reader.parts(value, type(value).__name__, _DEPTH):
        digest.update(part.encode("utf-8", "surrogatepass") + b"\0")
    return Fingerprint(digest.hexdigest(), tuple(dict.fromkeys(reader.unknown)))


class _Reader:
    """One walk: what was seen, and what could not be read."""

    def __init__(self) -> None:
        self.seen: dict[int, Any] = {}
        self.unknown: list[str] = []

    def parts(self, value: Any, at: str, depth: int) -> Iterator[str]:
        if value is None or isinstance(value, (bool, int, float, complex, bytes, range)):
            yield f"{type(value).__name__}:{value!r}"
        elif isinstance(value, (str, Path)):
            yield f"{type(value).__name__}:{value}"
            name = at.rsplit(".", 1)[-1]
            if isinstance(value, Path) or _FILES.match(name):
                yield from weights.files_at(value)
        elif depth == 0:
            self.unknown.append(f"{at} (nested too deep)")
        elif isinstance(value, enum.Enum):
            yield f"{name_of(type(value))}.{value.name}"
        elif isinstance(value, re.Pattern):
            yield f"pattern:{value.pattern!r}:{value.flags}"
        elif isinstance(value, np.ndarray):
            yield weights.array(value)
        elif isinstance(value, ModuleType):
            yield f"module {value.__name__} {version_of(value.__name__, self)}"
        elif id(value) in self.seen:
            yield f"again {list(self.seen).index(id(value))}"
        else:
            self.seen[id(value)] = value  # kept, so that no other object can take its id
            yield from self._container(value, at, depth - 1)

    def _container(self, value: Any, at: str, depth: int) -> Iterator[str]:
        if isinstance(value, Mapping):
            yield f"{len(value)} pairs"
            for key in sorted(value, key=repr):
                if not (isinstance(key, str) and _NO_SETTING.match(key)):
                    yield from self.parts(key, f"{at}[key]", depth)
                    yield from self.parts(value[key], f"{at}.{key}", depth)
        elif isinstance(value, (list, tuple)) and not hasattr(value, "_fields"):
            yield f"{type(value).__name__} of {len(value)}"
            for i, item in enumerate(value):
                yield from self.parts(item, f"{at}[{i}]", depth)
        elif isinstance(value, (set, frozenset)):
            inner = [fingerprint(item) for item in value]
            self.unknown += [f"{at}: {u}" for f in inner for u in f.unknown]
            yield from sorted(f.digest for f in inner)
        else:
            yield from self._object(value, at, depth)

    def _object(self, value: Any, at: str, depth: int) -> Iterator[str]:
        if isinstance(value, type):
            yield from class_parts(value, self, at, depth)
        elif isinstance(value, MethodType):
            yield from self.parts([value.__func__, value.__self__], at, depth)
        elif isinstance(value, functools.partial):
            yield from self.parts([value.func, value.args, value.keywords], at, depth)
        elif isinstance(value, FunctionType):
            yield from function_parts(value, self, at, depth)
        elif isinstance(wrapped := getattr(value, "__wrapped__", None), FunctionType):
            yield from function_parts(wrapped, self, at, depth)
        elif isinstance(value, (types.BuiltinFunctionType, np.ufunc, types.MethodDescriptorType)):
            yield f"builtin {getattr(value, '__module__', '')}.{value.__name__}"
        elif (found := weights.parts_of(value)) is not None:
            yield from found
            yield from class_parts(type(value), self, at, depth)
        elif not _is_running(value):
            yield from class_parts(type(value), self, at, depth)
            yield from self._settings(value, at, depth)

    def _settings(self, value: Any, at: str, depth: int) -> Iterator[str]:
        settings = _settings_of(value)
        if settings is None:
            yield from self._reduced(value, at, depth)
            return
        for name in sorted(settings):
            if not _NO_SETTING.match(name):
                yield f".{name}"
                yield from self.parts(settings[name], f"{at}.{name}", depth)

    def _reduced(self, value: Any, at: str, depth: int) -> Iterator[str]:
        """What pickle would keep of an object that shows no attributes (dates, decimals, deques)."""
        try:
            reduced = value.__reduce_ex__(2)
        except Exception:
            self.unknown.append(f"{at} ({name_of(type(value))})")
            return
        kept = reduced if isinstance(reduced, str) else [list(p) if hasattr(p, "__next__") else p for p in reduced]
        yield from self.parts(kept, at, depth)


def _settings_of(value: Any) -> dict[str, Any] | None:
    """The attributes that are settings, by name; None for an object that shows none at all."""
    if dataclasses.is_dataclass(value):
        return {f.name: getattr(value, f.name) for f in dataclasses.fields(value)}
    fields = getattr(value, "__dict__", None)
    if isinstance(value, BaseComponent):
        hidden = getattr(value, "__pydantic_private__", None) or {}
        return {**(fields or {}), **{k: v for k, v in hidden.items() if _is_data(v)}}
    slots = [s for c in type(value).__mro__ for s in _names(vars(c).get("__slots__", ()))]
    if fields is None and not slots:
        return None
    found = {**(fields or {}), **{s: getattr(value, s) for s in slots if hasattr(value, s)}}
    if not ours(type(value)):
        return found
    given = set(inspect.signature(type(value)).parameters)
    return {k: v for k, v in found.items() if not k.startswith("_") or k[1:] in given}


def _names(slots: Any) -> list[str]:
    return [slots] if isinstance(slots, str) else [s for s in slots if s not in ("__dict__", "__weakref__")]


def _is_data(value: Any) -> bool:
    """Of what a component keeps privately: plain data, code and models count, clients and managers do not."""
    plain = (str, int, float, bool, list, tuple, dict, set, frozenset, np.ndarray, FunctionType, functools.partial)
    return isinstance(value, plain) or weights.is_model(value)


def _is_running(value: Any) -> bool:
    """What serves a run and is no setting: locks, threads, connections."""
    module = type(value).__module__.split(".")[0]
    return isinstance(value, _RUNNING) or module in ("_thread", "threading", "asyncio", "_asyncio", *_CONNECTIONS)
