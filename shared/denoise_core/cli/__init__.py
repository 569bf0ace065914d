"""The command ``rag-denoise``."""

from __future__ import annotations

import os
import sys

from denoise_core.errors import DenoiseError


def main() -> None:
    """Run the command. An error on purpose ends in one line that names the fix, and exit status 2."""
    os.environ.setdefault("HF_HUB_DISABLE_PROGRESS_BARS", "1")  # our own progress is what is shown
    try:
        from denoise_core.cli.app import app

        app()
    except ModuleNotFoundError as error:
        if error.name not in ("typer", "rich", "jinja2"):
            raise
        _end(f"the command needs {error.name!r}; run: pip install 'rag-denoise[embedded]'")
    except DenoiseError as error:
        _end(str(error))
    except KeyboardInterrupt:
        sys.stderr.write("interrupted; nothing was left half-written\n")
        sys.exit(130)


def _end(message: str) -> None:
    sys.stderr.write(f"rag-denoise: {' '.join(message.split())}\n")
    sys.exit(2)
