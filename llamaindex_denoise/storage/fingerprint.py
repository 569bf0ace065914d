"""A hash of what decides what a denoiser does: settings, prompts, weights, files, and the releases of its code.

Ours counts by its sources, Python's and an installed package's by version. Code of the user's own has no release
by which an edit shows, so it is named for the caller not to cache.
"""

from __future__ import annotations

import dataclasses
import enum
import functools
import hashlib
import inspect
import logging
import re
import sys
import types
from collections.abc import Iterator, Mapping
from concurrent.futures import Executor
from contextlib import suppress
from contextvars import ContextVar
from importlib.metadata import packages_distributions, version
from pathlib import Path
from threading import Thread
from typing import Any
from uuid import uuid4

import numpy as np
from llama_index.core.bridge.pydantic import BaseModel, SecretStr

_DEPTH = 50
_OURS = ("denoise_core", "llamaindex_denoise")

_NO_SETTING = re.compile(
    r"(?i)^_*+(api_?key|(access|auth|bearer|hf|id|refresh)_token|token|secret\w*|password|credentials?|authorization"
    r"|default_headers|headers|organization|timeout\w*|\w+_timeout|max_retries|call_seconds|callback_manager)$"
)
"""Names of attributes that say who asks and how long it waits, not what comes back."""

_RUNNING = ("httpx", "openai", "requests", "aiohttp", "urllib3", "anthropic", "cohere", "ssl", "socket", "_thread",
            "threading", "asyncio", "_asyncio")  # fmt: skip
_FILES = re.compile(r"(?i)^_*+(model|model_name|model_id|model_path|tokenizer|path|folder|file|weights|probe)$")

_PLAIN = (bool, int, float, complex, str, bytes, range, Path, type(None))
_CODE = (type, types.FunctionType, types.BuiltinFunctionType, types.MethodDescriptorType, np.ufunc)


@dataclasses.dataclass(frozen=True, slots=True)
class Fingerprint:
    """``digest`` is sha256 in hexadecimal; where ``unknown`` names what could not be read, it is like no other."""

    digest: str
    unknown: tuple[str, ...] = ()


def fingerprint(value: object) -> Fingerprint:
    """Equal for equal code and settings in every process of one Python version; it holds none readably.

    Read are the attributes of services and LlamaIndex components, what is bound to functions and captured by
    them, arrays, tensors and torch modules by their values, tokenizers by their definition, named files and
    folders by content. Left out are credentials, time-outs, connections, locks, and of this package's own classes
    what they keep while they run.
    """
    reader = _Reader()
    digest = hashlib.sha256("".join(map(str, map(_release, _OURS))).encode())
    for part in reader.parts(value, type(value).__name__, _DEPTH):
        digest.update(part.encode("utf-8", "surrogatepass") + b"\0")
    if reader.unknown:
        return Fingerprint(f"unknown-{uuid4().hex}", tuple(dict.fromkeys(reader.unknown)))
    return Fingerprint(digest.hexdigest())


class _Reader:
    """One walk: what was seen, and what could not be read."""

    def __init__(self) -> None:
        self.seen: dict[int, tuple[int, Any]] = {}
        self.unknown: list[str] = []

    def parts(self, value: Any, at: str, depth: int) -> Iterator[str]:
        yield type(value).__name__
        if isinstance(value, _PLAIN) and not isinstance(value, enum.Enum):
            yield repr(value)
            if isinstance(value, Path) or (isinstance(value, str) and _FILES.match(at.rsplit(".", 1)[-1])):
                yield from _files_at(value)
        elif id(value) in self.seen:
            yield f"again {self.seen[id(value)][0]}"
        elif depth == 0:
            self.unknown.append(f"{at} (nested too deep)")
        elif not _is_running(value):
            self.seen[id(value)] = (len(self.seen), value)  # kept, so that no other object can take its id
            kinds = (value if isinstance(value, type) else type(value)).__mro__
            for name, module in [_place(c) for c in kinds] + ([_place(value)] if isinstance(value, _CODE) else []):
                if (release := _release(module)) is None:
                    self.unknown.append(f"{at} ({module}.{name}, code of no release)")
                yield f"{module}.{name} {release}"
            settings: Mapping[str, Any] | None = None
            with suppress(Exception):  # what raises while it is read is unknown
                settings = {} if isinstance(value, type) else _settings_of(value)
            if settings is None:
                self.unknown.append(f"{at} ({type(value).__qualname__})")
            for name, inner in (settings or {}).items():
                if not _NO_SETTING.match(name):
                    yield f".{name}"
                    yield from self.parts(inner, f"{at}.{name}", depth - 1)


def _place(code: Any) -> tuple[str, str]:
    """Name and module of a class or function; of one without a module, that of its kind."""
    module = getattr(code, "__module__", None)
    name = getattr(code, "__qualname__", None) or code.__name__
    return name, module if isinstance(module, str) else type(code).__module__


_distributions = functools.cache(packages_distributions)


@functools.cache
def _release(module: str) -> str | None:
    """What tells the code of a module from that of another time; None for a user's own, which may change."""
    top = module.split(".")[0]
    if top in _OURS:
        return _sources(top)
    if top in sys.stdlib_module_names and top != "__main__":
        return sys.version
    file = getattr(sys.modules.get(module) or sys.modules.get(top), "__file__", None) or ""
    if "site-packages" not in file and "dist-packages" not in file:
        return None
    return " ".join(f"{name} {version(name)}" for name in sorted(set(_distributions().get(top, ())))) or None


def _sources(package: str) -> str:
    """A hash of a package's own source files: a version does not change while somebody works on it."""
    digest = hashlib.sha256()
    for folder in sys.modules[package].__path__:
        for file in sorted(Path(folder).rglob("*.py")):
            digest.update(f"{file.relative_to(folder)}".encode() + file.read_bytes())
    return digest.hexdigest()


def _is_running(value: Any) -> bool:
    """What serves a run and is no setting: locks, threads, connections."""
    running = isinstance(value, (Executor, Thread, ContextVar, logging.Logger, SecretStr))
    return running or type(value).__module__.split(".")[0] in _RUNNING


def _settings_of(value: Any) -> Mapping[str, Any] | None:
    """What decides what an object does beside its code, by name; None where that cannot be read."""
    if isinstance(value, Mapping):
        return {k if isinstance(k, str) else f"[{k!r}]": value[k] for k in sorted(value, key=repr)}
    if isinstance(value, (list, tuple)):
        return {str(i): v for i, v in enumerate(value)}
    if isinstance(value, (set, frozenset)):
        return {"members": sorted(map(repr, value))} if all(isinstance(v, _PLAIN) for v in value) else None
    if isinstance(value, types.ModuleType):
        release = _release(value.__name__)
        return None if release is None else {"name": value.__name__, "release": release}
    for kind, names in _BOUND.items():
        if isinstance(value, kind):
            return {n: getattr(value, n, None) for n in names}
    if isinstance(value, types.FunctionType):
        bound = [value.__defaults__, value.__kwdefaults__, *(c.cell_contents for c in value.__closure__ or ())]
        return {"line": value.__code__.co_firstlineno, "bound": bound}
    if isinstance(wrapped := getattr(value, "__wrapped__", None), types.FunctionType):
        return {"wrapped": wrapped}
    weights = _weights_of(value)
    return _attributes(value) if weights is None else weights


_BOUND: Mapping[type | tuple[type, ...], tuple[str, ...]] = {
    enum.Enum: ("name", "value"),
    re.Pattern: ("pattern", "flags"),
    types.MethodType: ("__func__", "__self__"),
    functools.partial: ("func", "args", "keywords"),
    (types.BuiltinFunctionType, types.MethodDescriptorType, np.ufunc): ("__self__",),
}
"""Of kinds of objects that keep no dictionary, the attributes that decide."""


def _attributes(value: Any) -> Mapping[str, Any] | None:
    """The attributes of an object that are settings; None for an object that shows none at all."""
    if dataclasses.is_dataclass(value):
        return {f.name: getattr(value, f.name) for f in dataclasses.fields(value)}
    if isinstance(value, BaseModel):
        hidden = value.__pydantic_private__ or {}
        return dict(sorted({**vars(value), **{k: v for k, v in hidden.items() if _is_data(v)}}.items()))
    state = object.__getstate__(value)
    if state is None and not hasattr(value, "__dict__"):
        return None
    plain, slots = state if isinstance(state, tuple) else (state, None)
    found = dict(sorted({**(plain or {}), **(slots or {})}.items()))  # pyright: ignore
    if type(value).__module__.split(".")[0] not in _OURS:
        return found
    given = inspect.signature(type(value)).parameters  # what else is private is kept for a run
    return {k: v for k, v in found.items() if not k.startswith("_") or k[1:] in given}


def _is_data(value: Any) -> bool:
    """Of what a component keeps privately: plain data, code and models count, clients and managers do not."""
    plain = (*_PLAIN, list, tuple, dict, set, frozenset, np.ndarray, types.FunctionType, functools.partial)
    return isinstance(value, plain) or _weights_of(value) is not None


def _weights_of(value: Any) -> Mapping[str, Any] | None:
    """What an array, a torch module or tensor, or a fast tokenizer holds; None for anything else."""
    top = type(value).__module__.split(".")[0]
    if isinstance(value, (np.ndarray, np.generic)):
        content = hashlib.sha256(np.ascontiguousarray(value).tobytes()).hexdigest()
        return None if value.dtype.hasobject else {"of": f"{value.dtype}{value.shape}", "values": content}
    if top == "torch" and hasattr(value, "data_ptr"):
        import torch  # there when a tensor is

        plain = value.detach().cpu().contiguous()
        return {"of": f"{plain.dtype}{tuple(plain.shape)}", "bytes": plain.reshape(-1).view(torch.uint8).numpy()}
    if callable(getattr(value, "state_dict", None)) and callable(getattr(value, "named_parameters", None)):
        made = [repr(value), str(getattr(value, "config", "")), *dict.fromkeys(map(type, value.modules()))]
        return {"made": made, "state": list(value.state_dict().items())}
    tokenizer = getattr(value, "backend_tokenizer", value)
    if type(tokenizer).__module__.split(".")[0] == "tokenizers" and callable(getattr(tokenizer, "to_str", None)):
        return {"definition": tokenizer.to_str()}
    return None


def _files_at(path: str | Path) -> Iterator[str]:
    """Name and content of a file, or of every file of a folder; nothing when there is none."""
    try:
        place = Path(path)
        found = sorted(place.rglob("*")) if place.is_dir() else [place]
        for file in (f for f in found if f.is_file()):
            stat = file.stat()
            yield f"{file.relative_to(place)}:{_content(str(file.resolve()), stat.st_size, stat.st_mtime_ns)}"
    except (OSError, ValueError):  # not a path after all
        return


@functools.lru_cache(maxsize=4096)
def _content(path: str, size: int, changed: int) -> str:
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
