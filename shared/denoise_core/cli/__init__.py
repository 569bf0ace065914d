"""The command ``rag-denoise``."""

from __future__ import annotations

import importlib
import os
import sys

from denoise_core.errors import DenoiseError, is_refusal, said

VERBS = ("demo", "run", "check", "serve", "mcp", "bulk", "fit", "calibrate", "evaluate", "record")
INTERRUPTED = 130  # the status after Ctrl-C


def main(name: str = "rag-denoise", module: str | None = None) -> None:
    """Run the command ``name``, the ``app`` of a module; without one that of the verb that is asked for, so that
    no other is loaded. An error on purpose, or a refused key, ends in one line and exit status 2."""
    asked = sys.argv[1] if sys.argv[1:] and sys.argv[1] in VERBS else "app"
    os.environ.setdefault("HF_HUB_DISABLE_PROGRESS_BARS", "1")  # our own progress is what is shown
    try:
        importlib.import_module(module or f"denoise_core.cli.{asked}").app()
    except ModuleNotFoundError as error:
        if error.name not in ("typer", "rich", "jinja2"):
            raise
        _end(name, f"the command needs {error.name!r}; run: pip install 'rag-denoise[cli]'")
    except Exception as error:
        if not isinstance(error, DenoiseError | OSError) and not is_refusal(error):
            raise
        _end(name, said(error) if is_refusal(error) else str(error))
    except SystemExit as ended:
        if ended.code == INTERRUPTED:
            sys.stderr.write("interrupted; nothing was left half-written\n")
        raise


def _end(name: str, message: str) -> None:
    from denoise_core.cli.plain import plain

    sys.stderr.write(f"{name}: {plain(' '.join(message.split()))}\n")
    sys.exit(2)
