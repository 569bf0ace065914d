"""The command ``rag-denoise``."""

from __future__ import annotations

import os
import sys

from denoise_core.errors import DenoiseError

INTERRUPTED = 130  # the status after Ctrl-C


def main() -> None:
    """Run the command. An error on purpose ends in one line that names the fix, and exit status 2."""
    os.environ.setdefault("HF_HUB_DISABLE_PROGRESS_BARS", "1")  # our own progress is what is shown
    try:
        from denoise_core.cli.app import app

        app()
    except ModuleNotFoundError as error:
        if error.name not in ("typer", "rich", "jinja2"):
            raise
        _end(f"the command needs {error.name!r}; run: pip install 'rag-denoise[embedded,knowledge,cli]'")
    except (DenoiseError, OSError) as error:
        _end(str(error))
    except SystemExit as ended:
        if ended.code == INTERRUPTED:
            sys.stderr.write("interrupted; nothing was left half-written\n")
        raise


def _end(message: str) -> None:
    from denoise_core.cli.plain import plain

    sys.stderr.write(f"rag-denoise: {plain(' '.join(message.split()))}\n")
    sys.exit(2)
