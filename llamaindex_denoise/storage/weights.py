"""Arrays, torch modules, tokenizers and files for `fingerprint`, by what they hold."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np

_PIECE = 1 << 24  # bytes of a file read at a time


def array(value: Any) -> str:
    content = hashlib.sha256(np.ascontiguousarray(value).tobytes()).hexdigest()
    return f"array:{value.dtype}:{value.shape}:{content}"


def is_model(value: Any) -> bool:
    return _is_module(value) or _is_tensor(value) or _definition(value) is not None


def parts_of(value: Any) -> list[str] | None:
    """What a module, a tensor or a tokenizer holds; None for anything else."""
    if _is_tensor(value):
        return [_tensor(value)]
    if _is_module(value):
        config: Any = getattr(value, "config", None)
        said = config.to_json_string() if hasattr(config, "to_json_string") else ""
        return ["module", str(said), _state(value)]
    definition = _definition(value)
    return None if definition is None else ["tokenizer", definition]


def files_at(path: str | Path) -> Iterator[str]:
    """Name and content of a file, or of every file of a folder; nothing when there is none."""
    try:
        place = Path(path)
        found = sorted(place.rglob("*")) if place.is_dir() else [place] if place.is_file() else []
    except (OSError, ValueError):  # not a path after all
        return
    for file in found:
        if file.is_file():
            stat = file.stat()
            yield f"{file.relative_to(place)}:{_content(str(file.resolve()), stat.st_size, stat.st_mtime_ns)}"


@lru_cache(maxsize=4096)
def _content(path: str, size: int, changed: int) -> str:
    digest = hashlib.sha256()
    with open(path, "rb") as file:
        while piece := file.read(_PIECE):
            digest.update(piece)
    return digest.hexdigest()


def _is_module(value: Any) -> bool:
    return callable(getattr(value, "state_dict", None)) and callable(getattr(value, "named_parameters", None))


def _is_tensor(value: Any) -> bool:
    return type(value).__module__.split(".")[0] == "torch" and hasattr(value, "data_ptr")


def _state(module: Any) -> str:
    """A hash of every parameter and buffer."""
    digest = hashlib.sha256()
    for name, value in sorted(module.state_dict(keep_vars=True).items()):
        digest.update(f"{name}:{_tensor(value) if _is_tensor(value) else repr(value)}".encode())
    return digest.hexdigest()


def _tensor(value: Any) -> str:
    plain = value.detach().cpu().contiguous()
    content = hashlib.sha256(plain.reshape(-1).view(_bytes()).numpy().tobytes()).hexdigest()
    return f"tensor:{plain.dtype}:{tuple(plain.shape)}:{content}"


def _bytes() -> Any:
    import torch  # there when a tensor is

    return torch.uint8


def _definition(value: Any) -> str | None:
    """A fast tokenizer's own JSON."""
    inner = getattr(value, "backend_tokenizer", value)
    write = getattr(inner, "to_str", None)
    if type(inner).__module__.split(".")[0] != "tokenizers" or not callable(write):
        return None
    return str(write())
