"""All verbs of ``rag-denoise``."""

from __future__ import annotations

from importlib import import_module

from denoise_core.cli import VERBS
from denoise_core.cli.options import app

__all__ = ["app"]

for verb in VERBS:  # in the order of the help
    import_module(f"denoise_core.cli.{verb}")
