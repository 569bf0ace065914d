"""Import a heavy dependency at the moment it is used."""

from __future__ import annotations

import importlib
from typing import Any

from denoise_core.errors import MissingExtra


def require(module: str, *, extra: str) -> Any:
    """The module, or `MissingExtra` with the command that installs it."""
    try:
        return importlib.import_module(module)
    except ModuleNotFoundError as error:
        # A missing dependency *of* the module is the same problem for the user; anything else is a bug
        # in it that must show as itself.
        raise MissingExtra(
            f"{error.name!r} is needed for this and is not installed; run: pip install 'rag-denoise[{extra}]'"
        ) from error


def render_html(page: str, value: object) -> str | None:
    """``value`` as HTML for a notebook, by ``fragment`` of a module of `denoise_core.report`, or of one by
    its whole name.

    None without the extra ``cli``: a notebook then shows the one-line repr. The module is asked for by its name,
    because pages know what they show and not the other way round.
    """
    try:
        module = page if "." in page else f"denoise_core.report.{page}"
        html: str = require(module, extra="cli").fragment(value)
    except MissingExtra:
        return None
    return html
