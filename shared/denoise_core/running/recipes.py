"""What goes to other processes goes as a recipe: the settings it was made with, and it opens there.

A pickle of a `Travels` holds its class, its settings and the marks of what they name. It holds no weights, no
lock, no open file or connection, nothing that was computed and no secret. This package reads no
pickle from outside; workers of `service.bulk` read those of the process that started them.
"""

from __future__ import annotations

import copy
import hashlib
import inspect
import os
from pathlib import Path
from typing import Any, ClassVar, Self

from denoise_core._secrets import without_secrets
from denoise_core.errors import InputError

_READ = 1 << 20  # bytes; of larger files the size counts


class Travels:
    """A base for services: pickled, it is made anew on arrival with the settings of its constructor.

    Each parameter of the constructor is an attribute of the same name, or of that name behind an underscore; a
    class for which that is not so overrides `recipe`. ``named`` are the settings that may name a folder: where
    they do, the folder must be there on arrival, with the same files. Paths travel absolute. What was read,
    counted and cached stays behind. `copy.copy` shares everything, `copy.deepcopy` makes it anew with copies of
    its settings.

    Pickling raises `InputError` for a setting that is a loaded model; arrival raises it for a folder that is
    missing or holds other files.
    """

    named: ClassVar[tuple[str, ...]] = ()

    def recipe(self) -> dict[str, Any]:
        """The constructor's arguments by name."""
        own, out = vars(self), {}
        for name in inspect.signature(type(self)).parameters:
            place = name if name in own else f"_{name}"
            if place not in own:
                raise TypeError(f"{type(self).__name__} keeps no {name!r}, so it has to define recipe()")
            out[name] = own[place]
        return out

    def marks(self) -> dict[str, str]:
        """What must be the same on arrival, by name: by default a hash of each folder that a setting names."""
        settings = self.recipe()
        return {n: folder_mark(settings[n]) for n in self.named if _is_folder(settings.get(n))}

    def __reduce__(self) -> tuple[Any, ...]:
        settings = self.recipe()
        for name, value in settings.items():
            if holds_weights(value):
                raise InputError(
                    f"{type(self).__name__}({name}=...) holds a loaded model, and weights do not travel to other "
                    "processes: give the model by name or folder, it is opened there"
                )
            if hasattr(type(value), "model_fields"):  # a framework's component, with its keys
                settings[name] = without_secrets(value)
            if isinstance(value, Path) or (name in self.named and _is_folder(value)):
                settings[name] = type(value)(os.path.abspath(value))
        return _arrived, (type(self), settings, self.marks())

    def __copy__(self) -> Self:
        twin = object.__new__(type(self))
        vars(twin).update(vars(self))
        return twin

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        return type(self)(**copy.deepcopy(self.recipe(), memo))


def _arrived(kind: type[Travels], settings: dict[str, Any], marks: dict[str, str]) -> Travels:
    """A recipe made real. Raises `InputError` where something that it names is missing or another."""
    for name in marks:
        if name in settings and not _is_folder(settings[name]):
            raise InputError(
                f"{kind.__name__}({name}={settings[name]!r}): there is no such folder on this machine"
            )
    made = kind(**settings)
    here = made.marks()
    if wrong := sorted(name for name, mark in marks.items() if here.get(name) != mark):
        raise InputError(
            f"{kind.__name__}: {', '.join(wrong)} is not what it was where this came from; put the same files and "
            "the same version of this package on both sides"
        )
    return made


def folder_mark(folder: str | Path) -> str:
    """sha256 over names and sizes of the files directly in a folder, and over the text of its JSON files."""
    digest = hashlib.sha256()
    for path in sorted(p for p in Path(folder).iterdir() if p.is_file() and not p.name.startswith(".")):
        size = path.stat().st_size
        digest.update(f"{path.name}\0{size}\0".encode())
        if path.suffix == ".json" and size <= _READ:
            digest.update(path.read_bytes())
    return digest.hexdigest()


def holds_weights(value: Any) -> bool:
    """Whether it is a loaded torch model, a method of one, or a pipeline around one."""
    inner = (value, getattr(value, "__self__", None), getattr(value, "model", None))
    return any(not isinstance(v, type) and callable(getattr(v, "state_dict", None)) for v in inner)


def _is_folder(value: Any) -> bool:
    return isinstance(value, str | Path) and os.path.isdir(value)
