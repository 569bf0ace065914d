"""Import a heavy dependency at the moment it is used."""

from __future__ import annotations

import importlib
from typing import Any

from denoise_core.errors import MissingExtra


def require(module: str, *, extra: str, package: str | None = None) -> Any:
    """The module, or `MissingExtra` with the command that installs it.

    ``package`` names one that no extra brings, because few need it and it is heavy.
    """
    try:
        return importlib.import_module(module)
    except ModuleNotFoundError as error:
        # A missing dependency *of* the module is the same problem for the user; anything else is a bug
        # in it that must show as itself.
        what = package or f"'rag-denoise[{extra}]'"
        raise MissingExtra(
            f"{error.name!r} is needed for this and is not installed; run: pip install {what}"
        ) from error
