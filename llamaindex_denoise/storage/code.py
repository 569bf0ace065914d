"""Functions and classes for `fingerprint`: bytecode, constants, inner code, and the globals they name."""

from __future__ import annotations

import hashlib
import sys
from collections.abc import Iterator, Mapping
from functools import cache
from importlib.metadata import packages_distributions, version
from pathlib import Path
from types import CodeType, FunctionType
from typing import Any, Protocol

_OURS = ("denoise_core", "llamaindex_denoise")


class Reads(Protocol):
    """Whoever walks on from here, and what it could not read."""

    unknown: list[str]

    def parts(self, value: Any, at: str, depth: int) -> Iterator[str]: ...


def function_parts(value: FunctionType, reader: Reads, at: str, depth: int) -> Iterator[str]:
    """Code, defaults, captured values, and what the code names of its module."""
    yield f"{value.__module__}.{value.__qualname__}"
    if _installed(value.__module__):
        yield version_of(value.__module__, reader)
        captured = [c.cell_contents for c in value.__closure__ or () if _filled(c)]
        yield from reader.parts([value.__defaults__, captured], f"{at}.{value.__name__}", depth)
        return
    yield from _code_parts(value.__code__)
    kept = {
        "defaults": value.__defaults__,
        "keywords": value.__kwdefaults__,
        "captured": [c.cell_contents for c in value.__closure__ or () if _filled(c)],
        "globals": {n: value.__globals__[n] for n in _named(value.__code__) if n in value.__globals__},
    }
    yield from reader.parts(kept, f"{at}.{value.__name__}", depth)


def class_parts(value: type, reader: Reads, at: str, depth: int) -> Iterator[str]:
    """The class, its bases and what they define; an installed package's by its version."""
    for cls in value.__mro__:
        yield name_of(cls)
        if _installed(cls.__module__):
            yield version_of(cls.__module__, reader)
            continue
        for name, member in sorted(vars(cls).items()):
            found = _member(member)
            made = name.startswith("__") and not isinstance(
                found, FunctionType
            )  # by Python, dataclasses, pydantic
            if found is None or made or name in ("model_config", "__annotate__", "__annotate_func__"):
                continue
            yield f".{name}"
            yield from reader.parts(found, f"{name_of(cls)}.{name}", depth)


def _member(member: Any) -> Any:
    """The function or the value behind a member of a class; None for what Python puts there itself."""
    if isinstance(member, (staticmethod, classmethod)):
        return member.__func__
    if isinstance(member, property):
        return [f for f in (member.fget, member.fset) if f is not None]
    kept = (FunctionType, str, int, float, bool, bytes, tuple, list, dict, set, frozenset, type)
    return member if isinstance(member, kept) or hasattr(member, "__wrapped__") else None


def _code_parts(code: CodeType) -> Iterator[str]:
    yield code.co_code.hex()
    yield repr((code.co_names, code.co_freevars, code.co_argcount, code.co_kwonlyargcount, code.co_flags))
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _code_parts(constant)
        elif isinstance(constant, frozenset):
            yield repr(sorted(map(repr, constant)))
        else:
            yield repr(constant)


def _named(code: CodeType) -> list[str]:
    inner = (n for c in code.co_consts if isinstance(c, CodeType) for n in _named(c))
    return list(dict.fromkeys([*code.co_names, *inner]))


def _filled(cell: Any) -> bool:
    try:
        cell.cell_contents  # noqa: B018
    except ValueError:  # a name that is not bound yet
        return False
    return True


def name_of(cls: type) -> str:
    return f"{cls.__module__}.{cls.__qualname__}"


def ours(cls: type) -> bool:
    """Whether the class is this project's, whose private attributes hold no setting but constructor arguments."""
    return cls.__module__.split(".")[0] in _OURS


def _installed(module: str | None) -> bool:
    """Whether one version stands for all of the module's code: Python's own, an installed package's, or ours."""
    top = (module or "").split(".")[0]
    if top in _OURS or (top in sys.stdlib_module_names and top != "__main__"):
        return True
    place = getattr(sys.modules.get(module or ""), "__file__", None) or ""
    return "site-packages" in place or "dist-packages" in place


def version_of(module: str, reader: Reads) -> str:
    """The versions of the distributions that bring the module's package; without one the hash of its file; without
    that ``reader`` is told that the module is unknown."""
    top = module.split(".")[0]
    if top in _OURS:
        return f"{top} {_sources(top)}"
    if top in sys.stdlib_module_names:
        return f"{top} {sys.version}"
    found = _released(top, module)
    if not found:
        reader.unknown.append(f"the version of {module}")
    return found


@cache
def _released(top: str, module: str) -> str:
    named = sorted(set(_distributions().get(top, ())))
    if named:
        return f"{top} " + " ".join(f"{name} {version(name)}" for name in named)
    file = getattr(sys.modules.get(module), "__file__", None)
    if file and Path(file).is_file():
        return f"{top} {hashlib.sha256(Path(file).read_bytes()).hexdigest()}"
    return ""


@cache
def _distributions() -> Mapping[str, list[str]]:
    return packages_distributions()


@cache
def _sources(package: str) -> str:
    """A hash of a package's own source files: a version does not change while somebody works on it."""
    digest = hashlib.sha256()
    for folder in sys.modules[package].__path__:
        for file in sorted(Path(folder).rglob("*.py")):
            digest.update(f"{file.relative_to(folder)}".encode() + file.read_bytes())
    return digest.hexdigest()
